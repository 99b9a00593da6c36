// What an engine knows of all rules before it runs any: in which order they are evaluated, and what each reads.
#pragma once

#include <vector>

#include "core.hpp"
#include "strata.hpp"

namespace dl {

struct RuleOutline {
    std::int32_t head = -1;           // relation
    std::vector<std::int32_t> atoms;  // relations of the positive atoms of the body, in order
};

struct Outline {
    std::vector<Stratum> strata;
    std::vector<RuleOutline> rules;
    bool side_effects = false;  // of any rule
};

// A program that engines can share.
struct Prepared {
    CoreProgram program;
    Outline outline;
};

// In the strata that are given, or in those of stratify().
Outline outline(const CoreProgram& program, std::vector<Stratum> strata = {});

}  // namespace dl
