// Executes plans.
#pragma once

#include <cstdint>
#include <functional>

#include "database.hpp"
#include "plan.hpp"
#include "recorder.hpp"

namespace dl {

// Called every so many rows and at least once a round; throws to end the run.
class Watch {
public:
    virtual ~Watch() = default;
    virtual void check() = 0;
};

// Where derived rows go. Rows are gathered and inserted some at a time: by then the slots of the hash table that they
// will need have come from memory.
class Sink {
public:
    virtual ~Sink() = default;
    virtual void put(const Value* row) = 0;
    virtual void flush() {}
};

class InsertSink final : public Sink {
public:
    // `room`: where rows are gathered; sinks that are used one after the other may share it.
    InsertSink(RelationData& relation, std::vector<Value>& room);
    void put(const Value* row) override;
    void flush() override;
    std::uint64_t derived = 0;   // rows put
    std::uint64_t inserted = 0;  // … that were new

private:
    bool insert(const Value* row, std::uint64_t hash);

    static constexpr int kGather = 32;
    RelationData& relation_;
    int arity_;
    int gathered_ = 0;
    Value* rows_;
    std::uint64_t hashes_[kGather];
};

class Machine {
public:
    Machine(Database& database, Watch& watch) : db_(database), watch_(watch) {}

    std::uint64_t epoch = 1;   // aggregates that depend on nothing are computed once per epoch
    Value next_id = 0;         // autoinc

    // Run a plan for a rule. `head`: the registers of the head row.
    void run(Plan& plan, const std::vector<Register>& head, Sink& sink);

    // Run a plan that ends in Visit; `visit` is called for every way through it and returns true to stop.
    void each(Plan& plan, const std::function<bool()>& visit);

    // From now on note what ways rest on; null: no more.
    void record(Recorder* recorder) {
        recorder_ = recorder;
        if (db_.formulas) db_.formulas->trail = recorder ? &recorder->decisions : nullptr;
    }

private:
    struct Accumulator {
        Aggregate kind;
        TypeKind type, from;
        std::uint64_t count = 0;
        Value value = 0;
        double sum = 0;
    };

    bool step(const Step* s) { return recorder_ ? step_recorded(s) : run_steps(s); }
    bool run_steps(const Step* s);
    bool step_recorded(const Step* s);
    bool finished_atom(const Step* s);
    bool finished_unpack(const Step* s);
    bool finished_filter(const Step* s);
    bool nested(const Step* s, bool counting);
    bool compare_recorded(Compare how, TypeIndex type, Value left, Value right);
    bool compared(const Step* s);
    bool in_finished() const { return recorder_ && recorder_->finished > 0; }
    bool scan(const Step* s);
    bool probe(const Step* s);
    bool equivalence(const Step* s);
    bool unpack(const Step* s);
    bool range(const Step* s);
    bool aggregate(const Step* s);
    bool found(TypeKind type, Value value, Value known);
    bool computed(const Step* s, Value& result);
    void fold(const Step* s);

    bool matches(const Step* s, const Value* row) {
        for (const ColumnRegister& c : s->checks)
            if (row[c.column] != regs_[c.reg] && !s->relation->table.same(c.column, row[c.column], regs_[c.reg])) return false;
        for (const auto& [a, b] : s->same)
            if (row[a] != row[b] && !s->relation->table.same(a, row[a], row[b])) return false;
        for (const ColumnRegister& c : s->binds) regs_[c.reg] = row[c.column];
        return true;
    }
    void tick() {
        if (--budget_ <= 0) pause();
    }
    void pause();

    Value value_of(TypeKind type, Value value) {  // at the point, where numbers may be formulas
        return db_.formulas && type == TypeKind::Number ? db_.formulas->concrete(value) : value;
    }

    Database& db_;
    Watch& watch_;
    static constexpr std::int32_t kRowsPerCheck = 1 << 14;
    std::int32_t budget_ = kRowsPerCheck;
    Value* regs_ = nullptr;
    const std::vector<Register>* head_ = nullptr;
    std::vector<Value> row_;  // the head row that is put together
    Sink* sink_ = nullptr;
    Accumulator* accumulator_ = nullptr;
    const std::function<bool()>* visit_ = nullptr;
    Recorder* recorder_ = nullptr;
};

}  // namespace dl
