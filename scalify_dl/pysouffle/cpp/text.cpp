#include "text.hpp"

#include <algorithm>
#include <charconv>
#include <limits>

#include "functors.hpp"

namespace dl {

namespace {

constexpr int kDeepest = 10000;  // nesting of records in a fact

void skip_blanks(std::string_view text, std::size_t& at) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
}

const char* article(TypeKind kind) {
    switch (kind) {
        case TypeKind::Number: return "a number";
        case TypeKind::Unsigned: return "an unsigned number";
        case TypeKind::Float: return "a float";
        case TypeKind::Symbol: return "a symbol";
        case TypeKind::Record: return "a record";
        case TypeKind::Adt: return "a branch ($name or $name(…))";
    }
    return "a value";
}

std::string shown(std::string_view text) {
    return text.size() > 60 ? std::string(text.substr(0, 60)) + "…" : std::string(text);
}

}  // namespace

void append_number(Value value, const Database& database, std::string& out) {
    if (database.formulas && is_formula(value)) {
        out += database.formulas->text(value);
        return;
    }
    char buffer[24];
    const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
    out.append(buffer, end);
}

bool Text::is_enumeration(const Type& type) {
    return std::all_of(type.branches.begin(), type.branches.end(), [](const Branch& b) { return b.fields.empty(); });
}

// ---------------------------------------------------------------- reading

Value Text::read_number(TypeKind kind, std::string_view text, std::size_t& at) {
    if (kind == TypeKind::Number && db_.formulas) {
        std::size_t end = at;  // of the field: a formula has brackets and commas of its own
        for (int depth = 0; end < text.size(); ++end) {
            const char c = text[end];
            if (depth == 0 && (c == ',' || c == ')' || c == ']')) break;
            depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        }
        try {
            const Value value = db_.formulas->read(text.substr(at, end - at), true);
            at = end;
            return value;
        } catch (TextError& error) {
            error.at += at;
            throw;
        }
    }
    const std::size_t begin = at;
    const char *first = text.data() + at, *const last = text.data() + text.size();
    const auto fail = [&](const std::string& why) -> Value { throw TextError{why, begin}; };
    const int word = db_.arithmetic.word_size;
    if (kind == TypeKind::Float) {
        double value = 0;
        const char* from = first < last && *first == '+' ? first + 1 : first;
        const auto result = std::from_chars(from, last, value);
        if (result.ec == std::errc::invalid_argument) return fail("expected a float, found \"" + shown(text.substr(begin)) + "\"");
        if (result.ec == std::errc::result_out_of_range) return fail("\"" + shown(text.substr(begin)) + "\" is out of the range of a float");
        at = static_cast<std::size_t>(result.ptr - text.data());
        return from_float(word == 32 ? static_cast<double>(static_cast<float>(value)) : value);
    }
    int base = 10;
    const char* from = first < last && *first == '+' ? first + 1 : first;
    if (kind == TypeKind::Unsigned && last - from > 2 && from[0] == '0' && (from[1] == 'x' || from[1] == 'b')) {
        base = from[1] == 'x' ? 16 : 2;
        from += 2;
    }
    std::from_chars_result result{};
    Value value = 0;
    bool in_range = true;
    if (kind == TypeKind::Unsigned) {
        std::uint64_t read = 0;
        result = std::from_chars(from, last, read, base);
        value = static_cast<Value>(read);
        in_range = word == 64 || read <= std::numeric_limits<std::uint32_t>::max();
    } else {
        result = std::from_chars(from, last, value, base);
        in_range = word == 64 || value == static_cast<std::int32_t>(value);
    }
    if (result.ec == std::errc::invalid_argument) return fail(std::string("expected ") + article(kind) + ", found \"" + shown(text.substr(begin)) + "\"");
    if (result.ec == std::errc::result_out_of_range || !in_range)
        return fail("\"" + shown(text.substr(begin)) + "\" does not fit into " + std::to_string(word) + " bits");
    at = static_cast<std::size_t>(result.ptr - text.data());
    return value;
}

Value Text::read(TypeIndex index, std::string_view text) {
    const Type& t = type(index);
    if (t.kind == TypeKind::Symbol) return db_.symbols.intern(text);
    std::size_t at = 0;
    if (t.kind == TypeKind::Record || t.kind == TypeKind::Adt) {
        const Value value = read_nested(index, text, at, 0);
        skip_blanks(text, at);
        if (at != text.size()) throw TextError{"expected the end of the column after the value, found \"" + shown(text.substr(at)) + "\"", at};
        return value;
    }
    skip_blanks(text, at);
    const Value value = read_number(t.kind, text, at);
    if (at != text.size()) throw TextError{std::string("expected ") + article(t.kind) + ", found \"" + shown(text) + "\"", 0};
    return value;
}

