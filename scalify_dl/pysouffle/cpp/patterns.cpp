#include "patterns.hpp"

#include <regex>

#include "diagnostic.hpp"

namespace dl {

namespace {

constexpr std::size_t kMostPatterns = 4096;  // kept compiled
constexpr std::size_t kLongestText = 20000;      // std::regex recurses once per character

std::optional<std::regex> compile(const std::string& pattern, std::string& error) {
    try {
        return std::regex(pattern);
    } catch (const std::regex_error& why) {
        error = '"' + pattern.substr(0, 80) + "\" is not a regular expression, so nothing matches it: " + why.what();
        return std::nullopt;
    }
}

}  // namespace

std::string pattern_error(const std::string& pattern) {
    std::string error;
    compile(pattern, error);
    return error;
}

struct Patterns::Compiled {
    std::regex regex;
};

std::optional<bool> Patterns::matches(std::string_view pattern, std::string_view text) {
    auto at = compiled_.find(std::string(pattern));
    if (at == compiled_.end()) {
        if (compiled_.size() > kMostPatterns) compiled_.clear();
        std::string error;
        std::optional<std::regex> regex = compile(std::string(pattern), error);
        if (!regex) errors_.push_back(std::move(error));
        at = compiled_.emplace(pattern, regex ? std::make_shared<const Compiled>(Compiled{*std::move(regex)}) : nullptr).first;
    }
    if (!at->second) return std::nullopt;
    if (text.size() > kLongestText) throw EvaluationError("match: a text of more than 20,000 characters");
    return std::regex_match(text.begin(), text.end(), at->second->regex);
}

}  // namespace dl
