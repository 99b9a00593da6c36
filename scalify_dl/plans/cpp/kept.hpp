// The tables of the copies and the micro-batch that stand for all: unit form (docs/plans.md).
#pragma once

#include "alike.hpp"

namespace plans {

struct Kept {
    i64 copies = 0;                             // that stand for all
    std::map<std::string, std::string> unit;    // tables in unit form
    std::vector<u32> lines;                     // where ops of `unit` stand in the table of ops
    std::map<std::string, std::string> talk;    // tables of what communicates, on all ranks
    std::vector<u32> talk_lines;
};

// Throws Irregular where copies or micro-batches are not alike, or there is one only of either.
Kept kept(const std::string& directory);

}  // namespace plans
