// Macro definitions and their expansion.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dl {

inline bool is_identifier_start(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '?';
}
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_identifier_part(char c) { return is_identifier_start(c) || is_digit(c); }
inline bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; }

// The end of the string literal, number, identifier, comment or other single character that starts at `pos`.
std::size_t token_end(std::string_view text, std::size_t pos);

struct Macro {
    bool function = false;
    bool variadic = false;
    std::vector<std::string> parameters;
    std::string body;
};

class Macros {
public:
    void define(const std::string& name, Macro macro) { table_[name] = std::move(macro); }
    void undefine(const std::string& name) { table_.erase(name); }
    bool defined(std::string_view name) const { return find(name) != nullptr; }
    bool empty() const { return table_.empty(); }
    const Macro* find(std::string_view name) const;

    // `#define` line after the keyword. Throws std::runtime_error with a message.
    void parse_definition(std::string_view line);

    // Expands every macro in `text`. Throws std::runtime_error when expansion does not end or grows too large.
    std::string expand(std::string_view text) const;

    // If a use of `macro` starts at text[pos] (just after its name): the end of its argument list.
    // npos: a function-like macro without arguments, hence not a use. Throws std::runtime_error if the list does not end.
    static std::size_t use_end(const Macro& macro, std::string_view text, std::size_t pos);

private:
    struct Active {
        const Macro* macro;
        const Active* outer;
    };
    void expand_into(std::string& out, std::string_view text, const Active* active, int depth) const;
    std::string substitute(const Macro& macro, std::string_view arguments, const Active* active, int depth) const;

    std::unordered_map<std::string, Macro> table_;
    mutable std::size_t steps_ = 0;
};

}  // namespace dl
