#include "clause_parser.hpp"

#include "normal_form.hpp"

namespace dl {

using ast::Argument;

namespace {

struct Binary {
    Tok token;
    Op op;
    int level;
};

// From loose to tight; all group to the left. Unary operators bind tighter, `^` tighter still.
constexpr Binary kBinary[] = {
    {Tok::LOr, Op::LogicOr, 1},   {Tok::LXor, Op::LogicXor, 2},   {Tok::LAnd, Op::LogicAnd, 3},
    {Tok::BOr, Op::BitOr, 4},     {Tok::BXor, Op::BitXor, 5},     {Tok::BAnd, Op::BitAnd, 6},
    {Tok::BShl, Op::ShiftLeft, 7}, {Tok::BShr, Op::ShiftRight, 7}, {Tok::BShru, Op::ShiftRightUnsigned, 7},
    {Tok::Plus, Op::Add, 8},      {Tok::Minus, Op::Sub, 8},       {Tok::Star, Op::Mul, 9},
    {Tok::Slash, Op::Div, 9},     {Tok::Percent, Op::Mod, 9},
};

const Binary* binary(Tok token) {
    for (const Binary& b : kBinary)
        if (b.token == token) return &b;
    return nullptr;
}

std::optional<Compare> comparison_operator(Tok token) {
    switch (token) {
        case Tok::Equal: return Compare::Equal;
        case Tok::NotEqual: return Compare::NotEqual;
        case Tok::Less: return Compare::Less;
        case Tok::LessEqual: return Compare::LessEqual;
        case Tok::Greater: return Compare::Greater;
        case Tok::GreaterEqual: return Compare::GreaterEqual;
        default: return {};
    }
}

struct Conversion {
    std::string_view name;
    TypeKind from, to;
};

// These are no keywords: the names are free for variables and relations as long as no argument list follows.
constexpr Conversion kConversions[] = {
    {"itou", TypeKind::Number, TypeKind::Unsigned}, {"itof", TypeKind::Number, TypeKind::Float},
    {"utoi", TypeKind::Unsigned, TypeKind::Number}, {"utof", TypeKind::Unsigned, TypeKind::Float},
    {"ftoi", TypeKind::Float, TypeKind::Number},    {"ftou", TypeKind::Float, TypeKind::Unsigned},
};

const Conversion* conversion_named(std::string_view name) {
    if (name.size() != 4) return nullptr;
    for (const Conversion& c : kConversions)
        if (c.name == name) return &c;
    return nullptr;
}

}  // namespace

// ---------------------------------------------------------------- nodes

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

// ---------------------------------------------------------------- arguments

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
            Argument* result = leaf(token.kind == Tok::AutoInc ? Argument::Kind::Counter : Argument::Kind::Iteration, {});
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
