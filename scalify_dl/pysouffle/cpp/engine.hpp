// A program and its database: takes facts, runs the rules to their fixpoint, again after more facts.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <unordered_map>
#include <string>
#include <vector>

#include "core.hpp"
#include "database.hpp"
#include "flat.hpp"
#include "concerns.hpp"
#include "machine.hpp"
#include "outline.hpp"
#include "plan.hpp"
#include "strata.hpp"

namespace dl {

struct Limits {  // 0: none
    double timeout = 0;              // seconds of wall time
    std::uint64_t max_tuples = 0;    // rows of all relations together
    std::uint64_t max_memory = 0;    // bytes of all relations, symbols and records together
};

struct RuleStatistics {
    std::uint64_t runs = 0, derived = 0, inserted = 0;
    double seconds = 0;
    std::string order;  // the join order last used
};

struct StratumStatistics {
    std::uint64_t rounds = 0;
    double seconds = 0;
};

class Engine final : public Watch {
public:
    // With symbols, numbers may be formulas over them.
    Engine(std::shared_ptr<const Prepared> prepared, Arithmetic arithmetic, std::vector<SymbolDeclaration> symbols = {});

    // A program that shares symbols and records with another one, evaluated in the strata that are given.
    Engine(CoreProgram program, Arithmetic arithmetic, std::shared_ptr<Terms> terms, std::vector<Stratum> strata);

    const std::shared_ptr<const Prepared>& prepared() const { return prepared_; }
    const CoreProgram& program() const { return program_; }
    Database& database() { return db_; }
    const Database& database() const { return db_; }
    const std::vector<Stratum>& strata() const { return strata_; }

    // -1 if there is none of this name
    int relation_index(const std::string& name) const;
    RelationData& relation(int index) { return *db_.relations[static_cast<std::size_t>(index)]; }
    const Relation& declaration(int index) const { return program_.relations[static_cast<std::size_t>(index)]; }

    // Add a fact; rules see it at the next run(). Values are as the columns hold them.
    void add_fact(int relation, const Value* row);

    // visit(row) for every fact that was given, not derived. (Facts in the program are rules.)
    template <class Visit>
    void for_each_fact(int relation, Visit&& visit) const {
        const Table* given = facts(relation);
        for (Row row = 0; given && row < given->size(); ++row) visit(given->row(row));
    }
    bool is_fact(int relation, const Value* row) const {
        const Table* given = facts(relation);
        return given && given->find(row) != kNoRow;
    }

    void set_functor(const std::string& name, HostFunctor functor);

    // To the fixpoint of everything added so far. Throws EvaluationError at a limit or an arithmetic error;
    // the next run then starts from the facts. `interrupt` is called now and then and may throw.
    void run(const Limits& limits, std::function<void()> interrupt);
    bool complete() const { return complete_; }

    // Show the facts added so far as the relations' rows, and derive nothing.
    void settle();

    // The order in which a rule's positive atoms would be joined now, one of them ranging over the delta. Relations
    // without rows are taken for large ones: they are still to be computed.
    std::vector<int> join_order(int rule, int delta_atom);

    const FlatRule& flat(int rule);
    std::uint32_t stage() const { return stage_; }
    Machine& machine() { return machine_; }
    const std::vector<RuleStatistics>& rule_statistics() const { return rule_statistics_; }
    const std::vector<StratumStatistics>& stratum_statistics() const { return stratum_statistics_; }
    std::uint64_t rounds() const { return rounds_; }

    void check() override;

    // Of the program, and of the runs so far.
    const std::vector<Diagnostic>& warnings() const { return warnings_; }

    // "file:line: text" of a rule, for messages
    std::string describe(const Rule& rule) const;
    bool timing = true;

private:
    struct Version {  // a rule with one body atom ranging over the delta, or none
        std::unique_ptr<Plan> plan;
        int literal = -1;  // index of that atom in the flat body
        std::uint64_t planned_at = 0;
    };
    struct RuleState {
        std::unique_ptr<FlatRule> flat;
        std::vector<Version> versions;   // [0]: no delta; [k + 1]: atom k
    };
    struct RelationState {
        std::unique_ptr<Table> facts;    // what the host added to a relation that also has rules
        std::size_t seen = 0;            // rows (eqrel: events) that all rules had seen when the last run ended
        Row replan_at = 64;              // when it has grown to this, orders are looked at again
        std::uint64_t limit = 0;         // .limitsize: the fixpoint stops when there are as many rows
        bool has_rules = false;          // that derive or remove rows
        bool replaced = false;           // in this run: may have lost rows
        bool touched = false;            // in this round
        int small_rounds = 0;            // of the fixpoint at work: in which few rows came
        std::unique_ptr<Concerns> concerns; // which rules few rows may concern; none before there were many such rounds
    };

