// The order of evaluation: strongly connected components of the dependency graph, dependencies first.
#pragma once

#include <vector>

#include "core.hpp"

namespace dl {

struct Stratum {
    std::vector<int> relations;
    std::vector<int> rules;          // Derive rules whose head is here
    std::vector<int> subsumptions;   // Subsume rules
    bool recursive = false;
    bool monotone = true;            // more input gives more output and takes nothing back
    std::vector<int> positive;       // relations of earlier strata that bodies read
    std::vector<int> other;          // … that are negated or aggregated over
};

std::vector<Stratum> stratify(const CoreProgram& program);

// visit(relation, positive) for every atom in a body.
template <class Visit>
void for_each_atom(const std::vector<Literal>& body, bool positive, Visit&& visit) {
    for (const Literal& literal : body) {
        if (literal.kind == Literal::Kind::Atom) visit(literal.atom.relation, positive);
        if (literal.kind == Literal::Kind::Negation) visit(literal.atom.relation, false);
        if (literal.kind == Literal::Kind::Aggregate) for_each_atom(literal.body, false, visit);
    }
}

// Does any term of the rule call autoinc() or a stateful host functor? Such a rule cannot be evaluated piecemeal.
bool has_side_effects(const CoreProgram& program, const Rule& rule);

}  // namespace dl
