// Arguments: the part of ClauseParser that parses what stands within atoms and comparisons.
#include "clause_parser.hpp"
#include "normal_form.hpp"
#include "operators.hpp"

namespace dl {

using ast::Argument;

Argument* ClauseParser::node(Argument::Kind kind, Offset begin) {
    Argument* result = arena_.make<Argument>();
    result->kind = kind;
    result->begin = begin;
    return result;
}

void ClauseParser::measure(Argument* argument) {
    int depth = 0;
    for (const Argument* part : argument->args) depth = std::max<int>(depth, part->depth);
    for (const ast::Literal* part : argument->body) depth = std::max<int>(depth, part->depth);
    if (depth >= ast::kMaxDepth)
        fail(argument->begin, "this term is nested deeper than " + std::to_string(ast::kMaxDepth) + " levels");
    argument->depth = static_cast<std::uint16_t>(depth + 1);
}

Argument* ClauseParser::call(Op op, Offset begin, std::initializer_list<Argument*> args) {
    Argument* result = node(Argument::Kind::Functor, begin);
    result->op = op;
    result->args.assign(args.begin(), args.end());
    measure(result);
    return result;
}

void ClauseParser::arguments(ast::List<Argument*>& out, Tok closer) {
    if (take(closer)) return;
    do out.push_back(argument());
    while (take(Tok::Comma));
    if (!take(closer)) unexpected(closer == Tok::RParen ? "',' or ')'" : "',' or ']'");
}

Argument* ClauseParser::argument(int level) {
    Nesting nesting(*this);
    return operators(unary(), level);
}

Argument* ClauseParser::operators(Argument* left, int level) {
    for (const Binary* b; (b = binary(peek().kind)) && b->level > level;) {
        next();
        Argument* right = argument(b->level);
        left = call(b->op, left->begin, {left, right});
    }
    return left;
}

Argument* ClauseParser::unary() {
    Nesting nesting(*this);
    const Token& token = peek();
    switch (token.kind) {
        case Tok::Minus: {
            next();
            Argument* operand = unary();
            const bool number = operand->kind == Argument::Kind::Number || operand->kind == Argument::Kind::Unsigned ||
                                operand->kind == Argument::Kind::Float;
            if (!number || operand->text[0] == '-') return call(Op::Neg, token.begin, {operand});
            // The sign belongs to the number, so that the smallest number can be written.
            operand->begin = token.begin;
            operand->text = arena_.keep("-" + std::string(operand->text));
            return operand;
        }
        case Tok::BNot: next(); return call(Op::BitNot, token.begin, {unary()});
        case Tok::LNot: next(); return call(Op::LogicNot, token.begin, {unary()});
        default: return power(primary());
    }
}

Argument* ClauseParser::power(Argument* base) {
    if (!take(Tok::Caret)) return base;
    return call(Op::Exp, base->begin, {base, unary()});  // to the right: 2^3^2 is 2^(3^2)
}

Argument* ClauseParser::functor(Op op, std::size_t least, std::size_t most) {
    Argument* result = node(Argument::Kind::Functor, peek().begin);
    const std::string name(text(next()));
    result->op = op;
    expect(Tok::LParen, "'('", "a functor is written name(arguments)");
    arguments(result->args, Tok::RParen);
    const std::size_t given = result->args.size();
    if (given < least || given > most) {
        std::string wanted = std::to_string(least);
        if (most != least) wanted += most > 1000 ? " or more" : " to " + std::to_string(most);
        report_.error(result->begin, name + " takes " + wanted + " arguments, " + std::to_string(given) + " given");
        throw SyntaxError{};
    }
    measure(result);
    return result;
}

Argument* ClauseParser::conversion(TypeKind to, std::optional<TypeKind> from) {
    Argument* result = functor(Op::Convert, 1, 1);
    result->to = to;
    result->from_fixed = from.has_value();
    if (from) result->from = *from;
    return result;
}

Argument* ClauseParser::primary() {
    const Token& token = peek();
    const auto leaf = [&](Argument::Kind kind, std::string_view value) {
        Argument* result = node(kind, token.begin);
        result->text = value;
        next();
        return result;
    };
    constexpr std::size_t kMany = static_cast<std::size_t>(-1);
    switch (token.kind) {
        case Tok::Identifier:
            if (peek(1).kind == Tok::LParen) {
                if (const Conversion* c = conversion_named(text(token))) return conversion(c->to, c->from);
                fail(token.begin, "'" + std::string(text(token)) + "' is no functor, and an atom cannot be an argument",
                     "user-defined functors are written @name(arguments)");
            }
            return leaf(Argument::Kind::Variable, text(token));
        case Tok::String: {
            Argument* result = leaf(Argument::Kind::String, {});
            result->text = string_value(token);
            return result;
        }
        case Tok::Number: return leaf(Argument::Kind::Number, text(token));
        case Tok::Float: return leaf(Argument::Kind::Float, text(token));
        case Tok::Unsigned: return leaf(Argument::Kind::Unsigned, text(token).substr(0, token.length - 1));
        case Tok::Underscore: return leaf(Argument::Kind::Unnamed, {});
        case Tok::Nil: return leaf(Argument::Kind::Nil, {});
        case Tok::AutoInc:
        case Tok::Iteration: {
            Argument* result = leaf(token.kind == Tok::AutoInc ? Argument::Kind::Counter : Argument::Kind::Iteration, text(token));
            expect(Tok::LParen, "'('");
            expect(Tok::RParen, "')'");
            return result;
        }
        case Tok::Dollar: {
            next();
            if (!at(Tok::Identifier)) {
                report_.warning(token.begin, "'$' is deprecated", "write autoinc()");
                return node(Argument::Kind::Counter, token.begin);
            }
            Argument* result = node(Argument::Kind::Branch, token.begin);
            result->text = qualified_name("the name of a branch");
            expect(Tok::LParen, "'('", "a branch without fields is written $Name()");
            arguments(result->args, Tok::RParen);
            measure(result);
            return result;
        }
        case Tok::LBracket: {
            next();
            Argument* result = node(Argument::Kind::Record, token.begin);
            arguments(result->args, Tok::RBracket);
            measure(result);
            return result;
        }
        case Tok::LParen: {
            next();
            Argument* result = argument();
            expect(Tok::RParen, "')'");
            return result;
        }
        case Tok::As: {
            next();
            Argument* result = node(Argument::Kind::Cast, token.begin);
            expect(Tok::LParen, "'('", "a cast is written as(value, type)");
            result->args.push_back(argument());
            expect(Tok::Comma, "','", "a cast is written as(value, type)");
            result->text = qualified_name("a type");
            expect(Tok::RParen, "')'");
            measure(result);
            return result;
        }
        case Tok::At: {
            next();
            if (at(Tok::At)) fail(token.begin, "user-defined aggregates (@@name) are not supported");
            Argument* result = node(Argument::Kind::User, token.begin);
            result->text = identifier("the name of a functor");
            expect(Tok::LParen, "'('");
            arguments(result->args, Tok::RParen);
            measure(result);
            return result;
        }
        case Tok::Cat: return functor(Op::Cat, 2, kMany);
        case Tok::Ord: return functor(Op::Ord, 1, 1);
        case Tok::Range: return functor(Op::Range, 2, 3);
        case Tok::StrLen: return functor(Op::StrLen, 1, 1);
        case Tok::SubStr: return functor(Op::SubStr, 3, 3);
        case Tok::ToFloat: return conversion(TypeKind::Float, {});
        case Tok::ToNumber: return conversion(TypeKind::Number, {});
        case Tok::ToString: return conversion(TypeKind::Symbol, {});
        case Tok::ToUnsigned: return conversion(TypeKind::Unsigned, {});
        case Tok::Count:
        case Tok::Sum:
        case Tok::Min:
        case Tok::Max:
        case Tok::Mean: return aggregate_or_functor();
        default: unexpected("an argument");
    }
}

// min and max are functors with two or more arguments, else aggregates.
Argument* ClauseParser::aggregate_or_functor() {
    const Token token = next();
    const auto kind = [&] {
        switch (token.kind) {
            case Tok::Count: return dl::Aggregate::Count;
            case Tok::Sum: return dl::Aggregate::Sum;
            case Tok::Min: return dl::Aggregate::Min;
            case Tok::Max: return dl::Aggregate::Max;
            default: return dl::Aggregate::Mean;
        }
    }();
    if (at(Tok::Colon)) return aggregate(kind, token.begin, nullptr);
    if (!at(Tok::LParen)) return aggregate(kind, token.begin, argument());

    next();
    std::vector<Argument*> given{argument()};
    while (take(Tok::Comma)) given.push_back(argument());
    expect(Tok::RParen, "',' or ')'");
    if (given.size() > 1) {
        if (kind != dl::Aggregate::Min && kind != dl::Aggregate::Max)
            fail(token.begin, std::string(text(token)) + " is an aggregate, not a functor",
                 "an aggregate is written " + std::string(text(token)) + " x : { body }");
        Argument* result = node(Argument::Kind::Functor, token.begin);
        result->op = kind == dl::Aggregate::Min ? Op::Min : Op::Max;
        result->args.assign(given.begin(), given.end());
        measure(result);
        return result;
    }
    return aggregate(kind, token.begin, operators(power(given[0]), 0));
}

Argument* ClauseParser::aggregate(dl::Aggregate kind, Offset begin, Argument* target) {
    if ((kind == dl::Aggregate::Count) != (target == nullptr))
        fail(begin, target ? "count takes no expression before ':'" : "this aggregate needs an expression before ':'",
             target ? "write count : { body }" : "write for example sum x : { body }");
    expect(Tok::Colon, "':'", "an aggregate is written sum x : { body }");
    Argument* result = node(Argument::Kind::Aggregate, begin);
    result->aggregate = kind;
    if (target) result->args.push_back(target);
    if (take(Tok::LBrace)) {
        ast::Literal* body = disjunction();
        expect(Tok::RBrace, "',' or '}'");
        std::vector<Conjunction> bodies = disjunctive_normal_form(body, arena_, report_);
        if (bodies.size() != 1)
            fail(begin, "a disjunction in the body of an aggregate is not supported",
                 "give the alternatives a relation of their own");
        result->body.assign(bodies[0].begin(), bodies[0].end());
    } else {
        ast::Literal* positive = literal(ast::Literal::Kind::Atom, peek().begin);
        positive->atom = atom();
        positive->depth = positive->atom->depth;
        result->body.push_back(positive);
    }
    measure(result);
    return result;
}

}  // namespace dl
