// Program text to syntax tree.
#pragma once

#include "ast.hpp"
#include "source.hpp"

namespace dl {

// Syntax errors go to `report`; after one, parsing goes on at the next clause or directive.
ast::Program parse(const Source& source, ast::Arena& arena, Report& report);

}  // namespace dl
