#include "lexer.hpp"

#include <array>
#include <cstdio>
#include <cstring>

#include "macros.hpp"

namespace dl {

namespace {

struct Word {
    std::string_view text;
    Tok kind;
};

constexpr Word kKeywords[] = {
    {"autoinc", Tok::AutoInc}, {"band", Tok::BAnd}, {"bor", Tok::BOr}, {"bxor", Tok::BXor}, {"bnot", Tok::BNot},
    {"bshl", Tok::BShl}, {"bshr", Tok::BShr}, {"bshru", Tok::BShru}, {"land", Tok::LAnd}, {"lor", Tok::LOr},
    {"lxor", Tok::LXor}, {"lnot", Tok::LNot}, {"match", Tok::Match}, {"contains", Tok::Contains}, {"mean", Tok::Mean},
    {"min", Tok::Min}, {"max", Tok::Max}, {"count", Tok::Count}, {"sum", Tok::Sum}, {"cat", Tok::Cat}, {"ord", Tok::Ord},
    {"range", Tok::Range}, {"strlen", Tok::StrLen}, {"substr", Tok::SubStr}, {"to_float", Tok::ToFloat},
    {"to_number", Tok::ToNumber}, {"to_string", Tok::ToString}, {"to_unsigned", Tok::ToUnsigned}, {"as", Tok::As},
    {"nil", Tok::Nil}, {"true", Tok::True}, {"false", Tok::False}, {"stateful", Tok::Stateful}, {"input", Tok::QInput},
    {"output", Tok::QOutput}, {"printsize", Tok::QPrintSize}, {"overridable", Tok::QOverridable}, {"eqrel", Tok::QEqrel},
    {"inline", Tok::QInline}, {"no_inline", Tok::QNoInline}, {"magic", Tok::QMagic}, {"no_magic", Tok::QNoMagic},
    {"brie", Tok::QBrie}, {"btree", Tok::QBTree}, {"btree_delete", Tok::QBTreeDelete},
    {"__ITERATION__", Tok::Iteration}, {"recursive_iteration_cnt", Tok::Iteration}, {"debug_delta", Tok::DebugDelta},
};

constexpr Word kDirectives[] = {
    {".decl", Tok::Decl}, {".functor", Tok::FunctorDecl}, {".input", Tok::Input}, {".output", Tok::Output},
    {".printsize", Tok::PrintSize}, {".limitsize", Tok::LimitSize}, {".type", Tok::TypeDecl}, {".lattice", Tok::Lattice},
    {".comp", Tok::Comp}, {".init", Tok::Init}, {".number_type", Tok::NumberType}, {".symbol_type", Tok::SymbolType},
    {".override", Tok::Override}, {".pragma", Tok::Pragma}, {".plan", Tok::Plan},
};

constexpr Word kPunctuation[] = {
    {"(", Tok::LParen}, {")", Tok::RParen}, {"[", Tok::LBracket}, {"]", Tok::RBracket}, {"{", Tok::LBrace},
    {"}", Tok::RBrace}, {",", Tok::Comma}, {":", Tok::Colon}, {";", Tok::Semicolon}, {".", Tok::Dot}, {"=", Tok::Equal},
    {"!=", Tok::NotEqual}, {"<", Tok::Less}, {"<=", Tok::LessEqual}, {">", Tok::Greater}, {">=", Tok::GreaterEqual},
    {":-", Tok::If}, {"<:", Tok::SubType}, {"->", Tok::MapsTo}, {"|", Tok::Pipe}, {"!", Tok::Exclamation},
    {"$", Tok::Dollar}, {"@", Tok::At}, {"+", Tok::Plus}, {"-", Tok::Minus}, {"*", Tok::Star}, {"/", Tok::Slash},
    {"^", Tok::Caret}, {"%", Tok::Percent}, {"_", Tok::Underscore}, {"choice-domain", Tok::ChoiceDomain},
};

// Keywords by first letter, so that an identifier is compared with a handful of words at most.
struct KeywordIndex {
    std::array<std::array<const Word*, 10>, 256> by_first{};
    KeywordIndex() {
        for (const Word& word : kKeywords)
            for (const Word*& slot : by_first[static_cast<unsigned char>(word.text[0])])
                if (!slot) {
                    slot = &word;
                    break;
                }
    }
};

Tok keyword(std::string_view name) {
    static const KeywordIndex index;
    if (name == "_") return Tok::Underscore;
    for (const Word* word : index.by_first[static_cast<unsigned char>(name[0])]) {
        if (!word) break;
        if (word->text == name) return word->kind;
    }
    return Tok::Identifier;
}

class Lexer {
public:
    Lexer(const Source& source, Report& report) : text_(source.text), report_(report) {}

    std::vector<Token> run() {
        tokens_.reserve(text_.size() / 3 + 8);
        while (at_ < text_.size()) step();
        drop_annotations();
        // The end is where the last token ends, not after the empty lines that follow.
        const Offset end = tokens_.empty() ? 0 : tokens_.back().begin + tokens_.back().length;
        tokens_.push_back({Tok::End, end, 0, 0});
        return std::move(tokens_);
    }

private:
    char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

