#include "session.hpp"

#include <chrono>

#include "core.hpp"
#include "facts.hpp"
#include "functors.hpp"
#include "kept.hpp"
#include "souffle_text.hpp"
#include "text.hpp"

namespace dl {

namespace {

using Clock = std::chrono::steady_clock;

// Signals are looked at some times a second: taking the GIL is not free.
std::function<void()> interrupt_check() {
    return [last = Clock::now()]() mutable {
        const auto now = Clock::now();
        if (now - last < std::chrono::milliseconds(50)) return;
        last = now;
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    };
}

Format make_format(const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns) {
    return Format{delimiter, headers, rfc4180, columns};
}

const char* kind_name(TypeKind kind) {
    constexpr const char* names[] = {"number", "unsigned", "float", "symbol", "record", "adt"};
    return names[static_cast<int>(kind)];
}

}  // namespace

nb::object shown(const std::string& text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::tuple as_python(const Diagnostic& d) {
    return nb::make_tuple(d.severity == Severity::Error ? "error" : "warning", shown(d.file), d.line, d.column, shown(d.message),
                          shown(d.source_line), shown(d.hint), shown(d.text()));
}

nb::list Session::relations() {
    nb::list out;
    for (const Relation& relation : engine_.program().relations) {
        nb::list attributes;
        for (const Attribute& a : relation.attributes) {
            const Type& type = engine_.program().types[static_cast<std::size_t>(a.type)];
            attributes.append(nb::make_tuple(a.name, type.name, kind_name(type.kind)));
        }
        out.append(nb::make_tuple(relation.name, attributes, relation.eqrel));
    }
    return out;
}

nb::dict Session::records() {
    nb::dict out;
    for (const Type& type : engine_.program().types) {
        if (type.kind != TypeKind::Record) continue;
        nb::list fields;
        for (const Field& f : type.fields) {
            const Type& of = engine_.program().types[static_cast<std::size_t>(f.type)];
            fields.append(nb::make_tuple(f.name, of.name, kind_name(of.kind)));
        }
        out[type.name.c_str()] = fields;
    }
    return out;
}

nb::list Session::directives() {
    nb::list out;
    for (const Directive& d : engine_.program().directives) {
        constexpr const char* names[] = {"input", "output", "printsize", "limitsize"};
        nb::dict parameters;
        for (const auto& [key, value] : d.parameters) parameters[nb::str(key.c_str())] = value;
        const std::string file = d.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(d.position.file)] : "";
        out.append(nb::make_tuple(names[static_cast<int>(d.kind)], d.relation, parameters, file, d.position.line, d.position.column));
    }
    return out;
}

nb::list Session::warnings() {
    nb::list out;
    for (const Diagnostic& d : engine_.warnings()) out.append(as_python(d));
    return out;
}

std::vector<std::pair<std::string, std::string>> Session::pragmas() { return engine_.program().pragmas; }

std::size_t Session::insert(int relation, nb::handle rows) {
    idle();
    const Relation& declaration = engine_.declaration(relation);
    PythonValues values(engine_.program(), engine_.database(), true);
    std::vector<Value> encoded;
    std::size_t count = 0;
    for (nb::handle row : rows) {
        values.encode_row(declaration, row, encoded);
        ++count;
    }
    for (std::size_t i = 0; i < count; ++i) engine_.add_fact(relation, encoded.data() + i * declaration.attributes.size());
    return count;
}

std::size_t Session::insert_array(int relation, nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows) {
    idle();
    const Relation& declaration = engine_.declaration(relation);
    if (rows.shape(1) != declaration.attributes.size()) throw nb::value_error("the array's second dimension is not the number of columns");
    if (engine_.database().formulas)
        for (std::size_t i = 0; i < rows.size(); ++i) SymbolicNumbers::check_plain(rows.data()[i]);
    for (std::size_t i = 0; i < rows.shape(0); ++i) engine_.add_fact(relation, rows.data() + i * rows.shape(1));
    return rows.shape(0);
}

std::size_t Session::read_file(int relation, const std::string& file, const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns) {
    const Running running(*this);
    nb::gil_scoped_release release;
    return read_facts_file(engine_, relation, file, make_format(delimiter, headers, rfc4180, columns));
}

std::size_t Session::read_text(int relation, nb::bytes text, const std::string& name, const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns) {
    idle();
    return read_facts(engine_, relation, {text.c_str(), text.size()}, name, make_format(delimiter, headers, rfc4180, columns));
}

void Session::write_file(int relation, const std::string& file, const std::string& delimiter, bool headers, bool rfc4180) {
    const Running running(*this);
    nb::gil_scoped_release release;
    write_facts_file(engine_, relation, file, make_format(delimiter, headers, rfc4180, {}));
}

nb::bytes Session::write_text(int relation, const std::string& delimiter, bool headers, bool rfc4180) {
    idle();
    const std::string text = facts_text(engine_, relation, make_format(delimiter, headers, rfc4180, {}));
    return nb::bytes(text.data(), text.size());
}

void Session::run(double timeout, std::uint64_t max_tuples, std::uint64_t max_memory) {
    const Running running(*this);
    provenance_.reset();
    nb::gil_scoped_release release;
    engine_.run(Limits{timeout, max_tuples, max_memory}, interrupt_check());
}

void Session::prepare_provenance(double timeout, std::uint64_t max_tuples, std::uint64_t max_memory) {
    const Running running(*this);
    nb::gil_scoped_release release;
    if (!provenance_) provenance_ = std::make_unique<Provenance>(engine_);
    provenance_->prepare(Limits{timeout, max_tuples, max_memory}, interrupt_check());
}

nb::list Session::rows(int relation) {
    idle();
    PythonValues values(engine_.program(), engine_.database());
    const Relation& declaration = engine_.declaration(relation);
    RelationData& data = engine_.relation(relation);
    nb::list out;
    if (data.eqrel) {
        const std::vector<Value> pairs = data.eqrel->rows();
        for (std::size_t i = 0; i < pairs.size(); i += 2) out.append(values.decode_row(declaration, pairs.data() + i));
        return out;
    }
    for (Row row = 0; row < data.table.visible; ++row)
        if (!data.table.dead(row)) out.append(values.decode_row(declaration, data.table.row(row)));
    return out;
}

nb::object Session::array(int relation) {
    idle();
    RelationData& data = engine_.relation(relation);
    const auto arity = static_cast<std::size_t>(data.table.arity());
    if (data.eqrel) {
        auto* pairs = new std::vector<Value>(data.eqrel->rows());
        nb::capsule owner(pairs, [](void* p) noexcept { delete static_cast<std::vector<Value>*>(p); });
        return nb::cast(nb::ndarray<nb::numpy, Value, nb::ndim<2>>(pairs->data(), {pairs->size() / 2, 2}, owner));
    }
    auto* block = new std::shared_ptr<Block>(data.table.block());
    nb::capsule owner(block, [](void* p) noexcept { delete static_cast<std::shared_ptr<Block>*>(p); });
    static Value nothing = 0;
    Value* values = *block ? (*block)->data() : &nothing;
    return nb::cast(nb::ndarray<nb::numpy, const Value, nb::ndim<2>>(values, {data.table.visible, arity}, owner));
}

std::size_t Session::size(int relation) {
    idle();
    return engine_.relation(relation).rows();
}

nb::object Session::symbol(Value value) {
    PythonValues values(engine_.program(), engine_.database());
    return values.decode(kSymbol, value);
}

void Session::set_functor(const std::string& name, nb::callable callable) {
    const CoreProgram& program = engine_.program();
    for (const Functor& functor : program.functors) {
        if (functor.name != name) continue;
        engine_.set_functor(name, [this, &functor, callable](const Value* arguments) {
            nb::gil_scoped_acquire gil;
            PythonValues values(engine_.program(), engine_.database());
            nb::list converted;
            for (std::size_t i = 0; i < functor.parameters.size(); ++i) converted.append(values.decode(functor.parameters[i], at_point(functor.parameters[i], arguments[i])));
            nb::object result = callable(*nb::borrow<nb::args>(nb::tuple(converted)));
            return values.encode(functor.result, result);
        });
        return;
    }
    throw EvaluationError("the program declares no functor \"" + name + "\"");
}

nb::list Session::functors() {
    nb::list out;
    for (const Functor& f : engine_.program().functors) {
        nb::list parameters;
        for (const TypeIndex t : f.parameters) parameters.append(engine_.program().types[static_cast<std::size_t>(t)].name);
        out.append(nb::make_tuple(f.name, parameters, engine_.program().types[static_cast<std::size_t>(f.result)].name, f.stateful));
    }
    return out;
}

nb::list Session::rule_statistics() {
    nb::list out;
    for (std::size_t i = 0; i < engine_.program().rules.size(); ++i) {
        const Rule& rule = engine_.program().rules[i];
        const RuleStatistics& s = engine_.rule_statistics()[i];
        const std::string file = rule.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(rule.position.file)] : "";
        out.append(nb::make_tuple(rule.head.relation, shown(rule.text), file, rule.position.line, s.runs, s.derived, s.inserted, s.seconds));
    }
    return out;
}

