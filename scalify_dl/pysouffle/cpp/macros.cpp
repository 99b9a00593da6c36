#include "macros.hpp"

#include <stdexcept>

namespace dl {

namespace {

constexpr int kMaxDepth = 200;
constexpr std::size_t kMaxExpansion = 16u << 20;
constexpr std::size_t kMaxSteps = 10'000'000;

std::string_view trim(std::string_view s) {
    while (!s.empty() && (is_blank(s.front()) || s.front() == '\n')) s.remove_prefix(1);
    while (!s.empty() && (is_blank(s.back()) || s.back() == '\n')) s.remove_suffix(1);
    return s;
}

// Splits "(a, (b, c), d)" at its top-level commas.
std::vector<std::string_view> split_arguments(std::string_view list) {
    std::vector<std::string_view> result;
    int depth = 0;
    std::size_t begin = 1;
    for (std::size_t i = 0; i < list.size();) {
        const std::size_t end = token_end(list, i);
        const char c = list[i];
        if (c == '(') ++depth;
        if (c == ')' && --depth == 0) result.push_back(trim(list.substr(begin, i - begin)));
        if (c == ',' && depth == 1) {
            result.push_back(trim(list.substr(begin, i - begin)));
            begin = i + 1;
        }
        i = end;
    }
    return result;
}

std::string in_quotes(std::string_view text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c;
    }
    return result + '"';
}

}  // namespace

std::size_t token_end(std::string_view text, std::size_t pos) {
    const std::size_t n = text.size();
    const char c = text[pos];
    if (is_identifier_start(c)) {
        while (pos < n && is_identifier_part(text[pos])) ++pos;
        return pos;
    }
    if (is_digit(c)) {  // as in C, letters belong to the number: 0x1F, 12u
        while (pos < n && (is_identifier_part(text[pos]) ||
                           (text[pos] == '.' && pos + 1 < n && is_digit(text[pos + 1])))) ++pos;
        return pos;
    }
    if (c == '"') {
        for (++pos; pos < n && text[pos] != '\n'; ++pos) {
            if (text[pos] == '\\' && pos + 1 < n) ++pos;
            else if (text[pos] == '"') return pos + 1;
        }
        return pos;
    }
    if (c == '/' && pos + 1 < n && text[pos + 1] == '/') {
        const std::size_t end = text.find('\n', pos);
        return end == std::string_view::npos ? n : end;
    }
    if (c == '/' && pos + 1 < n && text[pos + 1] == '*') {
        const std::size_t end = text.find("*/", pos + 2);
        return end == std::string_view::npos ? n : end + 2;
    }
    return pos + 1;
}

const Macro* Macros::find(std::string_view name) const {
    auto found = table_.find(std::string(name));
    return found == table_.end() ? nullptr : &found->second;
}

void Macros::parse_definition(std::string_view line) {
    line = trim(line);
    if (line.empty() || !is_identifier_start(line[0])) throw std::runtime_error("#define needs a name");
    std::size_t end = token_end(line, 0);
    const std::string name(line.substr(0, end));
    if (name == "defined") throw std::runtime_error("'defined' cannot be a macro");
    Macro macro;
    line.remove_prefix(end);
    if (!line.empty() && line[0] == '(') {
        macro.function = true;
        const std::size_t close = line.find(')');
        if (close == std::string_view::npos) throw std::runtime_error("the parameter list of macro " + name + " does not end");
        for (std::string_view parameter : split_arguments(line.substr(0, close + 1))) {
            if (parameter.empty() && line.substr(0, close + 1).find(',') == std::string_view::npos) break;
            if (macro.variadic) throw std::runtime_error("'...' must be the last parameter of macro " + name);
            if (parameter == "...") {
                macro.variadic = true;
                parameter = "__VA_ARGS__";
            } else if (parameter.empty() || !is_identifier_start(parameter[0]) ||
                       token_end(parameter, 0) != parameter.size()) {
                throw std::runtime_error("a parameter of macro " + name + " is not a name");
            }
            macro.parameters.emplace_back(parameter);
        }
        line.remove_prefix(close + 1);
    }
    macro.body = std::string(trim(line));
    define(name, std::move(macro));
}

