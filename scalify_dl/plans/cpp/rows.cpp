#include "rows.hpp"

#include <filesystem>
#include <fstream>
#include <functional>

namespace plans {

std::string read_file(const std::string& file) {
    must(std::filesystem::is_regular_file(file));
    std::ifstream in(file, std::ios::binary | std::ios::ate);
    must(in.good());
    std::string text(static_cast<std::size_t>(in.tellg()), '\0');
    in.seekg(0);
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
    must(in.good() || text.empty());
    return text;
}

std::vector<i64> numbers(std::string_view text) {
    const auto digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto word = [&](char c) {
        must(!(c & 0x80));
        return digit(c) || c == '_' || c == '.' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    };
    std::vector<i64> found;
    for (std::size_t at = 0; at < text.size();) {
        const bool minus = text[at] == '-' && at + 1 < text.size() && digit(text[at + 1]);
        if (!(digit(text[at]) || minus) || (at > 0 && word(text[at - 1]))) {
            ++at;
            continue;
        }
        std::size_t end = at + minus;
        while (end < text.size() && digit(text[end])) ++end;
        if (end == text.size() || !word(text[end])) found.push_back(number(text.substr(at, end - at)));
        at = end;
    }
    return found;
}

std::size_t Texts::place(std::string_view text) const {
    std::size_t at = std::hash<std::string_view>{}(text) & (slots_.size() - 1);
    while (slots_[at] != none && texts_[slots_[at]] != text) at = (at + 1) & (slots_.size() - 1);
    return at;
}

u32 Texts::add(std::string_view text) {
    const std::size_t at = place(text);
    if (slots_[at] != none) return slots_[at];
    const u32 n = size();
    texts_.push_back(keep_ ? std::string_view(kept_.emplace_back(text)) : text);
    slots_[at] = n;
    if (texts_.size() * 2 > slots_.size()) {
        slots_.assign(slots_.size() * 2, none);
        for (u32 k = 0; k <= n; ++k) slots_[place(texts_[k])] = k;
    }
    return n;
}

}  // namespace plans
