#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "facts.hpp"
#include "text.hpp"

namespace dl {

std::size_t find_invalid_utf8(std::string_view text) {
    const auto* at = reinterpret_cast<const unsigned char*>(text.data());
    const unsigned char *const begin = at, *const end = at + text.size();
    while (at < end) {
        while (end - at >= 8) {
            std::uint64_t word;
            std::memcpy(&word, at, 8);
            if (word & 0x8080808080808080ull) break;
            at += 8;
        }
        if (at >= end) break;
        if (*at < 0x80) {
            ++at;
            continue;
        }
        const int more = *at >= 0xF0 && *at <= 0xF4 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC2 ? 1 : 0;
        bool good = more > 0 && *at <= 0xF4 && end - at > more;
        if (good && at[0] == 0xE0) good = at[1] >= 0xA0;
        if (good && at[0] == 0xED) good = at[1] <= 0x9F;
        if (good && at[0] == 0xF0) good = at[1] >= 0x90;
        if (good && at[0] == 0xF4) good = at[1] <= 0x8F;
        for (int i = 1; good && i <= more; ++i) good = (at[i] & 0xC0) == 0x80;
        if (!good) return static_cast<std::size_t>(at - begin);
        at += more + 1;
    }
    return std::string_view::npos;
}

namespace {

class FactsReader {
public:
    FactsReader(Engine& engine, int relation, std::string_view text, const std::string& file, const Format& format)
        : engine_(engine), relation_(relation), declaration_(engine.declaration(relation)), text_(text), file_(file),
          format_(format), values_(engine.program(), engine.database()) {}

    std::size_t run() {
        const std::size_t bad = find_invalid_utf8(text_);
        const int arity = static_cast<int>(declaration_.attributes.size());
        if (bad != std::string_view::npos) fail(bad, "this is not UTF-8", "save the file as UTF-8");
        std::vector<int> columns = format_.columns;
        if (columns.empty())
            for (int i = 0; i < arity; ++i) columns.push_back(i);
        std::vector<TypeKind> kinds;
        for (const Attribute& a : declaration_.attributes) kinds.push_back(values_.type(a.type).kind);
        if (format_.headers) {
            line_begin_ = std::min(text_.find('\n'), text_.size() - (text_.empty() ? 0 : 1)) + (text_.empty() ? 0 : 1);
            line_ = 2;
        }
        // Rows are gathered first: a file with an error adds none.
        std::vector<Value> rows;
        std::vector<Value> row(static_cast<std::size_t>(arity) + 1);
        std::size_t count = 0;
        for (; line_begin_ < text_.size(); ++line_) {
            const char* newline = static_cast<const char*>(std::memchr(text_.data() + line_begin_, '\n', text_.size() - line_begin_));
            std::size_t end = newline ? static_cast<std::size_t>(newline - text_.data()) : text_.size();
            next_ = end + 1;
            if (end > line_begin_ && text_[end - 1] == '\r') --end;
            line_end_ = end;
            std::size_t at = line_begin_;
            bool more = true;  // a column begins at `at`
            for (std::size_t column = 0, filled = 0; filled < static_cast<std::size_t>(arity) && column < columns.size(); ++column) {
                if (!more) {
                    const auto& attribute = declaration_.attributes[static_cast<std::size_t>(filled)];
                    fail(end, "too few columns: relation " + declaration_.name + " has " + std::to_string(arity) + ", this line has " + std::to_string(column),
                         "column " + std::to_string(column + 1) + " is \"" + attribute.name + "\"; columns are separated by " + delimiter_name());
                }
                const std::size_t begin = at;
                const int attribute = columns[column];
                std::string_view field = next_field(at, more);
                if (attribute < 0) continue;
                ++filled;
                if (kinds[static_cast<std::size_t>(attribute)] == TypeKind::Number && fast_number(field, row[static_cast<std::size_t>(attribute)])) continue;
                try {
                    row[static_cast<std::size_t>(attribute)] = values_.read(declaration_.attributes[static_cast<std::size_t>(attribute)].type, field);
                } catch (const TextError& error) {
                    const bool quoted = format_.rfc4180 && begin < text_.size() && text_[begin] == '"';
                    fail(begin + (quoted ? 1 : 0) + std::min(error.at, field.size()), error.message,
                         "column " + std::to_string(column + 1) + " (" + declaration_.attributes[static_cast<std::size_t>(attribute)].name + ") of relation " +
                             declaration_.name + " has type " + values_.type(declaration_.attributes[static_cast<std::size_t>(attribute)].type).name);
                }
            }
            rows.insert(rows.end(), row.begin(), row.begin() + arity);
            ++count;
            line_begin_ = next_;
            line_ += std::exchange(further_lines_, 0);
        }
        for (std::size_t i = 0; i < count; ++i) engine_.add_fact(relation_, rows.data() + i * static_cast<std::size_t>(arity));
        return count;
    }

private:
    bool fast_number(std::string_view field, Value& out) const {
        if (field.empty() || field.size() > 9) return false;
        std::size_t at = field[0] == '-';
        if (at == field.size()) return false;
        Value value = 0;
        for (; at < field.size(); ++at) {
            const unsigned digit = static_cast<unsigned char>(field[at]) - '0';
            if (digit > 9) return false;
            value = value * 10 + digit;
        }
        out = field[0] == '-' ? -value : value;
        return true;
    }

