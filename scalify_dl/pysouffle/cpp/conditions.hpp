// The conditions under which a proof that was found at one point holds at others.
//
// Statement: let P be a proof of some rows in a program with symbols, and C its conditions. At every point of admissible
// values that satisfies C, the program run on the instances of the facts derives the instances of these rows (as long as
// no arithmetic wraps). Positive steps keep their form under substitution, given the decisions they made. For what a
// negation or an aggregate reads, the goals say more: at such a point the relation has, within the pattern of the goal,
// exactly the instances of the rows that it has here. For by induction over derivations at that point, every way through
// a rule's body is the instance of a way here: each atom's row is an instance of one that matches here, or of one that
// might have matched, and then C says that it does not.
#pragma once

#include <set>
#include <unordered_set>

#include "provenance.hpp"

namespace dl {

class ProofConditions {
public:
    ProofConditions(Engine& engine, Provenance& provenance);

    // Add the conditions of one proof of each row. Throws EvaluationError for a row that does not hold, or where negation
    // reads what depends on choice, subsumption, counters or limits.
    void add(int relation, const std::vector<std::vector<Value>>& rows);

    // Each condition once, with the first rule that asked.
    const std::vector<Decision>& decisions() const { return decisions_; }

private:
    void take(const std::vector<Decision>& decisions, const std::vector<Goal>& goals);
    void widen(Goal& goal);
    void settle(const Goal& goal);
    [[noreturn]] void refuse(int relation, const std::string& why) const;
    // An atom of the body that no row fits, by what the head and constants say alone: its goal will do for the rule.
    bool blocked(const FlatRule& flat, const std::vector<char>& set, const std::vector<Value>& registers);
    std::size_t reach(int relation);  // how many relations it depends on
    void look_at(int rule, const Goal& goal);

    Engine& engine_;
    Provenance& provenance_;
    Recorder recorder_;
    std::vector<Decision> decisions_;
    std::vector<char> noted_;
    std::vector<std::vector<int>> rules_of_;  // by relation
    std::vector<char> monotone_;
    std::vector<std::size_t> reach_;  // 0: not computed
    std::set<Goal> goals_;
    std::vector<std::size_t> asked_;  // goals by relation
    std::map<std::pair<int, int>, std::unordered_set<Value>> values_;  // by relation and column
    std::vector<Goal> open_;
    std::map<std::pair<int, std::vector<int>>, std::unique_ptr<Plan>> plans_;  // by rule and given columns
};

}  // namespace dl
