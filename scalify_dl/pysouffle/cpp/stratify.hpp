// Stratification: no relation may depend on itself through negation or aggregation.
#pragma once

#include "ast.hpp"
#include "declarations.hpp"
#include "source.hpp"

namespace dl {

// Reports negation and aggregation within a cycle, naming it, and autoinc() in recursive rules.
void check_stratification(const std::vector<ast::Clause*>& clauses, const Declarations& declarations, Report& report);

// The inline relations, every one after those that its clauses use; reports cycles among them.
std::vector<std::int32_t> inline_order(const std::vector<ast::Clause*>& clauses, const Declarations& declarations, Report& report);

}  // namespace dl
