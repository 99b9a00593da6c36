// Number literals to values.
#pragma once

#include <optional>
#include <string_view>

#include "core.hpp"

namespace dl {

// The value (by bits) of a literal as written: decimal, 0x…, 0b…, an IPv4 address or a float, perhaps with a sign.
// Empty if it does not fit the type.
std::optional<Value> parse_constant(std::string_view text, TypeKind kind, int word_size);

}  // namespace dl
