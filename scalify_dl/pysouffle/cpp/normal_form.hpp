// Disjunctive normal form of rule bodies.
#pragma once

#include <vector>

#include "ast.hpp"
#include "source.hpp"

namespace dl {

using Conjunction = std::vector<ast::Literal*>;

// The bodies that `body` stands for: atoms, negated atoms and comparisons only. Disjunctions are multiplied out and
// negations pushed inward. Literals are shared between the results. Too many results are an error.
std::vector<Conjunction> disjunctive_normal_form(ast::Literal* body, ast::Arena& arena, Report& report);

Compare negated(Compare compare);

}  // namespace dl
