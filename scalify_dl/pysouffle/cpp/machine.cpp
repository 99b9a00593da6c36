#include "machine.hpp"

#include <cmath>
#include <limits>

#include "functors.hpp"

namespace dl {

// ---------------------------------------------------------------- where rows go

InsertSink::InsertSink(RelationData& relation, std::vector<Value>& room) : relation_(relation), arity_(relation.table.arity()) {
    const auto needed = static_cast<std::size_t>(kGather * (arity_ > 0 ? arity_ : 1));
    if (room.size() < needed) room.resize(needed);
    rows_ = room.data();
}

void InsertSink::put(const Value* row) {
    ++derived;
    if (relation_.eqrel) {
        relation_.eqrel->insert(row[0], row[1]);
        return;
    }
    Value* at = rows_ + gathered_ * arity_;
    for (int i = 0; i < arity_; ++i) at[i] = row[i];
    hashes_[gathered_] = relation_.table.hash(at);
    relation_.table.prefetch(hashes_[gathered_]);
    if (++gathered_ == kGather) flush();
}

void InsertSink::flush() {
    for (int i = 0; i < gathered_; ++i) inserted += insert(rows_ + i * arity_, hashes_[i]);
    gathered_ = 0;
}

bool InsertSink::insert(const Value* row, std::uint64_t hash) {
    if (relation_.only && !relation_.only->contains(row)) return false;
    if (relation_.choice.empty()) return relation_.table.insert(row, hash);
    Value key[64];
    for (std::size_t k = 0; k < relation_.choice.size(); ++k) {
        const std::vector<int>& columns = relation_.keys[k];
        for (std::size_t i = 0; i < columns.size(); ++i) key[i] = row[columns[i]];
        if (relation_.choice[k]->first(relation_.table, key) != kNoRow) return false;  // the first choice stands
    }
    if (!relation_.table.insert(row, hash)) return false;
    for (Index* index : relation_.choice) index->catch_up(relation_.table, relation_.table.size());
    return true;
}

// ---------------------------------------------------------------- running

void Machine::pause() {
    budget_ = kRowsPerCheck;
    watch_.check();
}

void Machine::run(Plan& plan, const std::vector<Register>& head, Sink& sink) {
    if (row_.size() <= head.size()) row_.resize(head.size() + 1);
    regs_ = plan.registers.data();
    head_ = &head;
    sink_ = &sink;
    tick();
    step(plan.steps.data());
    sink.flush();
}

void Machine::each(Plan& plan, const std::function<bool()>& visit) {
    regs_ = plan.registers.data();
    visit_ = &visit;
    step(plan.steps.data());
    visit_ = nullptr;
}

// True: some way through this step and those after it succeeded.
bool Machine::run_steps(const Step* s) {
    for (;; ++s) {
        switch (s->kind) {
            case Step::Kind::Scan: return in_finished() ? finished_atom(s) : scan(s);
            case Step::Kind::Probe: return in_finished() ? finished_atom(s) : probe(s);
            case Step::Kind::Exists: {
                if (in_finished()) return finished_atom(s);
                Value key[64];
                std::size_t i = 0;
                std::vector<Value> wide;
                Value* values = key;
                if (s->key.size() > 64) wide.resize(s->key.size()), values = wide.data();
                for (const ColumnRegister& k : s->key) values[i++] = regs_[k.reg];
                const Table& table = s->relation->table;
                const Row row = table.find(values);
                if (row == kNoRow || row >= table.visible || table.dead(row)) return false;
                if (s->view == View::Delta ? row < table.delta_begin : s->view == View::Old && row >= table.delta_begin) return false;
                continue;
            }
            case Step::Kind::EqScan:
            case Step::Kind::EqProbe: return in_finished() ? finished_atom(s) : equivalence(s);
            case Step::Kind::EqExists:
                if (in_finished()) return finished_atom(s);
                if (!s->relation->eqrel->contains(regs_[s->key[0].reg], regs_[s->key[1].reg])) return false;
                continue;
            case Step::Kind::Compare:
                if (in_finished()) return finished_filter(s);
                if (!compared(s)) return false;
                continue;
            case Step::Kind::Compute: {
                Value result;
                computed(s, result);
                regs_[s->result] = result;
                continue;
            }
            case Step::Kind::Check: {
                Value result;
                computed(s, result);
                if (recorder_ && s->type == TypeKind::Symbol) {
                    if (!compare_recorded(Compare::Equal, kSymbol, result, regs_[s->result])) return false;
                    continue;
                }
                if (!found(s->type, result, regs_[s->result])) return false;
                continue;
            }
            case Step::Kind::Pack: {
                Value fields[64];
                std::vector<Value> wide;
                Value* values = fields;
                if (s->args.size() > 64) wide.resize(s->args.size()), values = wide.data();
                for (std::size_t i = 0; i < s->args.size(); ++i) values[i] = regs_[s->args[i]];
                regs_[s->result] = db_.records.pack(values, s->args.size());
                continue;
            }
            case Step::Kind::Unpack:
                if (in_finished() ? !finished_unpack(s) : !unpack(s)) return false;
                continue;
            case Step::Kind::Range: return range(s);
            case Step::Kind::RangeCheck: {
                // few enough to look at each: a membership test with a step is not worth a formula per type
                if (!range(s)) return false;
                continue;
            }
            case Step::Kind::Negation:
                if (in_finished()) return finished_filter(s);
                if (recorder_ ? nested(s, false) : step(s->inner->steps.data())) return false;
                continue;
            case Step::Kind::Aggregate:
                if (!aggregate(s)) return false;
                continue;
            case Step::Kind::Emit: {
                Value* row = row_.data();
                std::size_t i = 0;
                for (const Register r : *head_) row[i++] = regs_[r];
                sink_->put(row);
                return true;
            }
            case Step::Kind::Found: return true;
            case Step::Kind::Visit: return (*visit_)();
            case Step::Kind::Fold: fold(s); return true;
        }
    }
}

bool Machine::compared(const Step* s) {
    if (s->compare == Compare::False) return false;
    const Value left = regs_[s->left], right = regs_[s->right];
    if (recorder_ && s->type >= TypeKind::Symbol && (s->compare == Compare::Equal || s->compare == Compare::NotEqual))
        return compare_recorded(s->compare, s->type_index, left, right);
    return compare(s->compare, s->type, left, right, db_);
}

bool Machine::scan(const Step* s) {
    const Table& table = s->relation->table;
    const Row begin = s->view == View::Delta ? table.delta_begin : 0;
    const Row end = s->view == View::Old ? table.delta_begin : table.visible;
    const bool deads = table.any_dead();
    bool any = false;
    for (Row row = begin; row < end; ++row) {
        tick();
        if (deads && table.dead(row)) continue;
        if (!matches(s, table.row(row))) continue;
        if (step(s + 1)) {
            any = true;
            if (s->existential) return true;
        }
    }
    return any;
}

bool Machine::probe(const Step* s) {
    Value key[64];
    std::size_t i = 0;
    for (const ColumnRegister& k : s->key) key[i++] = regs_[k.reg];
    const Table& table = s->relation->table;
    const bool deads = table.any_dead();
    const bool unique = s->index->unique();
    bool any = false;
    for (Row row = s->index->first(table, key); row != kNoRow; row = unique ? kNoRow : s->index->next(row)) {
        tick();
        if (s->view == View::Old && row >= table.delta_begin) continue;
        if (row >= table.visible) continue;  // indexes of choice keys run ahead
        if (deads && table.dead(row)) continue;
        if (!matches(s, table.row(row))) continue;
        if (step(s + 1)) {
            any = true;
            if (s->existential) return true;
        }
    }
    return any;
}

bool Machine::equivalence(const Step* s) {
    const EqRel& eqrel = *s->relation->eqrel;
    bool any = false;
    const auto pair = [&](Value left, Value right) {
        tick();
        const Value row[2] = {left, right};
        if (!matches(s, row) || !step(s + 1)) return false;
        any = true;
        return s->existential;
    };
    if (s->kind == Step::Kind::EqProbe) {
        const int column = s->key[0].column;
        const Value known = regs_[s->key[0].reg];
        eqrel.members(known, [&](Value other) { return column == 0 ? pair(known, other) : pair(other, known); });
    } else if (s->view == View::Delta && s->checks.size() == 1) {
        const int column = s->checks[0].column;
        const Value known = regs_[s->checks[0].reg];
        eqrel.delta_of(known, [&](Value other) { return column == 0 ? pair(known, other) : pair(other, known); });
    } else if (s->view == View::Delta) {
        eqrel.delta(pair);
    } else {
        eqrel.all(pair);
    }
    return any;
}

bool Machine::unpack(const Step* s) {
    const auto fields = db_.records.fields(regs_[s->result]);
    if (fields.size() != s->args.size()) return false;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Register r = s->args[i];
        if (r == kUnnamed) continue;
        if (!s->bound[i]) regs_[r] = fields[i];
        else if (regs_[r] != fields[i]) return false;
    }
    return true;
}

