#include "preprocessor.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>

#include "macros.hpp"

namespace dl {

namespace fs = std::filesystem;

namespace {

constexpr int kMaxIncludeDepth = 100;
constexpr std::size_t kMaxFiles = 10'000;
constexpr std::size_t kMaxText = 1u << 30;

bool read_file(const fs::path& path, std::string& content) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return false;
    char block[1 << 14];
    while (in.read(block, sizeof block) || in.gcount() > 0) content.append(block, static_cast<std::size_t>(in.gcount()));
    return !in.bad();
}

class Preprocessor {
public:
    Preprocessor(const SourceOptions& options, Source& source, std::vector<FileLookup>* lookups) : options_(options), source_(source), lookups_(lookups) {}

    void run() {
        macros_.define("RAM_DOMAIN_SIZE", {false, false, {}, std::to_string(options_.word_size)});
        for (const auto& [name, value] : options_.defines) macros_.define(name, {false, false, {}, value});
        user_macros_ = !options_.defines.empty();
        file(options_.name, options_.text, 0);
        source_.index();
    }

private:
    // One #if … #endif that is open.
    struct Group {
        bool active = true;     // lines of the current branch count
        bool taken = false;     // some branch was already taken
        bool enclosing = true;  // the surrounding lines count
        bool has_else = false;
        std::uint32_t line = 0;
    };

    // The state of the file that is being read.
    struct Reader {
        std::uint32_t file = 0;
        std::string_view text;
        std::size_t at = 0;
        std::uint32_t line = 1;
        std::size_t line_begin = 0;
        std::vector<Group> groups;
        std::int32_t reported_file = -1;
        std::int32_t line_shift = 0;
        std::string path;
        int depth = 0;

        std::uint32_t column() const { return static_cast<std::uint32_t>(at - line_begin) + 1; }
        bool active() const { return groups.empty() || groups.back().active; }
    };

    [[noreturn]] void fail(const Reader& r, std::uint32_t line, std::uint32_t column, std::string message,
                           std::string hint = {}) {
        throw SourceError(source_.diagnostic_in_file(Severity::Error, r.file, line, column, std::move(message),
                                                     std::move(hint)));
    }

    void segment(const Reader& r, bool fixed = false) {
        source_.segments.push_back({static_cast<Offset>(source_.text.size()), r.file, r.line, r.column(), fixed,
                                    r.reported_file, r.line_shift});
    }

    void emit(const Reader& r, std::string_view piece) {
        source_.text += piece;
        if (source_.text.size() > kMaxText) fail(r, r.line, 1, "the program is larger than 1 GB");
    }

    void file(const std::string& path, std::string content, int depth) {
        Reader r;
        r.file = static_cast<std::uint32_t>(source_.files.size());
        r.path = path;
        r.depth = depth;
        source_.files.push_back({path, std::move(content), {}});
        // `files` may grow while this file is being read, so the text is kept here.
        const std::string text = source_.files.back().content;
        r.text = text;
        if (std::size_t bad = first_invalid_utf8(text); bad != std::string::npos) {
            const auto line = static_cast<std::uint32_t>(std::count(text.begin(), text.begin() + bad, '\n') + 1);
            const std::size_t begin = bad == 0 ? 0 : text.rfind('\n', bad - 1) + 1;
            fail(r, line, static_cast<std::uint32_t>(bad - begin) + 1, "invalid UTF-8 in the program",
                 "save the file as UTF-8");
        }
        segment(r);
        lines(r);
        if (!r.groups.empty()) fail(r, r.groups.back().line, 1, "#if without #endif");
        // The text that follows an #include must not run into the last line of the included file.
        if (!source_.text.empty() && source_.text.back() != '\n') source_.text += '\n';
    }

