#include "constants.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <limits>

namespace dl {

namespace {

std::optional<std::uint64_t> magnitude(std::string_view text) {
    if (std::count(text.begin(), text.end(), '.') == 3) {  // an IPv4 address
        std::uint64_t result = 0;
        for (int part = 0; part < 4; ++part) {
            const std::size_t end = std::min(text.find('.'), text.size());
            unsigned value = 0;
            const auto [rest, error] = std::from_chars(text.data(), text.data() + end, value);
            if (error != std::errc() || rest != text.data() + end || value > 255) return {};
            result = result << 8 | value;
            text.remove_prefix(std::min(end + 1, text.size()));
        }
        return result;
    }
    int base = 10;
    if (text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'b')) {
        base = text[1] == 'x' ? 16 : 2;
        text.remove_prefix(2);
    }
    std::uint64_t result = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), result, base);
    if (error != std::errc() || rest != text.data() + text.size()) return {};
    return result;
}

}  // namespace

std::optional<Value> parse_constant(std::string_view text, TypeKind kind, int word_size) {
    const bool negative = !text.empty() && text[0] == '-';
    if (negative) text.remove_prefix(1);

    if (kind == TypeKind::Float) {
        double value = 0;
        const bool prefixed = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'b');
        if (prefixed) {
            const std::optional<std::uint64_t> integer = magnitude(text);
            if (!integer) return {};
            value = static_cast<double>(*integer);
        } else {
            const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc() || rest != text.data() + text.size()) return {};
        }
        if (negative) value = -value;
        if (word_size == 32) value = static_cast<float>(value);
        return std::bit_cast<Value>(value);
    }

    const std::optional<std::uint64_t> integer = magnitude(text);
    if (!integer) return {};
    const std::uint64_t ones = word_size == 32 ? 0xFFFFFFFFu : std::numeric_limits<std::uint64_t>::max();
    if (kind == TypeKind::Unsigned) {
        if (*integer > ones || negative) return {};
        return static_cast<Value>(*integer);
    }
    const std::uint64_t limit = ones / 2 + negative;
    // 0xFFFFFFFF and the like, and addresses, give a bit pattern rather than a quantity.
    const bool pattern = text.find('.') != std::string_view::npos || (text.size() > 1 && (text[1] == 'x' || text[1] == 'b'));
    if (*integer > limit) {
        if (!pattern || negative || *integer > ones) return {};
        return word_size == 32 ? static_cast<Value>(static_cast<std::int32_t>(*integer)) : static_cast<Value>(*integer);
    }
    return negative ? static_cast<Value>(0 - *integer) : static_cast<Value>(*integer);
}

}  // namespace dl