std::size_t Macros::use_end(const Macro& macro, std::string_view text, std::size_t pos) {
    if (!macro.function) return pos;
    std::size_t i = pos;
    while (i < text.size() && (is_blank(text[i]) || text[i] == '\n')) ++i;
    if (i == text.size() || text[i] != '(') return std::string_view::npos;
    int depth = 0;
    while (i < text.size()) {
        const char c = text[i];
        i = token_end(text, i);
        if (c == '(') ++depth;
        if (c == ')' && --depth == 0) return i;
    }
    throw std::runtime_error("the arguments of a macro do not end: ')' is missing");
}

std::string Macros::expand(std::string_view text) const {
    std::string out;
    steps_ = 0;
    expand_into(out, text, nullptr, 0);
    return out;
}

void Macros::expand_into(std::string& out, std::string_view text, const Active* active, int depth) const {
    if (depth > kMaxDepth) throw std::runtime_error("macros are nested too deeply");
    for (std::size_t i = 0; i < text.size();) {
        const std::size_t end = token_end(text, i);
        const std::string_view token = text.substr(i, end - i);
        const Macro* macro = is_identifier_start(token[0]) ? find(token) : nullptr;
        for (const Active* a = active; macro && a; a = a->outer)
            if (a->macro == macro) macro = nullptr;  // a macro is not expanded within itself
        const std::size_t use = macro ? use_end(*macro, text, end) : std::string_view::npos;
        if (use == std::string_view::npos) {
            out += token;
            i = end;
        } else {
            const Active now{macro, active};
            const std::string replacement = substitute(*macro, text.substr(end, use - end), active, depth);
            expand_into(out, replacement, &now, depth + 1);
            i = use;
        }
        // Steps count too: macros that expand to nothing can double their work at every level.
        if (++steps_ > kMaxSteps || out.size() > kMaxExpansion) throw std::runtime_error("macro expansion grows without end");
    }
}

std::string Macros::substitute(const Macro& macro, std::string_view arguments, const Active* active, int depth) const {
    if (!macro.function) return macro.body;
    std::vector<std::string_view> given = split_arguments(trim(arguments));
    if (given.size() == 1 && given[0].empty() && macro.parameters.empty()) given.clear();
    std::vector<std::string> raw;
    for (std::size_t i = 0; i < given.size(); ++i) {
        if (macro.variadic && i >= macro.parameters.size()) raw.back() += ", " + std::string(given[i]);
        else raw.emplace_back(given[i]);
    }
    if (macro.variadic && raw.size() + 1 == macro.parameters.size()) raw.emplace_back();
    if (raw.size() != macro.parameters.size())
        throw std::runtime_error("the macro takes " + std::to_string(macro.parameters.size()) + " arguments, " +
                                 std::to_string(raw.size()) + " given");

    auto parameter = [&](std::string_view token) {
        for (std::size_t i = 0; i < macro.parameters.size(); ++i)
            if (macro.parameters[i] == token) return static_cast<int>(i);
        return -1;
    };
    const std::string_view body = macro.body;
    std::string out;
    bool paste = false;  // the previous token was ##
    for (std::size_t i = 0; i < body.size();) {
        const std::size_t end = token_end(body, i);
        const std::string_view token = body.substr(i, end - i);
        if (token == "#" && end < body.size() && body[end] == '#') {
            while (!out.empty() && is_blank(out.back())) out.pop_back();
            paste = true;
            i = end + 1;
            continue;
        }
        if (paste && is_blank(token[0])) {
            i = end;
            continue;
        }
        if (token == "#") {
            std::size_t next = end;
            while (next < body.size() && is_blank(body[next])) ++next;
            const std::size_t next_end = next < body.size() ? token_end(body, next) : next;
            const int index = parameter(body.substr(next, next_end - next));
            if (index >= 0) {
                out += in_quotes(raw[index]);
                i = next_end;
                continue;
            }
        }
        const int index = is_identifier_start(token[0]) ? parameter(token) : -1;
        if (index < 0) {
            out += token;
        } else {
            std::size_t next = end;
            while (next < body.size() && is_blank(body[next])) ++next;
            if (paste || body.substr(next, 2) == "##") out += raw[index];
            else expand_into(out, raw[index], active, depth + 1);
        }
        paste = false;
        i = end;
    }
    return out;
}

}  // namespace dl
