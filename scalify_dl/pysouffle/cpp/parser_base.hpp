// What the parsers of declarations (parser.cpp) and of clauses (clause_parser.cpp) share: the token stream and errors.
#pragma once

#include <string>
#include <vector>

#include "ast.hpp"
#include "lexer.hpp"
#include "source.hpp"

namespace dl {

// Thrown after an error was reported, to give up the clause or directive at hand.
struct SyntaxError {};

class TokenStream {
public:
    TokenStream(const Source& source, ast::Arena& arena, Report& report, std::vector<Token> tokens)
        : source_(source), arena_(arena), report_(report), tokens_(std::move(tokens)) {}

protected:
    const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
    bool at(Tok kind) const { return tokens_[at_].kind == kind; }
    const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
    bool take(Tok kind) {
        if (!at(kind)) return false;
        next();
        return true;
    }
    const Token& expect(Tok kind, const char* what, const char* hint = "") {
        if (!at(kind)) unexpected(what, hint);
        return next();
    }
    Offset end_of_previous() const { return at_ == 0 ? 0 : tokens_[at_ - 1].begin + tokens_[at_ - 1].length; }

    std::string_view text(const Token& token) const {
        return std::string_view(source_.text).substr(token.begin, token.length);
    }
    std::string_view string_value(const Token& token) {
        std::string_view literal = text(token).substr(1);
        if (!literal.empty() && literal.back() == '"') literal.remove_suffix(1);
        if (literal.find('\\') == std::string_view::npos) return literal;
        return arena_.keep(unescape(literal, token.begin + 1, report_));
    }

    ast::Name identifier(const char* what) {
        if (at(Tok::Identifier)) return text(next());
        const std::string_view word = spelling(peek().kind);
        if (!word.empty() && std::isalpha(static_cast<unsigned char>(word[0])))
            fail(peek().begin, "'" + std::string(word) + "' is a keyword of the language, not a name; " + what + " is expected",
                 "choose another name");
        unexpected(what);
    }
    // "a.b.c" without white space: a dot that ends a clause is followed by some.
    ast::Name qualified_name(const char* what) {
        const Offset begin = peek().begin;
        Offset end = begin + static_cast<Offset>(identifier(what).size());
        while (at(Tok::Dot) && peek(1).kind == Tok::Identifier && peek().begin == end && peek(1).begin == end + 1) {
            next();
            end += 1 + next().length;
        }
        return std::string_view(source_.text).substr(begin, end - begin);
    }

    [[noreturn]] void fail(Offset begin, std::string message, std::string hint = {}) {
        report_.error(begin, std::move(message), std::move(hint));
        throw SyntaxError{};
    }
    [[noreturn]] void unexpected(const std::string& what, std::string hint = {}) {
        const Token& token = peek();
        const std::string found = token.kind == Tok::End ? "the end of the program"
                                                         : "'" + std::string(text(token).substr(0, 40)) + "'";
        fail(token.begin, "syntax error: " + what + " is expected, " + found + " found", std::move(hint));
    }

    const Source& source_;
    ast::Arena& arena_;
    Report& report_;
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
};

}  // namespace dl
