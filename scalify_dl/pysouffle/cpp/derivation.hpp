// A derivation as Python objects: every value once, by number.
#pragma once

#include "provenance.hpp"
#include "python_values.hpp"

namespace dl {

// (values, variables, steps); needs the GIL.
//   values     number -> int, float, str, None, or for a record the numbers of its fields; parts come first. A value of an
//              algebraic data type is the pair of its branch's name and the record of its fields.
//   variables  rule -> the names of its variables
//   steps      (relation, rule, premises, values): row number -> a step by a rule, from these rows, with these values of its
//              variables; or with rule -1 a fact, with its row
nb::tuple as_python(Engine& engine, const std::vector<ProofNode>& derivation);

}  // namespace dl
