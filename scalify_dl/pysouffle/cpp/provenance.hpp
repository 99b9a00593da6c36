// Why is a row there? Proofs of minimal height.
//
// Nothing is recorded while a program runs. When the first question comes, the rules are run once more, all strata at
// once, with negation and aggregates reading the finished relations: then every row appears in the round that is the
// height of its lowest proof. A proof step is found by asking for a way through a rule's body that uses earlier rows only.
// Where any proof will do (derivation), the rounds of the run itself are as good: each row came from earlier ones, too.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine.hpp"

namespace dl {

struct ProofNode {
    enum class Kind : std::uint8_t {
        Fact,         // given by the host, or a fact of the program
        Rule,         // follows by `rule` from `premises`
        Equivalence,  // follows from `premises` because the relation is an equivalence
        Unknown,      // is there, but what it followed from was removed (subsumption, choice)
    };
    Kind kind = Kind::Fact;
    int relation = -1;
    std::vector<Value> row;
    int rule = -1;
    std::vector<std::pair<int, Value>> bindings;  // variable of the rule, value
    std::vector<int> premises;                    // nodes
    std::vector<std::string> conditions;          // negations, comparisons and aggregates that held
    std::vector<Decision> decisions;              // with a recorder: what the step rests on
    std::vector<Goal> goals;
};

struct Rows {  // of one relation
    int relation;
    std::vector<std::vector<Value>> rows;
};

class Provenance {
public:
    explicit Provenance(Engine& engine);

    // Compute the heights, unless done since the last run. Same guards as a run.
    void prepare(const Limits& limits, std::function<void()> interrupt);

    // The proofs of some rows as one graph, shared parts once; `roots`: the node of each row, -1 if it is not there.
    // With a recorder, steps that rest on few decisions are preferred, and the nodes tell on which.
    std::vector<ProofNode> explain(int relation, const std::vector<std::vector<Value>>& rows, std::vector<int>& roots, Recorder* recorder = nullptr);

    // One proof of all of these rows, premises first, as the rounds of the last run have it; no prepare() needed. Premises
    // in `leaves` (by relation) are left out, and so are conditions. Throws EvaluationError where a row has no proof.
    std::vector<ProofNode> derivation(const std::vector<Rows>& wanted, const std::vector<char>& leaves);

    // Height of the lowest proof (0: a fact), -1 if there is none.
    int height(int relation, const Value* row);

private:
    struct Key {
        int relation;
        std::vector<Value> row;
        bool operator==(const Key&) const = default;
    };
    struct KeyHash {
        std::size_t operator()(const Key& key) const {
            return static_cast<std::size_t>(mix(hash_values(key.row.data(), static_cast<int>(key.row.size())), static_cast<std::uint64_t>(key.relation)));
        }
    };

    int node_of(int relation, std::vector<Value> row);
    void expand(int node);
    struct Found {
        ProofNode node;
        std::vector<std::pair<int, std::vector<Value>>> premises;
        std::size_t cost = 0;
    };
    bool by_rule(const std::vector<Value>& row, int rule, std::uint32_t stage, Found& best, bool& found);
    void take(int node, Found&& step);
    bool by_equivalence(int node);
    std::uint32_t stage_of(int relation, const Value* row);
    std::vector<int> path(const EqRel& eqrel, Value from, Value to) const;
    bool fill(const FlatLiteral& literal, std::vector<Value>& premise);
    Plan& plan(int rule);

    Engine& engine_;
    Recorder* recorder_ = nullptr;  // while explain() is given one
    std::unique_ptr<Engine> levels_;
    Engine* rounds_ = nullptr;                 // whose rounds tell which rows came first, while a question is answered
    const std::vector<char>* leaves_ = nullptr;  // while derivation() is at work
    std::vector<std::unique_ptr<Plan>> plans_;  // by rule, the head being given: in `rounds_`
    std::vector<std::vector<int>> rules_of_;    // by relation
    std::vector<ProofNode> nodes_;
    std::unordered_map<Key, int, KeyHash> known_;
    mutable std::unordered_map<const EqRel*, std::unordered_map<Value, std::vector<std::pair<Value, int>>>> near_;
};

// Which variables have one value per way through the body: all but those that live inside an aggregate.
std::vector<char> global_variables(const Rule& rule);

// A literal or atom with the values of its variables filled in, as text.
std::string instantiate(const Engine& engine, const Rule& rule, const Literal& literal, const std::vector<Value>& variables,
                        const std::vector<char>& known);
std::string instantiate(const Engine& engine, const Rule& rule, const Atom& atom, const std::vector<Value>& variables,
                        const std::vector<char>& known);

}  // namespace dl