    // The field that begins at `at`; `at` moves to the next one, `more` tells whether there is one.
    std::string_view next_field(std::size_t& at, bool& more) {
        const std::string& delimiter = format_.delimiter;
        if (format_.rfc4180 && at < line_end_ && text_[at] == '"') return quoted_field(at, more);
        std::size_t end;
        if (delimiter.find(',') != std::string::npos && !format_.rfc4180) {
            end = after_brackets(at);
        } else if (delimiter.size() == 1) {
            const void* found = std::memchr(text_.data() + at, delimiter[0], line_end_ - at);
            end = found ? static_cast<std::size_t>(static_cast<const char*>(found) - text_.data()) : line_end_;
        } else {
            end = std::min(text_.substr(0, line_end_).find(delimiter, at), line_end_);
        }
        const std::string_view field = text_.substr(at, end - at);
        more = end < line_end_;
        at = end + (more ? delimiter.size() : 0);
        return field;
    }

    // A delimiter with a comma also separates the fields of records: those do not count.
    std::size_t after_brackets(std::size_t at) const {
        int depth = 0;
        for (std::size_t i = at; i < line_end_; ++i) {
            const char c = text_[i];
            if (c == '[' || c == '(') ++depth;
            else if (c == ']' || c == ')') --depth;
            else if (depth <= 0 && text_.compare(i, format_.delimiter.size(), format_.delimiter) == 0) return i;
        }
        if (depth > 0) fail(at, "a bracket is opened and not closed", "records are written [a, b], branches $name(a, b)");
        return line_end_;
    }

    std::string_view quoted_field(std::size_t& at, bool& more) {
        const std::size_t begin = at++;
        unquoted_.clear();
        for (bool closed = false; !closed;) {
            if (at >= line_end_) {
                if (next_ >= text_.size()) fail(begin, "a quoted field without its closing quote", "double the quotes inside a quoted field");
                at = go_on(at);
            } else if (text_[at] != '"') {
                unquoted_ += text_[at++];
            } else if (at + 1 < line_end_ && text_[at + 1] == '"') {
                unquoted_ += '"';
                at += 2;
            } else {
                ++at;
                closed = true;
            }
        }
        more = at < line_end_;
        if (more) {
            if (text_.compare(at, format_.delimiter.size(), format_.delimiter) != 0)
                fail(at, "expected " + delimiter_name() + " after a quoted field", "");
            at += format_.delimiter.size();
        }
        return unquoted_;
    }

    // A quoted field goes on in the next line: where that one begins.
    std::size_t go_on(std::size_t at) {
        unquoted_ += text_.substr(at, next_ - at);
        const std::size_t begin = next_, newline = text_.find('\n', begin);
        line_end_ = std::min(newline, text_.size());
        next_ = line_end_ + 1;
        if (line_end_ > begin && text_[line_end_ - 1] == '\r') --line_end_;
        ++further_lines_;
        return begin;
    }

    std::string delimiter_name() const {
        return format_.delimiter == "\t" ? "a tab" : "\"" + format_.delimiter + "\"";
    }

    [[noreturn]] void fail(std::size_t at, const std::string& message, const std::string& hint) const {
        // `at` may lie anywhere (UTF-8 is checked before lines are told apart)
        std::size_t begin = line_begin_;
        int line = line_;
        for (std::size_t i = begin; i < at && i < text_.size(); ++i)
            if (text_[i] == '\n') ++line, begin = i + 1;
        std::size_t end = std::min(text_.find('\n', begin), text_.size());
        int column = 1;
        for (std::size_t i = begin; i < at && i < end; ++i) column += (static_cast<unsigned char>(text_[i]) & 0xC0) != 0x80;
        if (end > begin + 4000) end = std::max(begin + 4000, std::min(end, at + 200));
        std::string source(text_.substr(begin, end - begin));
        const std::size_t bad = find_invalid_utf8(source);
        if (bad != std::string::npos) source.resize(bad);
        throw SourceError(Diagnostic{Severity::Error, file_, line, column, message, source, hint});
    }

    Engine& engine_;
    int relation_;
    const Relation& declaration_;
    std::string_view text_;
    const std::string& file_;
    const Format& format_;
    Text values_;
    std::size_t line_begin_ = 0, line_end_ = 0, next_ = 0;  // `next_`: where the next line begins
    int line_ = 1, further_lines_ = 0;                      // further lines that the quoted fields of this row take
    std::string unquoted_;
};

}  // namespace

std::size_t read_facts(Engine& engine, int relation, std::string_view text, const std::string& file, const Format& format) {
    return FactsReader(engine, relation, text, file, format).run();
}

std::size_t read_facts_file(Engine& engine, int relation, const std::string& file, const Format& format) {
    std::FILE* in = std::fopen(file.c_str(), "rb");
    const auto fail = [&]() {
        const std::string why = std::strerror(errno);
        if (in) std::fclose(in);
        throw SourceError(Diagnostic{Severity::Error, file, 0, 0, "cannot read the facts of relation " + engine.declaration(relation).name + ": " + why, "",
                                     "an input relation without facts needs an empty file"});
    };
    if (!in) fail();
    std::string text;
    if (std::fseek(in, 0, SEEK_END) == 0) {
        const long size = std::ftell(in);
        if (size > 0 && size < (1L << 40)) text.reserve(static_cast<std::size_t>(size) + 1);
        std::rewind(in);
    }
    char buffer[1 << 16];
    std::size_t got;
    while ((got = std::fread(buffer, 1, sizeof buffer, in)) > 0) text.append(buffer, got);
    if (std::ferror(in)) fail();
    std::fclose(in);
    return read_facts(engine, relation, text, file, format);
}

}  // namespace dl
