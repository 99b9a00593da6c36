// Components: `.comp` and `.init` are replaced by what they stand for.
//
// An instance named `i` contributes everything that its component and the bases of that component declare, under names
// that begin with "i.". Rules of an instance mean its own relations where it has them, else those around it.
#pragma once

#include "ast.hpp"
#include "source.hpp"

namespace dl {

// Afterwards the program has no components and no instantiations. Errors go to `report`; if there are any, the program
// may be incomplete.
void instantiate_components(ast::Program& program, ast::Arena& arena, Report& report);

}  // namespace dl
