#include "recorder.hpp"

#include "functors.hpp"
#include "strata.hpp"
#include "text.hpp"

namespace dl {

namespace {

// The fields of a record or branch, which may be nil; a branch without any fields is a number.
std::vector<Value> fields_of(const Type& type, Value value, const Records& records) {
    if (type.kind == TypeKind::Adt && Text::is_enumeration(type)) return {value};
    const auto span = records.fields(value);
    return {span.begin(), span.end()};
}

}  // namespace

Recorder::Recorder(const CoreProgram& program, Database& database) : program_(program), db_(database) {
    for (std::size_t i = 0; i < program.relations.size(); ++i) relation_of_.emplace(database.relations[i].get(), static_cast<int>(i));
    catch_up();
    find_fixed_relations();
}

// Rules may make texts that were not there before.
void Recorder::catch_up() {
    if (texts_ == db_.formulas->texts()) return;
    texts_ = db_.formulas->texts();
    masks_.clear();
    shapes_.clear();
    shelves_.clear();
    db_.formulas->for_each_text([&](Value symbol) { masks_.emplace(db_.formulas->mask(symbol, db_.symbols), -1 - static_cast<Value>(masks_.size())); });
}

// A relation is fixed if no row of it, nor of any that its rules read, has a formula in it.
void Recorder::find_fixed_relations() {
    const std::size_t n = program_.relations.size();
    fixed_.assign(n, 1);
    std::vector<std::vector<int>> readers(n);
    std::vector<int> open;
    for (std::size_t r = 0; r < n; ++r) {
        const RelationData& data = *db_.relations[r];
        bool any = false;
        const auto look = [&](const Value* row) { any = varies(static_cast<int>(r), row); };
        if (data.eqrel) data.eqrel->all([&](Value a, Value b) { const Value row[2] = {a, b}; look(row); return any; });
        else for (Row row = 0; !any && row < data.table.visible; ++row) look(data.table.row(row));
        if (any) fixed_[r] = 0, open.push_back(static_cast<int>(r));
    }
    for (const Rule& rule : program_.rules)
        for_each_atom(rule.body, true, [&](int relation, bool) { readers[static_cast<std::size_t>(relation)].push_back(rule.head.relation); });
    while (!open.empty()) {
        const int r = open.back();
        open.pop_back();
        for (const int reader : readers[static_cast<std::size_t>(r)]) {
            if (!fixed_[static_cast<std::size_t>(reader)]) continue;
            fixed_[static_cast<std::size_t>(reader)] = 0;
            open.push_back(reader);
        }
    }
}

TypeIndex Recorder::field_type(TypeIndex record, const std::vector<Value>& fields, std::size_t field) const {
    const Type& type = program_.types[static_cast<std::size_t>(record)];
    if (type.kind == TypeKind::Record) return type.fields[field].type;
    if (field == 0) return kUnsigned;  // which branch: never a formula
    return type.branches[static_cast<std::size_t>(fields[0])].fields[field - 1].type;
}

bool Recorder::varies(int relation, const Value* row) {
    bool any = false;
    for (std::size_t c = 0; !any && c < program_.relations[static_cast<std::size_t>(relation)].attributes.size(); ++c)
        any = value_varies(column_type(relation, static_cast<int>(c)), row[c]);
    return any;
}

// Is there a formula in a value?
bool Recorder::value_varies(TypeIndex index, Value value) {
    const Type& type = program_.types[static_cast<std::size_t>(index)];
    switch (type.kind) {
        case TypeKind::Number: return is_formula(value);
        case TypeKind::Symbol: return db_.formulas->has_formula(value);
        case TypeKind::Unsigned: case TypeKind::Float: return false;
        default: break;
    }
    const std::vector<Value> key{index, value};
    const auto known = varies_.find(key);
    if (known != varies_.end()) return known->second;
    const std::vector<Value> fields = type.kind == TypeKind::Adt && Text::is_enumeration(type) ? std::vector<Value>() : fields_of(type, value, db_.records);
    bool any = false;
    for (std::size_t i = 0; !any && i < fields.size(); ++i) any = value_varies(field_type(index, fields, i), fields[i]);
    return varies_[key] = any;
}

// Values that are equal at some point have the same shape.
Value Recorder::shape(TypeIndex index, Value value) {
    const Type& type = program_.types[static_cast<std::size_t>(index)];
    if (type.kind == TypeKind::Number) return 0;
    if (type.kind == TypeKind::Unsigned || type.kind == TypeKind::Float) return value;
    const std::vector<Value> key{index, value};
    const auto known = shapes_.find(key);
    if (known != shapes_.end()) return known->second;
    Value out = value;
    if (type.kind == TypeKind::Symbol) {
        const auto masked = masks_.empty() ? masks_.end() : masks_.find(db_.formulas->mask(value, db_.symbols));
        if (masked != masks_.end()) out = masked->second;
    } else {
        std::vector<Value> fields = fields_of(type, value, db_.records);
        const std::vector<Value> values = fields;
        if (fields.size() > 1 || type.kind == TypeKind::Record)
            for (std::size_t i = 0; i < fields.size(); ++i) fields[i] = shape(field_type(index, values, i), values[i]);
        out = interned_.pack(fields.data(), fields.size());
    }
    shapes_[key] = out;
    return out;
}

bool Recorder::collect(TypeIndex index, Value left, Value right, Difference& difference) {
    if (left == right) return true;
    const Type& type = program_.types[static_cast<std::size_t>(index)];
    switch (type.kind) {
        case TypeKind::Number:
            if (!is_formula(left) && !is_formula(right)) return false;
            difference.numbers.emplace_back(left, right);
            return true;
        case TypeKind::Symbol:
            if (!db_.formulas->has_formula(left) && !db_.formulas->has_formula(right)) return false;
            difference.texts.emplace_back(left, right);
            return true;
        case TypeKind::Unsigned: return false;
        case TypeKind::Float: return as_float(left) == as_float(right);
        default: break;
    }
    if (!value_varies(index, left) && !value_varies(index, right)) return false;
    const std::vector<Value> a = fields_of(type, left, db_.records), b = fields_of(type, right, db_.records);
    if (a.size() != b.size() || (type.kind == TypeKind::Adt && a[0] != b[0])) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
        if (!collect(field_type(index, a, i), a[i], b[i], difference)) return false;
    return true;
}

void Recorder::note(const Difference& difference) {
    Pairs pairs = difference.numbers;
    if (db_.formulas->surely_differ(pairs)) return;
    for (const auto& [left, right] : difference.texts)
        if (!db_.formulas->text_pairs(left, right, db_.symbols, pairs)) return;
    db_.formulas->one_differs(pairs);
}

bool Recorder::equal(TypeIndex type, Value left, Value right) {
    if (left == right) return true;
    Difference difference;
    if (collect(type, left, right, difference)) {
        if (difference.numbers.empty() && difference.texts.empty()) return true;  // -0.0 and 0.0
        note(difference);
    }
    return false;
}

void Recorder::want(const RelationData& relation, const std::vector<ColumnRegister>& known, const Value* registers) {
    const int index = relation_of_.at(&relation);
    if (fixed_[static_cast<std::size_t>(index)]) return;
    Goal goal{index, {}};
    for (const ColumnRegister& k : known) goal.known.emplace_back(k.column, registers[k.reg]);
    std::sort(goal.known.begin(), goal.known.end());
    goals.push_back(std::move(goal));
}

const std::vector<Row>& Recorder::candidates(const RelationData& relation, const std::vector<ColumnRegister>& known, const Value* registers) {
    static const std::vector<Row> none;
    const int index = relation_of_.at(&relation);
    catch_up();
    std::vector<ColumnRegister> sorted = known;
    std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.column < b.column; });
    // in a relation without formulas plain values are found as they are
    const bool exact = fixed_[static_cast<std::size_t>(index)] && std::none_of(sorted.begin(), sorted.end(), [&](const ColumnRegister& k) {
        return value_varies(column_type(index, k.column), registers[k.reg]);
    });
    std::vector<int> columns;
    std::vector<Value> key;
    const auto shown = [&](int column, Value value) {
        const Value key = relation.table.key(column, value);
        return exact ? key : shape(column_type(index, column), key);
    };
    for (const ColumnRegister& k : sorted) {
        columns.push_back(k.column);
        key.push_back(shown(k.column, registers[k.reg]));
    }
    columns.push_back(exact ? -1 : -2);
    const auto [shelf, added] = shelves_.try_emplace({index, columns});
    if (added) {
        const Table& table = relation.table;
        std::vector<Value> at(key.size());
        for (Row row = 0; row < table.visible; ++row) {
            if (table.dead(row)) continue;
            for (std::size_t i = 0; i < at.size(); ++i) at[i] = shown(columns[i], table.row(row)[columns[i]]);
            shelf->second[at].push_back(row);
        }
    }
    const auto found = shelf->second.find(key);
    return found == shelf->second.end() ? none : found->second;
}

