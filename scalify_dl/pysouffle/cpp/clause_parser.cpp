#include "clause_parser.hpp"

#include "normal_form.hpp"
#include "operators.hpp"

namespace dl {

using ast::Argument;

ast::Literal* ClauseParser::literal(ast::Literal::Kind kind, Offset begin) {
    ast::Literal* result = arena_.make<ast::Literal>();
    result->kind = kind;
    result->begin = begin;
    return result;
}

void ClauseParser::add_part(ast::Literal* whole, ast::Literal* part) {
    whole->parts.push_back(part);
    whole->depth = std::max<std::uint16_t>(whole->depth, part->depth + 1);
}

// ---------------------------------------------------------------- clauses

void ClauseParser::clause(std::vector<ast::Clause*>& out) {
    const Offset begin = peek().begin;
    std::vector<ast::Atom*> heads{atom()};
    const auto add = [&](ast::Clause::Kind kind, ast::Atom* head) {
        ast::Clause* clause = arena_.make<ast::Clause>();
        clause->kind = kind;
        clause->begin = begin;
        clause->end = end_of_previous();
        clause->head = head;
        out.push_back(clause);
        return clause;
    };

    if (take(Tok::Dot)) {
        // What has to be computed from relations, or gives several values, is a rule without a body.
        bool computed = false;
        ast::for_each(heads[0], [&](Argument* a) {
            computed |= a->kind == Argument::Kind::Aggregate || (a->kind == Argument::Kind::Functor && a->op == Op::Range);
        });
        add(computed ? ast::Clause::Kind::Rule : ast::Clause::Kind::Fact, heads[0]);
        return;
    }
    ast::Atom* dominating = nullptr;
    if (take(Tok::LessEqual)) {
        dominating = atom();
    } else {
        while (take(Tok::Comma)) heads.push_back(atom());
    }
    if (!at(Tok::If)) unexpected(heads.size() > 1 || dominating ? "':-'" : "'.' or ':-'", "a clause ends with '.'");
    next();
    ast::Literal* body = disjunction();
    expect(Tok::Dot, "',' or ';' or '.'", "a clause ends with '.'");
    const Offset end = end_of_previous();
    const std::string_view plan_text = plan();

    // `_` in the dominated atom stands for one value in both of its uses.
    if (dominating)
        for (Argument* argument : heads[0]->args)
            ast::for_each(argument, [&](Argument* a) {
                if (a->kind != Argument::Kind::Unnamed) return;
                a->kind = Argument::Kind::Variable;
                a->text = arena_.keep("@_" + std::to_string(a->begin));
            });

    bool generated = false;
    const std::vector<Conjunction> bodies = disjunctive_normal_form(body, arena_, report_);
    for (ast::Atom* head : heads)
        for (const Conjunction& conjunction : bodies) {
            ast::Clause* clause =
                add(dominating ? ast::Clause::Kind::Subsumption : ast::Clause::Kind::Rule, arena_.copy(head));
            clause->end = end;
            clause->plan = plan_text;
            if (dominating)
                for (const ast::Atom* side : {heads[0], dominating}) {
                    ast::Literal* positive = literal(ast::Literal::Kind::Atom, side->begin);
                    positive->atom = arena_.copy(side);
                    clause->body.push_back(positive);
                }
            // Clauses share no nodes: later passes rewrite them one by one.
            for (ast::Literal* l : conjunction) clause->body.push_back(generated ? arena_.copy(l) : l);
            clause->generated = generated;
            generated = true;
        }
}

std::string_view ClauseParser::plan() {
    if (!at(Tok::Plan)) return {};
    next();
    const Offset begin = peek().begin;
    do {
        expect(Tok::Number, "the number of a version");
        expect(Tok::Colon, "':'");
        expect(Tok::LParen, "'('");
        if (!at(Tok::RParen)) do {
                expect(Tok::Number, "the position of an atom");
            } while (take(Tok::Comma));
        expect(Tok::RParen, "')'");
    } while (take(Tok::Comma));
    return std::string_view(source_.text).substr(begin, end_of_previous() - begin);
}

ast::Atom* ClauseParser::atom() {
    const Offset begin = peek().begin;
    ast::Atom* result = arena_.make<ast::Atom>();
    result->begin = begin;
    result->name = qualified_name("an atom or a directive");
    expect(Tok::LParen, "'('", "an atom is written relation(arguments)");
    arguments(result->args, Tok::RParen);
    for (const Argument* a : result->args) result->depth = std::max<std::uint16_t>(result->depth, a->depth);
    return result;
}

// ---------------------------------------------------------------- bodies

ast::Literal* ClauseParser::disjunction() {
    Nesting nesting(*this);
    const Offset begin = peek().begin;
    ast::Literal* first = conjunction();
    if (!at(Tok::Semicolon)) return first;
    ast::Literal* result = literal(ast::Literal::Kind::Or, begin);
    add_part(result, first);
    while (take(Tok::Semicolon)) add_part(result, conjunction());
    return result;
}

ast::Literal* ClauseParser::conjunction() {
    const Offset begin = peek().begin;
    ast::Literal* first = term();
    if (!at(Tok::Comma)) return first;
    ast::Literal* result = literal(ast::Literal::Kind::And, begin);
    add_part(result, first);
    while (take(Tok::Comma)) add_part(result, term());
    return result;
}

// At '(' : is this "(x + 1) * y < z" rather than "(a(x); b(x))"? What follows the matching parenthesis tells.
bool ClauseParser::parenthesised_argument() const {
    const std::uint32_t partner = peek().partner;
    if (partner == 0 || partner + 1 >= tokens_.size()) return false;
    const Tok after = tokens_[partner + 1].kind;
    return comparison_operator(after) || binary(after) || after == Tok::Caret;
}

ast::Literal* ClauseParser::term() {
    Nesting nesting(*this);
    const Token& token = peek();
    switch (token.kind) {
        case Tok::Exclamation: {
            ast::Literal* result = literal(ast::Literal::Kind::Not, next().begin);
            add_part(result, term());
            return result;
        }
        case Tok::True:
        case Tok::False: {
            ast::Literal* result = literal(ast::Literal::Kind::Comparison, next().begin);
            result->compare = token.kind == Tok::True ? Compare::True : Compare::False;
            return result;
        }
        case Tok::Match:
        case Tok::Contains: {
            ast::Literal* result = literal(ast::Literal::Kind::Comparison, next().begin);
            result->compare = token.kind == Tok::Match ? Compare::Match : Compare::Contains;
            expect(Tok::LParen, "'('");
            result->left = argument();
            expect(Tok::Comma, "','", "match and contains take two arguments");
            result->right = argument();
            expect(Tok::RParen, "')'");
            result->depth = std::max(result->left->depth, result->right->depth);
            return result;
        }
        case Tok::LParen:
            if (!parenthesised_argument()) {
                next();
                ast::Literal* result = disjunction();
                expect(Tok::RParen, "')'");
                return result;
            }
            break;
        case Tok::Identifier:
            if ((peek(1).kind == Tok::LParen && !conversion_named(text(token))) || peek(1).kind == Tok::Dot) {
                ast::Literal* result = literal(ast::Literal::Kind::Atom, token.begin);
                // "x. " is a variable before the end of the clause; only "x.y" goes on as a name
                if (peek(1).kind == Tok::Dot && peek(2).kind != Tok::Identifier) break;
                result->atom = atom();
                result->depth = result->atom->depth;
                return result;
            }
            break;
        default: break;
    }
    return comparison(argument());
}

ast::Literal* ClauseParser::comparison(Argument* left) {
    const std::optional<Compare> op = comparison_operator(peek().kind);
    if (!op) unexpected("a comparison (= != < <= > >=)", "a body is made of atoms, negated atoms and comparisons");
    ast::Literal* result = literal(ast::Literal::Kind::Comparison, next().begin);
    result->compare = *op;
    result->left = left;
    result->right = argument();
    result->depth = std::max(result->left->depth, result->right->depth);
    return result;
}

}  // namespace dl
