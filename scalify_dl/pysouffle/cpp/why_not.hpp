// Why is a row not there? For each rule that could derive it, the first literal that no binding gets past.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine.hpp"

namespace dl {

struct Obstacle {
    int rule = -1;
    std::string literal;                          // with the values of the best binding filled in; empty: the head does not fit
    std::string reason;                           // one sentence
    std::vector<std::pair<int, Value>> bindings;  // variable of the rule, value
    int relation = -1;                            // of `nearest`
    std::vector<std::vector<Value>> nearest;      // rows that come closest to what the literal asks for
};

// One obstacle per rule with this head; empty if no rule has it. The row must not be there.
std::vector<Obstacle> why_not(Engine& engine, int relation, const std::vector<Value>& row);

}  // namespace dl
