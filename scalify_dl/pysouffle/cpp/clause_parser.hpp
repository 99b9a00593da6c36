// Parses facts, rules, subsumption clauses and everything within them.
#pragma once

#include <optional>

#include "parser_base.hpp"

namespace dl {

class ClauseParser : public TokenStream {
public:
    using TokenStream::TokenStream;

protected:
    // A fact, rule or subsumption with its `.plan`. Several heads and disjunctions give several clauses.
    void clause(std::vector<ast::Clause*>& out);

private:
    ast::Atom* atom();
    ast::Literal* disjunction();
    ast::Literal* conjunction();
    ast::Literal* term();
    ast::Literal* comparison(ast::Argument* left);
    std::string_view plan();

    ast::Argument* argument(int level = 0);
    ast::Argument* operators(ast::Argument* left, int level);
    ast::Argument* unary();
    ast::Argument* power(ast::Argument* base);
    ast::Argument* primary();
    ast::Argument* functor(Op op, std::size_t least, std::size_t most);
    ast::Argument* conversion(TypeKind to, std::optional<TypeKind> from);
    ast::Argument* aggregate_or_functor();
    ast::Argument* aggregate(dl::Aggregate kind, Offset begin, ast::Argument* target);
    void arguments(ast::List<ast::Argument*>& out, Tok closer);
    bool parenthesised_argument() const;

    ast::Argument* node(ast::Argument::Kind kind, Offset begin);
    ast::Argument* call(Op op, Offset begin, std::initializer_list<ast::Argument*> args);
    ast::Literal* literal(ast::Literal::Kind kind, Offset begin);
    void measure(ast::Argument* argument);
    void add_part(ast::Literal* whole, ast::Literal* part);

    // Bounds the recursion of the parser itself; what it builds is bounded by `measure`.
    struct Nesting {
        explicit Nesting(ClauseParser& p) : parser(p) {
            // A bracket takes two of these.
            if (++parser.depth_ > 2 * ast::kMaxDepth)
                parser.fail(parser.peek().begin, "this is nested deeper than " + std::to_string(ast::kMaxDepth) +
                                                       " levels");
        }
        ~Nesting() { --parser.depth_; }
        ClauseParser& parser;
    };
    int depth_ = 0;
};

}  // namespace dl
