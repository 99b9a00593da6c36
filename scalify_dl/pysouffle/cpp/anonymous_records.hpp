// Records whose type is never said, as in `a(x, y), r = [x, y], r = [v, w]`: they only carry their fields from one
// place to another, so they are resolved before evaluation.
#pragma once

#include "ast.hpp"

namespace dl {

// Splits equations between records into equations between their fields, in all bodies of the clause.
void split_record_equations(ast::Clause* clause, ast::Arena& arena);

// Puts records in the place of variables that are equated with them, then splits again. Returns whether anything changed.
bool substitute_records(ast::Clause* clause, ast::Arena& arena);

}  // namespace dl
