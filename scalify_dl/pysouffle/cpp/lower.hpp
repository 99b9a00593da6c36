// Checked clauses to rules of the core program.
#pragma once

#include "ast.hpp"
#include "core.hpp"
#include "declarations.hpp"
#include "source.hpp"
#include "typing.hpp"

namespace dl {

Rule lower_clause(ast::Clause* clause, const std::vector<ClauseVariable>& variables, const ClauseTypes& types,
                  const Declarations& declarations, const Source& source);

// Relations (all but inline ones, whose core_index stays -1), functors, directives, pragmas and types.
CoreProgram lower_declarations(const ast::Program& program, Declarations& declarations, const Source& source);

}  // namespace dl