bool Machine::range(const Step* s) {
    const bool check = s->kind == Step::Kind::RangeCheck;
    const TypeKind type = s->type;
    const Value wanted = check ? value_of(type, regs_[s->result]) : 0;
    const Value from = value_of(type, regs_[s->args[0]]), to = value_of(type, regs_[s->args[1]]);
    const auto less = [&](Value l, Value r) { return compare(Compare::Less, type, l, r, db_); };
    const auto number = [&](int n) {
        return type == TypeKind::Float ? from_float(n) : static_cast<Value>(n);
    };
    bool any = false;
    const auto give = [&](Value value) {
        tick();
        if (check) {
            any = any || compare(Compare::Equal, type, value, wanted, db_);
            return any;
        }
        regs_[s->result] = value;
        if (!step(s + 1)) return false;
        any = true;
        return s->existential;
    };
    const bool stepped = s->args.size() > 2;
    if (!stepped && type == TypeKind::Unsigned && less(to, from)) {
        for (std::uint64_t at = as_unsigned(from); at > as_unsigned(to); --at)
            if (give(static_cast<Value>(at))) break;
        return any;
    }
    const Value by = stepped ? value_of(type, regs_[s->args[2]]) : less(to, from) ? number(-1) : number(1);
    if (less(number(0), by)) {
        for (Value at = from; less(at, to);) {
            if (give(at)) break;
            const Value next = add(type, at, by, {db_.arithmetic.word_size, false});
            if (!less(at, next)) break;  // wrapped, or a float too large for the step
            at = next;
        }
    } else if (less(by, number(0))) {
        for (Value at = from; less(to, at);) {
            if (give(at)) break;
            const Value next = add(type, at, by, {db_.arithmetic.word_size, false});
            if (!less(next, at)) break;
            at = next;
        }
    } else if (compare(Compare::NotEqual, type, from, to, db_)) {
        give(from);
    }
    return any;
}