    // Text is copied in long stretches, each as far as no directive and no macro is met.
    void lines(Reader& r) {
        std::size_t copied = 0;  // where the stretch that is not yet copied begins
        const auto flush = [&](std::size_t end) {
            if (end > copied) emit(r, r.text.substr(copied, end - copied));
            copied = end;
        };
        bool line_start = true;
        while (r.at < r.text.size()) {
            const char c = r.text[r.at];
            if (c == '\n') {
                newline(r, r.at + 1);
                line_start = true;
                if (!r.active()) {  // keep the number of lines, drop the text
                    emit(r, "\n");
                    copied = r.at;
                }
                continue;
            }
            if (is_blank(c)) {
                ++r.at;
                continue;
            }
            if (line_start && (c == '#' || (c == '.' && at_dot_directive(r)))) {
                if (r.active()) flush(r.line_begin);
                directive(r);
                copied = r.at;
                segment(r);
                continue;
            }
            line_start = false;
            if (c == '\\' && splice(r)) {
                if (r.active()) flush(r.at);
                skip_splice(r);
                copied = r.at;
                segment(r);
                continue;
            }
            const std::size_t end = token_end(r.text, r.at);
            if (!r.active()) {
                if (c == '/' && end > r.at + 1) blank_comment(r, end);
                else r.at = end;
                copied = r.at;
                continue;
            }
            if (is_identifier_start(c) && macro_at(r, end)) {
                flush(r.at);
                expand(r, end);
                copied = r.at;
                segment(r);
                continue;
            }
            advance(r, end);
        }
        if (r.active()) flush(r.text.size());
    }

    static void newline(Reader& r, std::size_t next) {
        r.at = next;
        r.line_begin = next;
        ++r.line;
    }

    // Moves over a token that may hold newlines (a comment, a string).
    static void advance(Reader& r, std::size_t end) {
        if (r.text[r.at] == '/' || r.text[r.at] == '"')
            for (std::size_t i = r.at; i < end; ++i)
                if (r.text[i] == '\n') newline(r, i + 1);
        r.at = end;
    }

    void blank_comment(Reader& r, std::size_t end) {
        const std::uint32_t before = r.line;
        advance(r, end);
        emit(r, std::string(r.line - before, '\n'));
    }

    static bool splice(const Reader& r) {
        const std::string_view rest = r.text.substr(r.at + 1, 2);
        return rest.substr(0, 1) == "\n" || rest == "\r\n";
    }
    static void skip_splice(Reader& r) { newline(r, r.text.find('\n', r.at) + 1); }

    bool macro_at(const Reader& r, std::size_t end) const {
        const std::string_view name = r.text.substr(r.at, end - r.at);
        if (name[0] == '_' && (name == "__FILE__" || name == "__LINE__")) return true;
        if (!user_macros_ && name[0] != 'R') return false;  // only RAM_DOMAIN_SIZE is there
        return macros_.find(name) != nullptr;
    }

    void expand(Reader& r, std::size_t end) {
        const std::string_view name = r.text.substr(r.at, end - r.at);
        const Macro* macro = name == "__FILE__" || name == "__LINE__" ? nullptr : macros_.find(name);
        std::string replacement;
        std::size_t use = end;
        if (!macro) {
            replacement = builtin(r, name);
        } else {
            try {
                use = Macros::use_end(*macro, r.text, end);
                if (use == std::string_view::npos) {
                    use = end;
                    replacement = std::string(name);
                } else {
                    define_place(r);
                    replacement = macros_.expand(r.text.substr(r.at, use - r.at));
                }
            } catch (const std::runtime_error& error) {
                fail(r, r.line, r.column(), error.what(), "in the use of macro " + std::string(name));
            }
        }
        std::replace(replacement.begin(), replacement.end(), '\n', ' ');
        segment(r, true);
        emit(r, replacement);
        for (std::size_t i = r.at; i < use; ++i)
            if (r.text[i] == '\n') newline(r, i + 1);
        r.at = use;
    }

    // Uses of __LINE__ and __FILE__ within a macro stand for the place of the use.
    void define_place(const Reader& r) {
        macros_.define("__LINE__", {false, false, {}, builtin(r, "__LINE__")});
        macros_.define("__FILE__", {false, false, {}, builtin(r, "__FILE__")});
    }

