// Which occurrences of a name in a clause are the same variable.
//
// The head and the body outside aggregates are one scope, every aggregate is a scope within the one around it. A name in
// an aggregate means the variable around it if there is one (then it is injected), else one that is local to the
// aggregate. A name in the target expression that the aggregate's own body binds is always local:
// in `a(x, s) :- b(x), s = sum x : { c(x) }` the summed x has nothing to do with the other.
#pragma once

#include <vector>

#include "ast.hpp"

namespace dl {

struct ClauseVariable {
    ast::Name name;
    Offset begin = 0;              // its first occurrence
    int uses = 0;
    ast::Argument* scope = nullptr;  // the aggregate that it is local to; null: the clause
};

// The name that the user wrote, for messages, where passes made another of it ("@x@0", "x#3"). Empty for variables that
// only passes know.
ast::Name written_name(ast::Name name);

// Sets Argument::id of every variable to its index in the result; that of everything else to -1.
std::vector<ClauseVariable> resolve_variables(ast::Clause* clause);

// Calls `visit(argument)` for every argument outside aggregates, and for the aggregates but not what is in them.
template <class Visit>
void for_each_in_scope(ast::Argument* argument, Visit&& visit) {
    visit(argument);
    if (argument->kind == ast::Argument::Kind::Aggregate) return;
    for (ast::Argument* part : argument->args) for_each_in_scope(part, visit);
}

template <class Visit>
void for_each_in_scope(const ast::List<ast::Literal*>& literals, Visit&& visit) {
    for (ast::Literal* literal : literals) {
        if (literal->atom)
            for (ast::Argument* argument : literal->atom->args) for_each_in_scope(argument, visit);
        if (literal->left) for_each_in_scope(literal->left, visit);
        if (literal->right) for_each_in_scope(literal->right, visit);
    }
}

}  // namespace dl