bool Machine::computed(const Step* s, Value& result) {
    if (s->op == Op::AutoInc) {
        result = next_id++;
        return true;
    }
    // the common case first
    if (s->type == TypeKind::Number && db_.arithmetic.word_size == 64 && s->args.size() == 2 && !db_.formulas) {
        const Value l = regs_[s->args[0]], r = regs_[s->args[1]];
        switch (s->op) {
            case Op::Add:
                if (!__builtin_add_overflow(l, r, &result)) return true;
                break;
            case Op::Sub:
                if (!__builtin_sub_overflow(l, r, &result)) return true;
                break;
            case Op::Mul:
                if (!__builtin_mul_overflow(l, r, &result)) return true;
                break;
            default: break;
        }
    }
    result = apply(s->op, s->type, s->from, s->functor, regs_, s->args.data(), s->args.size(), db_);
    return true;
}

// Is a computed value the one that its register has already? A NaN is, too: where it may not be, the rule compares.
bool Machine::found(TypeKind type, Value value, Value known) {
    if (type == TypeKind::Float) return float_key(value) == float_key(known);
    return compare(Compare::Equal, type, value, known, db_);
}

// ---------------------------------------------------------------- aggregates

namespace {

// Where `min` and `max` of floats begin, as in Soufflé: neither infinity nor NaN comes out of them.
double greatest_float(const Arithmetic& a) {
    return a.word_size == 32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
}

}  // namespace

