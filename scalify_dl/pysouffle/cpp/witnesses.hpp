// Witnesses of min and max: a variable that is bound only within such an aggregate, but used outside it, stands for the
// values that attain the extremum. `a(x, m) :- m = max v : { b(x, v) }` gives the x with the largest v.
#pragma once

#include <vector>

#include "ast.hpp"
#include "scopes.hpp"

namespace dl {

// Rewrites the clause, and `variables`, where it uses witnesses: the body of the aggregate is repeated outside it with
// the target equal to the result.
void export_witnesses(ast::Clause* clause, std::vector<ClauseVariable>& variables, bool head_binds, ast::Arena& arena);

}  // namespace dl