    void push(Tok kind, std::size_t length) {
        tokens_.push_back({kind, static_cast<Offset>(at_), static_cast<std::uint32_t>(length), 0});
        at_ += length;
    }

    void step() {
        const char c = text_[at_];
        if (c == '\n' || is_blank(c)) {
            ++at_;
        } else if (is_identifier_start(c)) {
            std::size_t end = at_ + 1;
            while (end < text_.size() && is_identifier_part(text_[end])) ++end;
            const std::string_view name(text_.data() + at_, end - at_);
            if (name == "choice" && text_.compare(end, 7, "-domain") == 0) push(Tok::ChoiceDomain, 13);
            else push(keyword(name), end - at_);
        } else if (is_digit(c)) {
            number();
        } else if (c == '"') {
            string();
        } else if (c == '/' && (peek(1) == '/' || peek(1) == '*')) {
            comment();
        } else if (c == '.') {
            dot();
        } else {
            punctuation(c);
        }
    }

    // `@[…]` before what it speaks of and `@![…]` within it say nothing to the engine. Any tokens may stand in them.
    void drop_annotations() {
        const auto begins = [&](std::size_t i) {
            const auto is = [&](std::size_t n, Tok kind) { return n < tokens_.size() && tokens_[n].kind == kind; };
            return is(i, Tok::At) && (is(i + 1, Tok::LBracket) || (is(i + 1, Tok::Exclamation) && is(i + 2, Tok::LBracket)));
        };
        std::vector<Token> kept;
        std::vector<std::uint32_t> place(tokens_.size(), 0);
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            if (!begins(i)) {
                place[i] = static_cast<std::uint32_t>(kept.size());
                kept.push_back(tokens_[i]);
                continue;
            }
            const std::size_t start = i;
            int depth = 0;
            for (; i < tokens_.size(); ++i) {
                const Tok kind = tokens_[i].kind;
                depth += kind == Tok::LBracket || kind == Tok::LParen || kind == Tok::LBrace;
                depth -= kind == Tok::RBracket || kind == Tok::RParen || kind == Tok::RBrace;
                if (depth == 0 && kind == Tok::RBracket) break;
            }
            if (i >= tokens_.size()) report_.error(tokens_[start].begin, "this annotation does not end", "']' is missing");
        }
        if (kept.size() == tokens_.size()) return;
        for (Token& token : kept)
            if (token.partner) token.partner = place[token.partner];
        tokens_ = std::move(kept);
    }

    void punctuation(char c) {
        const char next = peek(1);
        switch (c) {
            case '(':
                open_.push_back(static_cast<std::uint32_t>(tokens_.size()));
                return push(Tok::LParen, 1);
            case ')':
                if (!open_.empty()) {
                    tokens_[open_.back()].partner = static_cast<std::uint32_t>(tokens_.size());
                    open_.pop_back();
                }
                return push(Tok::RParen, 1);
            case '[': return push(Tok::LBracket, 1);
            case ']': return push(Tok::RBracket, 1);
            case '{': return push(Tok::LBrace, 1);
            case '}': return push(Tok::RBrace, 1);
            case ',': return push(Tok::Comma, 1);
            case ';': return push(Tok::Semicolon, 1);
            case '|': return push(Tok::Pipe, 1);
            case '$': return push(Tok::Dollar, 1);
            case '@': return push(Tok::At, 1);
            case '+': return push(Tok::Plus, 1);
            case '*': return push(Tok::Star, 1);
            case '/': return push(Tok::Slash, 1);
            case '^': return push(Tok::Caret, 1);
            case '%': return push(Tok::Percent, 1);
            case '=': return push(Tok::Equal, 1);
            case '-': return next == '>' ? push(Tok::MapsTo, 2) : push(Tok::Minus, 1);
            case ':': return next == '-' ? push(Tok::If, 2) : push(Tok::Colon, 1);
            case '!': return next == '=' ? push(Tok::NotEqual, 2) : push(Tok::Exclamation, 1);
            case '>': return next == '=' ? push(Tok::GreaterEqual, 2) : push(Tok::Greater, 1);
            case '<':
                if (next == '=') return push(Tok::LessEqual, 2);
                return next == ':' ? push(Tok::SubType, 2) : push(Tok::Less, 1);
            default: stray(c);
        }
    }

    void stray(char c) {
        std::size_t length = 1;
        std::string shown;
        if (c == '\0') {
            shown = "a NUL byte";
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
            char code[32];
            std::snprintf(code, sizeof code, "a control character (0x%02X)", static_cast<unsigned char>(c));
            shown = code;
        } else {
            while ((static_cast<unsigned char>(peek(length)) & 0xC0) == 0x80) ++length;
            shown = "the character '" + text_.substr(at_, length) + "'";
        }
        std::string hint = c == '\'' ? "strings are written in double quotes" : "";
        report_.error(static_cast<Offset>(at_), shown + " does not belong here", std::move(hint));
        at_ += length;
    }

