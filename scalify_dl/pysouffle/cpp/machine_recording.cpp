// Running plans with a recorder: see recorder.hpp.
#include "functors.hpp"
#include "machine.hpp"

namespace dl {

// What a way decided that led nowhere does not count, but within what reads finished relations everything does.
bool Machine::step_recorded(const Step* s) {
    const Recorder::Mark mark = recorder_->mark();
    const bool found = run_steps(s);
    if (!found && recorder_->finished == 0) recorder_->cut(mark);
    return found;
}

bool Machine::finished_atom(const Step* s) {
    Recorder& recorder = *recorder_;
    if (s->relation->eqrel) throw EvaluationError("conditions of negations and aggregates over equivalence relations are not available");
    std::vector<ColumnRegister> known = s->key;
    known.insert(known.end(), s->checks.begin(), s->checks.end());
    recorder.want(*s->relation, known, regs_);
    const Table& table = s->relation->table;
    const bool counting = recorder.counting;
    std::vector<Row> counted;
    bool any = false;
    const std::vector<Row> rows = recorder.candidates(*s->relation, known, regs_);
    for (const Row row : rows) {
        tick();
        if (!recorder.matches(*s->relation, table.row(row), known, s->same, regs_)) continue;
        if (counting) {
            for (const Row other : counted) recorder.rows_differ(*s->relation, table.row(other), table.row(row));
            counted.push_back(row);
        }
        for (const ColumnRegister& c : s->binds) regs_[c.reg] = table.row(row)[c.column];
        if (step(s + 1)) {
            any = true;
            if (s->existential) return true;
        }
    }
    return any;
}

bool Machine::finished_unpack(const Step* s) {
    const auto span = db_.records.fields(regs_[s->result]);
    const std::vector<Value> fields(span.begin(), span.end());
    if (fields.size() != s->args.size()) return false;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Register r = s->args[i];
        if (r == kUnnamed) continue;
        if (!s->bound[i]) regs_[r] = fields[i];
        else if (!recorder_->equal(recorder_->field_type(s->type_index, fields, i), regs_[r], fields[i])) return false;
    }
    return true;
}

// What a filter let pass matters only if the way leads somewhere; what it kept out, always.
bool Machine::finished_filter(const Step* s) {
    const Recorder::Mark mark = recorder_->mark();
    const bool passed = s->kind == Step::Kind::Negation ? !nested(s, false) : compared(s);
    if (!passed) return false;
    const Recorder::Notes notes = recorder_->cut(mark);
    if (!step(s + 1)) return false;
    recorder_->add(notes);
    return true;
}

bool Machine::nested(const Step* s, bool counting) {
    const bool outer = recorder_->counting;
    ++recorder_->finished;
    recorder_->counting = counting;
    const bool found = step(s->inner->steps.data());
    recorder_->counting = outer;
    --recorder_->finished;
    return found;
}

bool Machine::compare_recorded(Compare how, TypeIndex type, Value left, Value right) {
    const bool equal = recorder_->equal(type, left, right);
    return equal == (how == Compare::Equal);
}

}  // namespace dl