Value Text::read_nested(TypeIndex index, std::string_view text, std::size_t& at, int depth) {
    if (depth > kDeepest) throw TextError{"records nested more than " + std::to_string(kDeepest) + " deep", at};
    const Type& t = type(index);
    skip_blanks(text, at);
    const auto starts_with = [&](std::string_view word) { return text.substr(at, word.size()) == word; };
    switch (t.kind) {
        case TypeKind::Symbol: {
            if (at < text.size() && text[at] == '"') {
                std::string symbol;
                std::size_t end = at + 1;
                for (; end < text.size() && text[end] != '"'; ++end) {
                    if (text[end] == '\\' && end + 1 < text.size() && (text[end + 1] == '"' || text[end + 1] == '\\')) ++end;
                    symbol += text[end];
                }
                if (end >= text.size()) throw TextError{"a quoted symbol without its closing quote", at};
                at = end + 1;
                return db_.symbols.intern(symbol);
            }
            const std::size_t end = std::min(text.find_first_of(",])", at), text.size());
            const Value symbol = db_.symbols.intern(text.substr(at, end - at));
            at = end;
            return symbol;
        }
        case TypeKind::Record:
            if (starts_with("nil")) {
                at += 3;
                return 0;
            }
            return read_record(t.fields, text, at, '[', ']', -1, depth);
        case TypeKind::Adt: {
            if (at >= text.size() || text[at] != '$') throw TextError{std::string("expected ") + article(t.kind) + ", found \"" + shown(text.substr(at)) + "\"", at};
            const std::size_t begin = at + 1;
            std::size_t end = begin;
            while (end < text.size() && text[end] != '(' && text[end] != ',' && text[end] != ')' && text[end] != ']' && text[end] != ' ') ++end;
            const std::string_view name = text.substr(begin, end - begin);
            const auto found = std::find_if(t.branches.begin(), t.branches.end(), [&](const Branch& b) { return b.name == name; });
            if (found == t.branches.end()) throw TextError{"type " + t.name + " has no branch \"" + shown(name) + "\"", begin};
            const int branch = static_cast<int>(found - t.branches.begin());
            at = end;
            if (is_enumeration(t)) return branch;
            if (found->fields.empty()) {
                const Value value = branch;
                return db_.records.pack(&value, 1);
            }
            return read_record(found->fields, text, at, '(', ')', branch, depth);
        }
        default: return read_number(t.kind, text, at);
    }
}

Value Text::read_record(const std::vector<Field>& fields, std::string_view text, std::size_t& at, char open, char close, int branch, int depth) {
    const auto expect = [&](char wanted) {
        skip_blanks(text, at);
        if (at >= text.size() || text[at] != wanted)
            throw TextError{std::string("expected '") + wanted + "'" + (at < text.size() ? std::string(", found '") + text[at] + "'" : " before the end of the column"), at};
        ++at;
    };
    std::vector<Value> values;
    if (branch >= 0) values.push_back(branch);
    expect(open);
    for (std::size_t i = 0; i < fields.size(); ++i) {
        if (i > 0) expect(',');
        values.push_back(read_nested(fields[i].type, text, at, depth + 1));
    }
    expect(close);
    return db_.records.pack(values.data(), values.size());
}

// ---------------------------------------------------------------- writing

void Text::write(TypeIndex index, Value root, std::string& out, bool quoted) const {
    // Lists are long records nested to the right: an explicit stack, not recursion.
    struct Open {
        const std::vector<Field>* fields;
        Value record;
        std::size_t next, offset;
        char close;
    };
    std::vector<Open> open;
    TypeIndex type_index = index;
    Value value = root;
    for (;;) {
        const Type& t = type(type_index);
        bool opened = false;
        switch (t.kind) {
            case TypeKind::Number: append_number(value, db_, out); break;
            case TypeKind::Unsigned: out += std::to_string(as_unsigned(value)); break;
            case TypeKind::Float: out += float_text(as_float(value), db_.arithmetic.word_size); break;
            case TypeKind::Symbol:
                if (quoted) {
                    out += '"';
                    for (const char c : db_.symbols.text(value)) {
                        if (c == '"' || c == '\\') out += '\\';
                        if (c == '\n') out += "\\n";
                        else if (c == '\t') out += "\\t";
                        else out += c;
                    }
                    out += '"';
                } else {
                    out += db_.symbols.text(value);
                }
                break;
            case TypeKind::Record:
                if (value == 0) {
                    out += "nil";
                    break;
                }
                out += '[';
                open.push_back({&t.fields, value, 0, 0, ']'});
                opened = true;
                break;
            case TypeKind::Adt: {
                const bool enumeration = is_enumeration(t);
                const auto fields = enumeration ? std::span<const Value>() : db_.records.fields(value);
                const Value branch = enumeration ? value : fields.empty() ? -1 : fields[0];
                if (branch < 0 || static_cast<std::size_t>(branch) >= t.branches.size()) {
                    out += "nil";
                    break;
                }
                const Branch& b = t.branches[static_cast<std::size_t>(branch)];
                out += '$';
                out += b.name;
                if (b.fields.empty()) break;
                out += '(';
                open.push_back({&b.fields, value, 0, 1, ')'});
                opened = true;
                break;
            }
        }
        if (!opened && open.empty()) return;
        // the next field of the innermost open record; close those that are complete
        while (!open.empty() && open.back().next == open.back().fields->size()) {
            out += open.back().close;
            open.pop_back();
        }
        if (open.empty()) return;
        Open& top = open.back();
        if (top.next > 0) out += ", ";
        type_index = (*top.fields)[top.next].type;
        const auto fields = db_.records.fields(top.record);
        value = top.next + top.offset < fields.size() ? fields[top.next + top.offset] : 0;
        ++top.next;
    }
}

}  // namespace dl
