// The regular expressions of `match`. A text that is none is worth a warning; nothing matches it, and nothing fails to.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace dl {

// What is wrong with a pattern, as a message; empty if it is a regular expression.
std::string pattern_error(const std::string& pattern);

class Patterns {
public:
    // Does the whole text match? Nothing if the pattern is no regular expression.
    std::optional<bool> matches(std::string_view pattern, std::string_view text);

    bool has_errors() const { return !errors_.empty(); }
    // Messages about patterns that turned out to be none, each once.
    std::vector<std::string> take_errors() { return std::exchange(errors_, {}); }

private:
    struct Compiled;
    std::unordered_map<std::string, std::shared_ptr<const Compiled>> compiled_;  // null: none
    std::vector<std::string> errors_;
};

}  // namespace dl
