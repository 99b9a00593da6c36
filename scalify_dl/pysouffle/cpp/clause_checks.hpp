// What a clause must satisfy besides its types.
#pragma once

#include <vector>

#include "ast.hpp"
#include "declarations.hpp"
#include "scopes.hpp"
#include "source.hpp"

namespace dl {

// Known relations and functors, arities, constant facts, no `_` where a value is needed.
void check_names(ast::Clause* clause, const Declarations& declarations, Report& report);

// Every variable gets its values from somewhere.
void check_grounded(ast::Clause* clause, const std::vector<ClauseVariable>& variables, bool head_binds, Report& report);

// The orders of `.plan` are permutations of the atoms.
void check_plan(const ast::Clause* clause, Report& report);

void warn_about_empty_relations(const ast::Program& program, const Declarations& declarations, Report& report);

// Variables that occur once, and `_x` that occur more often.
void warn_about_variables(const ast::Clause* clause, const std::vector<ClauseVariable>& variables, Report& report);

}  // namespace dl