nb::list Session::rules() {
    nb::list out;
    for (const Rule& rule : engine_.program().rules) {
        const std::string file = rule.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(rule.position.file)] : "";
        out.append(nb::make_tuple(rule.head.relation, shown(rule.text), file, rule.position.line));
    }
    return out;
}

nb::tuple Session::souffle(const std::vector<bool>& given) {
    const std::string program = souffle_text(engine_, std::vector<char>(given.begin(), given.end()));
    return nb::make_tuple(nb::bytes(program.data(), program.size()), souffle_names(engine_.program()));
}

void Session::settle() {
    idle();
    provenance_.reset();
    engine_.settle();
}

std::uint64_t Session::rounds() { return engine_.rounds(); }

std::size_t Session::bytes() { return engine_.database().bytes(); }

Value Session::at_point(TypeIndex type, Value value) {
    Database& db = engine_.database();
    if (!db.formulas) return value;
    const TypeKind kind = engine_.program().types[static_cast<std::size_t>(type)].kind;
    if (kind == TypeKind::Number) return db.formulas->concrete(value);
    if (kind == TypeKind::Symbol && db.formulas->has_formula(value)) return db.symbols.intern(db.formulas->concrete_text(value, db.symbols));
    return value;
}

std::vector<Value> Session::encode_row(int relation, nb::handle row) {
    idle();
    std::vector<Value> values;
    PythonValues(engine_.program(), engine_.database()).encode_row(engine_.declaration(relation), row, values);
    return values;
}

std::vector<Rows> Session::encode_rows(const std::vector<std::pair<int, nb::list>>& given) {
    std::vector<Rows> out;
    for (const auto& [relation, rows] : given) {
        out.push_back({relation, {}});
        for (nb::handle row : rows) out.back().rows.push_back(encode_row(relation, row));
    }
    return out;
}

std::vector<SymbolDeclaration> Session::declarations(const SymbolTuples& symbols) {
    std::vector<SymbolDeclaration> out;
    for (const auto& [name, value, minimum, below] : symbols) out.push_back({name, value, minimum, below});
    return out;
}

std::shared_ptr<const Prepared> Session::make(const std::string& name, const std::string& text, const std::vector<std::string>& include_dirs,
                                              const std::vector<std::pair<std::string, std::string>>& defines, int word_size,
                                              const std::string& kept, bool keep) {
    SourceOptions options;
    options.name = name;
    options.text = text;
    options.include_dirs = include_dirs;
    options.defines = defines;
    options.word_size = word_size;
    nb::gil_scoped_release release;
    return prepare(options, kept, keep);
}

}  // namespace dl
