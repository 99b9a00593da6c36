// Rows of tab-separated tables, and texts as numbers.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace plans {

using u32 = std::uint32_t;
using i64 = std::int64_t;
constexpr u32 none = ~0u;

// What is not as in a regular plan: the tables are then read the long way, which tells what it is.
struct Irregular {};

inline void must(bool holds) {
    if (!holds) throw Irregular{};
}

std::string read_file(const std::string& file);

// A whole number as these tables write it: digits, perhaps a minus.
inline i64 number(std::string_view text) {
    const bool minus = !text.empty() && text[0] == '-';
    if (minus) text.remove_prefix(1);
    must(!text.empty() && text.size() < 18);
    i64 value = 0;
    for (const char c : text) {
        must(c >= '0' && c <= '9');
        value = value * 10 + (c - '0');
    }
    return minus ? -value : value;
}

// The whole numbers in a text, but for those that are parts of words or of other numbers.
std::vector<i64> numbers(std::string_view text);

// Calls `f` with the cells of every row; each row has `width` of them.
template <int width, class F>
void each_row(std::string_view text, F f) {
    std::array<std::string_view, width> cells;
    const char *at = text.data(), *end = at + text.size();
    while (at < end) {
        const char* stop = static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
        if (!stop) stop = end;
        int n = 0;
        const char* start = at;
        for (const char* c = at; c < stop; ++c)
            if (*c == '\t') {
                must(n < width - 1);
                cells[static_cast<std::size_t>(n++)] = {start, static_cast<std::size_t>(c - start)};
                start = c + 1;
            }
        must(n == width - 1);
        cells[width - 1] = {start, static_cast<std::size_t>(stop - start)};
        f(cells);
        at = stop + 1;
    }
}

// Texts numbered in the order in which they come. `keep`: copies are kept, where the text itself goes away.
class Texts {
public:
    explicit Texts(bool keep) : keep_(keep), slots_(1024, none) {}

    u32 find(std::string_view text) const { return slots_[place(text)]; }
    u32 add(std::string_view text);
    std::string_view operator[](u32 n) const { return texts_[n]; }
    u32 size() const { return static_cast<u32>(texts_.size()); }

private:
    std::size_t place(std::string_view text) const;

    bool keep_;
    std::vector<u32> slots_;
    std::vector<std::string_view> texts_;
    std::deque<std::string> kept_;
};

}  // namespace plans
