// Groundedness: every variable must get its values from somewhere.
#pragma once

#include <vector>

#include "ast.hpp"
#include "declarations.hpp"
#include "scopes.hpp"

namespace dl {

// For every variable of the clause: is it bound by a positive atom, or through `=`, a record or a branch by something
// that is? A variable within an aggregate may also be bound there. The clauses of inline relations may leave head
// variables unbound: their use binds them. `aggregates_known`: take the value of every aggregate for bound, though what
// it takes from outside may not be.
std::vector<bool> grounded_variables(ast::Clause* clause, const std::vector<ClauseVariable>& variables, bool head_binds,
                                     bool aggregates_known = false);

}  // namespace dl