bool Recorder::matches(const RelationData& relation, const Value* row, const std::vector<ColumnRegister>& known,
                       const std::vector<std::pair<int, int>>& same, const Value* registers) {
    const int index = relation_of_.at(&relation);
    Difference difference;
    for (const ColumnRegister& k : known)
        if (!collect(column_type(index, k.column), row[k.column], registers[k.reg], difference)) return false;
    for (const auto& [a, b] : same)
        if (!collect(column_type(index, a), row[a], row[b], difference)) return false;
    if (difference.numbers.empty() && difference.texts.empty()) return true;
    note(difference);
    return false;
}

bool Recorder::may_match(const RelationData& relation, const Value* row, const std::vector<ColumnRegister>& known, const Value* registers) {
    const int index = relation_of_.at(&relation);
    Difference difference;
    for (const ColumnRegister& k : known)
        if (!collect(column_type(index, k.column), row[k.column], registers[k.reg], difference)) return false;
    return !db_.formulas->surely_differ(difference.numbers);
}

void Recorder::rows_differ(const RelationData& relation, const Value* left, const Value* right) {
    const int index = relation_of_.at(&relation);
    Difference difference;
    for (int column = 0; column < relation.table.arity(); ++column)
        if (!collect(column_type(index, column), left[column], right[column], difference)) return;
    note(difference);
}

}  // namespace dl