bool Machine::aggregate(const Step* s) {
    if (!s->cacheable || s->cached_at != epoch || recorder_) {
        Accumulator accumulator{s->aggregate, s->type, s->from};
        Accumulator* const outer = accumulator_;
        accumulator_ = &accumulator;
        if (recorder_) nested(s, s->aggregate != Aggregate::Min && s->aggregate != Aggregate::Max);
        else step(s->inner->steps.data());
        accumulator_ = outer;
        s->cached_empty = false;
        switch (s->aggregate) {
            case Aggregate::Count:
                s->cached = s->type == TypeKind::Float ? from_float(static_cast<double>(accumulator.count)) : static_cast<Value>(accumulator.count);
                break;
            case Aggregate::Sum: s->cached = accumulator.value; break;  // 0 when empty: the bits are those of 0.0 too
            case Aggregate::Min:
            case Aggregate::Max:
                s->cached = accumulator.value;
                s->cached_empty = accumulator.count == 0;
                break;
            case Aggregate::Mean:
                s->cached_empty = accumulator.count == 0;
                s->cached = from_float(s->cached_empty ? 0 : accumulator.sum / static_cast<double>(accumulator.count));
                break;
        }
        if (s->type == TypeKind::Float && std::isnan(as_float(s->cached))) s->cached_empty = true;  // it equals nothing, not even itself
        s->cached_at = epoch;
    }
    if (s->cached_empty) return false;
    if (s->check_result) return found(s->aggregate == Aggregate::Mean ? TypeKind::Float : s->type, s->cached, regs_[s->result]);
    regs_[s->result] = s->cached;
    return true;
}

void Machine::fold(const Step* s) {
    Accumulator& a = *accumulator_;
    ++a.count;
    if (a.kind == Aggregate::Count) return;
    const Value value = regs_[s->left];
    switch (a.kind) {
        case Aggregate::Sum:
            if (db_.formulas && a.type == TypeKind::Number && (is_formula(a.value) || is_formula(value))) {
                const Value both[2] = {a.value, value};
                a.value = db_.formulas->apply(Op::Add, both, 2);
            } else {
                a.value = add(a.type, a.value, value, db_.arithmetic);
                if (db_.formulas && a.type == TypeKind::Number) SymbolicNumbers::check_plain(a.value);
            }
            break;
        case Aggregate::Min:
        case Aggregate::Max: {
            const bool least = a.kind == Aggregate::Min;
            if (a.count == 1) a.value = a.type == TypeKind::Float ? from_float(least ? greatest_float(db_.arithmetic) : -greatest_float(db_.arithmetic)) : value;
            if (compare(least ? Compare::Less : Compare::Greater, a.type, value, a.value, db_)) a.value = value;
            break;
        }
        case Aggregate::Mean:
            a.sum += a.from == TypeKind::Float ? as_float(value)
                     : a.from == TypeKind::Unsigned ? static_cast<double>(as_unsigned(value)) : static_cast<double>(value_of(a.from, value));
            break;
        default: break;
    }
}

}  // namespace dl