    void dot() {
        std::size_t end = at_ + 1;
        while (end < text_.size() && is_identifier_part(text_[end])) ++end;
        const std::string_view name(text_.data() + at_, end - at_);
        // ".input" after an identifier may be part of a qualified name; a directive is followed by white space.
        if (name.size() > 1 && (end == text_.size() || text_[end] == '\n' || is_blank(text_[end])))
            for (const Word& word : kDirectives)
                if (word.text == name) return push(word.kind, name.size());
        push(Tok::Dot, 1);
    }

    void comment() {
        const bool line = peek(1) == '/';
        const std::size_t end = line ? text_.find('\n', at_) : text_.find("*/", at_ + 2);
        if (end == std::string::npos) {
            if (!line) report_.error(static_cast<Offset>(at_), "this comment does not end", "add */");
            at_ = text_.size();
        } else {
            at_ = line ? end : end + 2;
        }
    }

    void string() {
        for (std::size_t i = at_ + 1; i < text_.size(); ++i) {
            const char c = text_[i];
            if (c == '"') return push(Tok::String, i + 1 - at_);
            if (c == '\\') {
                ++i;
            } else if (c == '\n') {
                break;
            }
        }
        report_.error(static_cast<Offset>(at_), "this string does not end on its line", "add the closing \"");
        std::size_t end = text_.find('\n', at_);
        if (end == std::string::npos) end = text_.size();
        push(Tok::String, end - at_);
    }

    void number() {
        std::size_t end = at_;
        const auto digits = [&] {
            while (end < text_.size() && is_digit(text_[end])) ++end;
        };
        const auto dotted = [&] { return end + 1 < text_.size() && text_[end] == '.' && is_digit(text_[end + 1]); };
        const char prefix = text_[at_] == '0' ? peek(1) : '\0';
        if (prefix == 'x' || prefix == 'b') {
            end += 2;
            const std::size_t first = end;
            while (end < text_.size() &&
                   (prefix == 'b' ? text_[end] == '0' || text_[end] == '1' : std::isxdigit(static_cast<unsigned char>(text_[end]))))
                ++end;
            if (end == first)
                report_.error(static_cast<Offset>(at_), "digits are missing after 0" + std::string(1, prefix));
            return integer(end);
        }
        digits();
        if (!dotted()) return integer(end);
        int dots = 0;
        while (dotted()) {
            ++end;
            ++dots;
            digits();
        }
        if (dots == 1) {  // a float, with an exponent perhaps
            std::size_t exponent = end;
            if (exponent < text_.size() && (text_[exponent] == 'e' || text_[exponent] == 'E')) {
                ++exponent;
                if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
                if (exponent < text_.size() && is_digit(text_[exponent])) {
                    end = exponent;
                    digits();
                }
            }
            push(Tok::Float, end - at_);
        } else {
            if (dots != 3) report_.error(static_cast<Offset>(at_), "this is neither a float nor an IPv4 address");
            push(Tok::Number, end - at_);
        }
    }

    void integer(std::size_t end) {
        const bool is_unsigned = end < text_.size() && text_[end] == 'u' &&
                                 (end + 1 == text_.size() || !is_identifier_part(text_[end + 1]));
        push(is_unsigned ? Tok::Unsigned : Tok::Number, end - at_ + is_unsigned);
    }

    const std::string& text_;
    Report& report_;
    std::size_t at_ = 0;
    std::vector<Token> tokens_;
    std::vector<std::uint32_t> open_;
};

}  // namespace

std::vector<Token> tokenize(const Source& source, Report& report) { return Lexer(source, report).run(); }

std::string unescape(std::string_view literal, Offset begin, Report& report) {
    std::string result;
    result.reserve(literal.size());
    for (std::size_t i = 0; i < literal.size(); ++i) {
        if (literal[i] != '\\' || i + 1 == literal.size()) {
            result += literal[i];
            continue;
        }
        switch (const char c = literal[++i]) {
            case 'a': result += '\a'; break;
            case 'b': result += '\b'; break;
            case 'f': result += '\f'; break;
            case 'n': result += '\n'; break;
            case 'r': result += '\r'; break;
            case 't': result += '\t'; break;
            case 'v': result += '\v'; break;
            case '\n': break;  // a line that goes on
            case '"': case '\'': case '\\': result += c; break;
            default:
                report.error(begin + static_cast<Offset>(i), std::string("unknown escape sequence \\") + c,
                             "a backslash itself is written \\\\");
        }
    }
    return result;
}

std::string_view spelling(Tok kind) {
    for (const Word& word : kPunctuation)
        if (word.kind == kind) return word.text;
    for (const Word& word : kDirectives)
        if (word.kind == kind) return word.text;
    for (const Word& word : kKeywords)
        if (word.kind == kind) return word.text;
    return {};
}

}  // namespace dl