    const Table* facts(int relation) const {
        const RelationState& state = states_[static_cast<std::size_t>(relation)];
        if (keeps_facts(relation)) return state.facts.get();
        return &db_.relations[static_cast<std::size_t>(relation)]->table;
    }
    bool keeps_facts(int relation) const {  // apart from the relation's rows, to begin again from them
        const RelationData& data = *db_.relations[static_cast<std::size_t>(relation)];
        return states_[static_cast<std::size_t>(relation)].has_rules || data.eqrel || !data.choice.empty();
    }
    Engine(std::shared_ptr<const Prepared> prepared, Arithmetic arithmetic, std::shared_ptr<Terms> terms);
    const std::vector<std::int32_t>& atoms_of(int rule) const { return prepared_->outline.rules[static_cast<std::size_t>(rule)].atoms; }
    void evaluate(int stratum);
    void evaluate_afresh(const Stratum& stratum);
    void resume(const Stratum& stratum);
    void fixpoint(int stratum);
    void end_round(const std::vector<int>& relations);
    void close_round(int relation);
    void subsume_given(const Stratum& stratum);
    void subsume_coming(const Stratum& stratum);
    void remove_dominated(int relation);
    template <class Visit>
    void for_each_subsumption(const Stratum& stratum, int relation, Visit&& visit) {
        for (const int rule : stratum.subsumptions)
            if (prepared_->outline.rules[static_cast<std::size_t>(rule)].head == relation) visit(rule);
    }
    static constexpr std::size_t kReaders = 4;  // rules that read a relation, so that it is worth knowing
    static constexpr Row kFewRows = 32;
    static constexpr int kManyRounds = 64;
    const Concerns* concerns(int relation);
    int literal(int rule, int atom);
    void set_readers(const Stratum& stratum);
    void stop_waiting(int relation);
    void run_version(int rule, int atom, bool old_before_delta);
    void execute(int rule, int atom, bool old_before_delta);
    void start_over();
    void warn_of_patterns(const Rule& rule);
    void forget_touched();
    bool changed(int relation) const;
    bool has_delta(int relation) const;
    bool is_empty(int relation) const;
    void finish(const Stratum& stratum);

    std::shared_ptr<const Prepared> prepared_;
    const CoreProgram& program_;
    const std::vector<Stratum>& strata_;
    Database db_;
    Machine machine_;
    std::vector<Diagnostic> warnings_;
    std::vector<RuleState> rules_;
    std::vector<RelationState> states_;
    std::vector<char> in_stratum_;                       // by relation
    std::vector<std::vector<std::pair<int, int>>> readers_;  // by relation: (rule, atom) in the stratum at work
    std::vector<int> lacking_;                           // by rule of the stratum at work: atoms whose relations are empty
    std::vector<std::vector<int>> waiting_;              // by empty relation: rules that lack it, once per atom
    std::vector<Value> gathered_;                        // room for the sink at work
    std::chrono::steady_clock::time_point measured_;     // up to then time is accounted for
    std::vector<int> touched_;
    std::vector<Row> dominated_;                         // found by the subsumption rules at work
    std::vector<RuleStatistics> rule_statistics_;
    std::vector<StratumStatistics> stratum_statistics_;
    std::unordered_map<std::string, int> names_;
    std::uint32_t stage_ = 0;
    std::uint64_t rounds_ = 0, plan_epoch_ = 1;
    bool side_effects_ = false, complete_ = false;
    bool broken_ = false;             // a run was cut short
    std::vector<char> evaluated_;     // by stratum: has it been evaluated, ever?
    Limits limits_;
    std::function<void()> interrupt_;
    std::chrono::steady_clock::time_point begin_;
};

}  // namespace dl
