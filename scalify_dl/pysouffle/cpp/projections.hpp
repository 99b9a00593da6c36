// What an aggregate counts. Soufflé evaluates the body of an aggregate with several atoms (or an aggregate within, or a
// variable that occurs twice in the only atom) as a relation over its named variables. `count`, `sum` and `mean` then
// see every binding of those once, whatever stands for `_`; with a single plain atom they see every tuple.
#pragma once

#include "ast.hpp"

namespace dl {

// Replaces, in such bodies, every atom that has `_` by an atom of a new relation without those columns. The new
// relations have names that begin with '@'.
void project_unnamed_columns(ast::Program& program, ast::Arena& arena);

}  // namespace dl