    std::string builtin(const Reader& r, std::string_view name) const {
        if (name == "__LINE__") return std::to_string(static_cast<std::int64_t>(r.line) + r.line_shift);
        std::string quoted = "\"";
        for (char c : r.reported_file >= 0 ? source_.reported_names[r.reported_file] : source_.files[r.file].name) {
            if (c == '"' || c == '\\') quoted += '\\';
            quoted += c;
        }
        return quoted + '"';
    }

    // Soufflé's own `.include "file"` and `.once`.
    static bool at_dot_directive(const Reader& r) {
        const std::size_t end = r.at + 1 < r.text.size() ? token_end(r.text, r.at + 1) : r.at + 1;
        const std::string_view word = r.text.substr(r.at, end - r.at);
        const char next = end < r.text.size() ? r.text[end] : '\n';
        return (word == ".include" && (is_blank(next) || next == '"')) || (word == ".once" && (is_blank(next) || next == '\n'));
    }

    // Reads one directive with its continuation lines; leaves as many newlines as it took.
    void directive(Reader& r) {
        const std::uint32_t line = r.line;
        const std::uint32_t column = r.column();
        const bool dot = r.text[r.at] == '.';
        ++r.at;
        std::string body;
        while (r.at < r.text.size() && r.text[r.at] != '\n') {
            if (r.text[r.at] == '\\' && splice(r)) {
                skip_splice(r);
                continue;
            }
            const std::size_t end = token_end(r.text, r.at);
            const bool comment = r.text[r.at] == '/' && end > r.at + 1;
            if (comment) body += ' ';
            else body += r.text.substr(r.at, end - r.at);
            advance(r, end);
        }
        std::size_t begin = 0;
        while (begin < body.size() && is_blank(body[begin])) ++begin;
        std::size_t end = begin < body.size() ? token_end(body, begin) : begin;
        const std::string keyword = body.substr(begin, end - begin);
        while (end < body.size() && is_blank(body[end])) ++end;
        while (!body.empty() && is_blank(body.back()) && body.size() > end) body.pop_back();
        const std::string rest = body.substr(std::min(end, body.size()));
        const std::uint32_t taken = r.line - line;
        obey(r, keyword, rest, line, column, dot);
        emit(r, std::string(taken, '\n'));
    }

    void obey(Reader& r, const std::string& keyword, const std::string& rest, std::uint32_t line,
              std::uint32_t column, bool dot) {
        if (keyword == "if" || keyword == "ifdef" || keyword == "ifndef") {
            const bool enclosing = r.active();
            const bool holds = enclosing && condition(r, keyword, rest, line, column);
            if (r.groups.size() > 10000) fail(r, line, column, "#if is nested too deeply");
            r.groups.push_back({holds, holds, enclosing, false, line});
            return;
        }
        if (keyword == "elif" || keyword == "else" || keyword == "endif") {
            if (r.groups.empty()) fail(r, line, column, "#" + keyword + " without #if");
            Group& group = r.groups.back();
            if (keyword == "endif") {
                r.groups.pop_back();
                return;
            }
            if (group.has_else) fail(r, line, column, "#" + keyword + " after #else");
            group.has_else = keyword == "else";
            group.active = group.enclosing && !group.taken && (group.has_else || condition(r, "if", rest, line, column));
            group.taken = group.taken || group.active;
            return;
        }
        if (!r.active()) return;
        try {
            if (keyword == "define") {
                macros_.parse_definition(rest);
                user_macros_ = true;
            } else if (keyword == "undef") {
                macros_.undefine(rest);
            } else if (keyword == "include") {
                include(r, rest, line, column);
            } else if (keyword == "error") {
                fail(r, line, column, "#error " + rest);
            } else if (keyword == "once" || (keyword == "pragma" && rest == "once")) {
                once_.insert(r.path);
            } else if (keyword == "pragma") {
                // others are for other tools
            } else if (keyword == "line" || (!dot && !keyword.empty() && is_digit(keyword[0]))) {
                set_line(r, keyword == "line" ? rest : keyword + " " + rest, line, column);
            } else if (!keyword.empty() && keyword != "warning" && keyword != "ident" && keyword[0] != '!') {
                fail(r, line, column, "unknown preprocessor directive #" + keyword,
                     "known: #include #define #undef #if #ifdef #ifndef #elif #else #endif #error #line #pragma");
            }
        } catch (const SourceError&) {
            throw;
        } catch (const std::runtime_error& error) {
            fail(r, line, column, error.what());
        }
    }

