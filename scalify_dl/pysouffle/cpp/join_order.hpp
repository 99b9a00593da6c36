// In which order a body's literals are tried.
//
// Literals that need no search (comparisons, computations, complete lookups, negations) go as early as they can; among
// the others the one with the fewest expected rows per entry is next, by live sizes and numbers of different keys. The
// delta atom, if any, comes first; without one every start is tried and the cheapest order kept.
#pragma once

#include <utility>
#include <vector>

#include "plan.hpp"

namespace dl {

inline bool is_bound(Register r, const std::vector<char>& bound) { return r != kUnnamed && bound[static_cast<std::size_t>(r)]; }
bool all_bound(const std::vector<Register>& registers, const std::vector<char>& bound);

// Note what a literal binds.
void bind(const FlatLiteral& literal, std::vector<char>& bound);

// Registers that have a value before the body is entered.
std::vector<char> given_registers(const PlanRequest& request);

class JoinOrder {
public:
    struct Order {
        std::vector<std::pair<int, double>> items;  // literal, expected rows per entry
        double cost = 0;                            // rows looked at, in all
    };

    JoinOrder(const PlanRequest& request, Database& database) : request_(request), db_(database) {}

    // The order of a body (the rule's, or one nested in it). Throws if none grounds everything.
    Order choose(const std::vector<FlatLiteral>& body, const std::vector<char>& bound, int delta);

private:
    int readiness(const FlatLiteral& literal, const std::vector<char>& bound) const;
    double fanout(const FlatLiteral& literal, const std::vector<char>& bound);
    Order greedy(const std::vector<FlatLiteral>& body, std::vector<char> bound, int first, double give_up);
    int cheapest(const std::vector<FlatLiteral>& body, const std::vector<char>& done, const std::vector<char>& bound, double& cost);

    // What is computed for the head waits for the end, unless the head is given: then it is a condition like others.
    bool for_later(const FlatLiteral& literal) const { return literal.for_head && request_.bound.empty(); }
    RelationData& data(const FlatLiteral& literal) { return *db_.relations[static_cast<std::size_t>(literal.relation)]; }

    const PlanRequest& request_;
    Database& db_;
};

}  // namespace dl
