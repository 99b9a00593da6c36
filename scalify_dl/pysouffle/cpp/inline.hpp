// Inline relations: their atoms are replaced by the bodies of their clauses.
#pragma once

#include <vector>

#include "ast.hpp"
#include "declarations.hpp"
#include "source.hpp"

namespace dl {

// Uses that cannot be inlined: in aggregates, negated with variables of their own, with counters.
void check_inlining(const std::vector<ast::Clause*>& clauses, const Declarations& declarations, Report& report);

// Does the body of the clause mention an inline relation?
bool mentions_inline(const ast::Clause* clause, const Declarations& declarations);

// What `callers` become. `definitions` are the clauses of inline relations; `order`: see `inline_order`.
std::vector<ast::Clause*> inline_relations(const std::vector<ast::Clause*>& definitions,
                                           const std::vector<ast::Clause*>& callers,
                                           const std::vector<std::int32_t>& order, const Declarations& declarations,
                                           ast::Arena& arena, Report& report);

}  // namespace dl