    bool condition(Reader& r, const std::string& keyword, const std::string& rest, std::uint32_t line,
                   std::uint32_t column) {
        if (keyword != "if") {
            if (rest.empty()) fail(r, line, column, "#" + keyword + " needs a name");
            const std::string name = rest.substr(0, token_end(rest, 0));
            return is_defined(name, macros_) == (keyword == "ifdef");
        }
        try {
            define_place(r);
            return evaluate_condition(rest, macros_);
        } catch (const std::runtime_error& error) {
            fail(r, line, column, error.what());
        }
    }

    void set_line(Reader& r, const std::string& rest, std::uint32_t line, std::uint32_t column) {
        if (rest.empty() || !is_digit(rest[0])) fail(r, line, column, "#line needs a line number");
        const long long number = std::atoll(rest.c_str());
        if (number > 2'000'000'000) fail(r, line, column, "the number in #line is too large");
        r.line_shift = static_cast<std::int32_t>(number) - static_cast<std::int32_t>(r.line) - 1;
        const std::size_t open = rest.find('"');
        const std::size_t close = rest.find('"', open + 1);
        if (open == std::string::npos || close == std::string::npos) return;
        r.reported_file = static_cast<std::int32_t>(source_.reported_names.size());
        source_.reported_names.push_back(rest.substr(open + 1, close - open - 1));
    }

    void include(Reader& r, std::string rest, std::uint32_t line, std::uint32_t column) {
        if (!rest.empty() && rest[0] != '"' && rest[0] != '<') rest = macros_.expand(rest);
        const char closer = rest.empty() ? 0 : rest[0] == '"' ? '"' : rest[0] == '<' ? '>' : 0;
        const std::size_t end = closer ? rest.find(closer, 1) : std::string::npos;
        if (end == std::string::npos)
            fail(r, line, column, "#include needs a file name in quotes", "write #include \"file.dl\"");
        const std::string name = rest.substr(1, end - 1);
        if (r.depth >= kMaxIncludeDepth)
            fail(r, line, column, "#include is nested more than 100 deep", "does the file include itself? use #pragma once");

        if (source_.files.size() >= kMaxFiles) fail(r, line, column, "more than 10,000 files are included");
        std::vector<fs::path> tried{fs::path(r.path).parent_path()};
        for (const std::string& folder : options_.include_dirs) tried.emplace_back(folder);
        for (const fs::path& folder : tried) {
            const fs::path path = fs::path(name).is_absolute() ? fs::path(name) : folder / name;
            std::error_code ignored;
            const bool found = fs::is_regular_file(path, ignored), known = found && once_.count(path.string()) > 0;
            std::string content;
            if (found && !known && !read_file(path, content)) fail(r, line, column, "cannot read the file \"" + path.string() + "\"");
            if (lookups_) lookups_->push_back({path.string(), found, found && !known, content});
            if (!found) continue;
            if (known) return;
            file(path.string(), std::move(content), r.depth + 1);
            return;
        }
        std::string hint = "looked in:";
        for (const fs::path& folder : tried) hint += " " + (folder.empty() ? std::string(".") : folder.string());
        fail(r, line, column, "cannot find the included file \"" + name + "\"", hint);
    }

    const SourceOptions& options_;
    Source& source_;
    std::vector<FileLookup>* lookups_;
    Macros macros_;
    bool user_macros_ = false;
    std::set<std::string> once_;
};

}  // namespace

Source preprocess(const SourceOptions& options, std::vector<FileLookup>* lookups) {
    Source source;
    Preprocessor(options, source, lookups).run();
    return source;
}

}  // namespace dl
