// Declarations, directives and components.
#include "parser.hpp"

#include <algorithm>

#include "clause_parser.hpp"

namespace dl {

namespace {

bool is_qualifier(Tok kind) {
    switch (kind) {
        case Tok::QInput: case Tok::QOutput: case Tok::QPrintSize: case Tok::QOverridable: case Tok::QEqrel:
        case Tok::QInline: case Tok::QNoInline: case Tok::QMagic: case Tok::QNoMagic: case Tok::QBrie: case Tok::QBTree:
        case Tok::QBTreeDelete: return true;
        default: return false;
    }
}

class Parser : public ClauseParser {
public:
    using ClauseParser::ClauseParser;

    ast::Program run() {
        ast::Program program;
        program_ = &program;
        while (!at(Tok::End)) item(program, true);
        return program;
    }

private:
    // One declaration, directive or clause. After an error, goes on at the next one.
    void item(ast::Scope& scope, bool top) {
        const std::size_t start = at_;
        try {
            switch (peek().kind) {
                case Tok::Decl: relation(scope); break;
                case Tok::TypeDecl: type(scope); break;
                case Tok::NumberType: deprecated_type(scope, "number"); break;
                case Tok::SymbolType: deprecated_type(scope, "symbol"); break;
                case Tok::Input: directive(scope, Directive::Kind::Input); break;
                case Tok::Output: directive(scope, Directive::Kind::Output); break;
                case Tok::PrintSize: directive(scope, Directive::Kind::PrintSize); break;
                case Tok::LimitSize: directive(scope, Directive::Kind::LimitSize); break;
                case Tok::Comp: component(scope); break;
                case Tok::Init: instantiation(scope); break;
                case Tok::Lattice: lattice(); break;
                case Tok::Plan: fail(peek().begin, "syntax error: .plan must follow a rule");
                case Tok::FunctorDecl:
                    if (!top) fail(peek().begin, "syntax error: .functor belongs outside components");
                    functor();
                    break;
                case Tok::Pragma:
                    if (!top) fail(peek().begin, "syntax error: .pragma belongs outside components");
                    pragma();
                    break;
                case Tok::Override:
                    if (top) fail(peek().begin, "syntax error: .override belongs inside a component");
                    next();
                    scope.overrides.emplace_back(identifier("the name of a relation"), tokens_[at_ - 1].begin);
                    break;
                default: clause(scope.clauses);
            }
        } catch (const SyntaxError&) {
            if (at_ == start) next();
            recover(top);
        }
    }

    // Skips to the first token after which something new can begin.
    void recover(bool top) {
        for (; !at(Tok::End); next()) {
            const Tok kind = peek().kind;
            if (kind >= Tok::Decl && kind <= Tok::Plan && kind != Tok::Plan) return;
            if (!top && kind == Tok::RBrace) return;
            if (kind == Tok::Dot && !dot_in_name()) {
                next();
                return;
            }
        }
    }
    bool dot_in_name() const {
        return peek(1).kind == Tok::Identifier && peek(1).begin == peek().begin + 1;
    }

    // ------------------------------------------------------------ relations

    void relation(ast::Scope& scope) {
        next();
        std::vector<ast::RelationDeclaration> declared;
        do {
            ast::RelationDeclaration r;
            r.begin = peek().begin;
            r.name = identifier("the name of a relation");
            declared.push_back(std::move(r));
        } while (take(Tok::Comma));
        if (at(Tok::Equal) && peek(1).kind == Tok::DebugDelta)
            fail(peek(1).begin, "debug_delta relations are not supported");

        expect(Tok::LParen, "',' or '('", "a relation is declared as .decl name(attribute: type, ...)");
        const std::vector<ast::Attribute> attributes = attribute_list(Tok::RParen);
        std::vector<Tok> qualifiers;
        std::vector<ast::RelationDeclaration::Key> choice;
        std::vector<Tok> io;
        while (is_qualifier(peek().kind)) {
            const Token& token = next();
            if (std::find(qualifiers.begin(), qualifiers.end(), token.kind) != qualifiers.end())
                report_.error(token.begin, "qualifier '" + std::string(text(token)) + "' is given twice");
            const auto representation = [](Tok t) {
                return t == Tok::QEqrel || t == Tok::QBrie || t == Tok::QBTree || t == Tok::QBTreeDelete;
            };
            if (representation(token.kind) && std::any_of(qualifiers.begin(), qualifiers.end(), representation))
                report_.error(token.begin, "a relation has one data structure only (btree, btree_delete, brie or eqrel)");
            qualifiers.push_back(token.kind);
            if (token.kind == Tok::QInput || token.kind == Tok::QOutput || token.kind == Tok::QPrintSize) {
                report_.warning(token.begin, "the qualifier '" + std::string(text(token)) + "' is deprecated",
                                "use the directive ." + std::string(text(token)));
                io.push_back(token.kind);
            }
        }
        if (at(Tok::Identifier) && peek(1).kind != Tok::LParen && peek(1).kind != Tok::Dot)
            fail(peek().begin, "unknown qualifier '" + std::string(text(peek())) + "' of a relation",
                 "known: btree, btree_delete, brie, eqrel, inline, no_inline, magic, no_magic, overridable");
        if (take(Tok::ChoiceDomain)) do choice.push_back(key());
            while (take(Tok::Comma));

        for (ast::RelationDeclaration& r : declared) {
            r.attributes = attributes;
            r.qualifiers = qualifiers;
            r.choice = choice;
            for (Tok kind : io) {
                ast::DirectiveDeclaration d;
                d.kind = kind == Tok::QInput    ? Directive::Kind::Input
                         : kind == Tok::QOutput ? Directive::Kind::Output
                                                : Directive::Kind::PrintSize;
                d.relation = r.name;
                d.begin = r.begin;
                scope.directives.push_back(std::move(d));
            }
            scope.relations.push_back(std::move(r));
        }
    }

    ast::RelationDeclaration::Key key() {
        ast::RelationDeclaration::Key result;
        result.begin = peek().begin;
        if (take(Tok::LParen)) {
            do result.names.push_back(identifier("an attribute"));
            while (take(Tok::Comma));
            expect(Tok::RParen, "',' or ')'");
        } else {
            result.names.push_back(identifier("an attribute or '('"));
        }
        return result;
    }

    std::vector<ast::Attribute> attribute_list(Tok closer) {
        std::vector<ast::Attribute> result;
        if (take(closer)) return result;
        do result.push_back(attribute());
        while (take(Tok::Comma));
        if (!take(closer)) unexpected("',' or '" + std::string(spelling(closer)) + "'");
        return result;
    }

    ast::Attribute attribute() {
        ast::Attribute result;
        result.name = identifier("the name of an attribute");
        expect(Tok::Colon, "':'", "an attribute is written name: type");
        result.begin = peek().begin;
        result.type = qualified_name("a type");
        if (at(Tok::Less) && peek(1).kind == Tok::Greater)
            fail(peek().begin, "lattice attributes (type<>) are not supported",
                 "subsumption (<=) keeps the best tuples of a relation");
        return result;
    }

    // ------------------------------------------------------------ types

    void type(ast::Scope& scope) {
        next();
        ast::TypeDeclaration t;
        t.begin = peek().begin;
        t.name = identifier("the name of a type");
        if (take(Tok::SubType)) {
            t.types.push_back(qualified_name("a type"));
        } else if (!take(Tok::Equal)) {
            report_.warning(t.begin, "'.type " + std::string(t.name) + "' without a definition is deprecated",
                            "write .type " + std::string(t.name) + " <: symbol");
            t.types.push_back("symbol");
        } else if (take(Tok::LBracket)) {
            t.kind = ast::TypeDeclaration::Kind::Record;
            t.fields = attribute_list(Tok::RBracket);
        } else if (peek(1).kind == Tok::LBrace) {
            t.kind = ast::TypeDeclaration::Kind::Adt;
            do {
                ast::TypeDeclaration::Branch branch;
                branch.begin = peek().begin;
                branch.name = identifier("the name of a branch");
                expect(Tok::LBrace, "'{'", "a branch is written Name { field: type, ... }");
                branch.fields = attribute_list(Tok::RBrace);
                t.branches.push_back(std::move(branch));
            } while (take(Tok::Pipe));
        } else {
            do t.types.push_back(qualified_name("a type"));
            while (take(Tok::Pipe));
            t.kind = t.types.size() > 1 ? ast::TypeDeclaration::Kind::Union : ast::TypeDeclaration::Kind::Alias;
        }
        scope.types.push_back(std::move(t));
    }

    // Read and forgotten: an attribute that asks for it (`type<>`) is refused.
    void lattice() {
        const Offset begin = next().begin;
        identifier("the name of a type");
        expect(Tok::Less, "'<>'", "a lattice is declared as .lattice Name<> { Bottom -> …, Lub -> …, Glb -> … }");
        expect(Tok::Greater, "'>'");
        expect(Tok::LBrace, "'{'");
        for (int depth = 1; depth > 0; next()) {
            if (at(Tok::End)) fail(begin, "this lattice does not end", "'}' is missing");
            depth += at(Tok::LBrace);
            depth -= at(Tok::RBrace);
        }
    }

    void deprecated_type(ast::Scope& scope, const char* base) {
        const Token& token = next();
        ast::TypeDeclaration t;
        t.begin = peek().begin;
        t.name = identifier("the name of a type");
        t.types.push_back(base);
        report_.warning(token.begin, std::string(text(token)) + " is deprecated",
                        "write .type " + std::string(t.name) + " <: " + base);
        scope.types.push_back(std::move(t));
    }

    // ------------------------------------------------------------ directives

    void directive(ast::Scope& scope, Directive::Kind kind) {
        next();
        std::vector<ast::DirectiveDeclaration> named;
        do {
            ast::DirectiveDeclaration d;
            d.kind = kind;
            d.begin = peek().begin;
            d.relation = qualified_name("the name of a relation");
            named.push_back(std::move(d));
        } while (take(Tok::Comma));
        std::vector<std::pair<std::string, std::string>> parameters;
        if (take(Tok::LParen) && !take(Tok::RParen)) {
            do {
                std::string name(identifier("the name of a parameter"));
                expect(Tok::Equal, "'='", "a parameter is written name=value");
                parameters.emplace_back(std::move(name), parameter_value());
            } while (take(Tok::Comma));
            expect(Tok::RParen, "',' or ')'");
        }
        for (ast::DirectiveDeclaration& d : named) {
            d.parameters = parameters;
            scope.directives.push_back(std::move(d));
        }
    }

    std::string parameter_value() {
        switch (peek().kind) {
            case Tok::String: return std::string(string_value(next()));
            case Tok::Identifier: case Tok::Number: case Tok::True: case Tok::False: return std::string(text(next()));
            default: unexpected("a string, a name or a number");
        }
    }

    void pragma() {
        next();
        std::string key(string_value(expect(Tok::String, "a string")));
        std::string value;
        if (at(Tok::String)) value = string_value(next());
        program_->pragmas.emplace_back(std::move(key), std::move(value));
    }

    void functor() {
        next();
        ast::FunctorDeclaration f;
        f.begin = peek().begin;
        f.name = identifier("the name of a functor");
        expect(Tok::LParen, "'('", "a functor is declared as .functor name(argument: type, ...): type");
        if (!take(Tok::RParen)) {
            do {
                if (peek(1).kind == Tok::Colon) {
                    f.parameters.push_back(attribute());
                } else {
                    const Offset begin = peek().begin;
                    f.parameters.push_back({{}, qualified_name("a type"), begin});
                }
            } while (take(Tok::Comma));
            expect(Tok::RParen, "',' or ')'");
        }
        expect(Tok::Colon, "':'", "the type of the result is missing");
        const Offset begin = peek().begin;
        f.result = {{}, qualified_name("a type"), begin};
        f.stateful = take(Tok::Stateful);
        program_->functors.push_back(std::move(f));
    }

    // ------------------------------------------------------------ components

    ast::ComponentType component_type() {
        ast::ComponentType result;
        result.begin = peek().begin;
        result.name = identifier("the name of a component");
        if (take(Tok::Less)) {
            do result.arguments.push_back(identifier("a type parameter"));
            while (take(Tok::Comma));
            expect(Tok::Greater, "',' or '>'");
        }
        return result;
    }

    void component(ast::Scope& scope) {
        const Nested nested(nesting_);
        if (nesting_ > 200) fail(peek().begin, "components are nested deeper than 200 levels");
        next();
        ast::Component* c = arena_.make_component();
        c->type = component_type();
        if (take(Tok::Colon)) do c->bases.push_back(component_type());
            while (take(Tok::Comma) || take(Tok::Colon));
        const Offset open = peek().begin;
        expect(Tok::LBrace, "':' or '{'", "a component is written .comp Name { ... }");
        while (!at(Tok::RBrace)) {
            if (at(Tok::End)) fail(open, "this component does not end", "'}' is missing");
            item(c->scope, false);
        }
        next();
        scope.components.push_back(c);
    }

    void instantiation(ast::Scope& scope) {
        next();
        ast::Instantiation result;
        result.begin = peek().begin;
        result.name = identifier("the name of an instance");
        expect(Tok::Equal, "'='", "a component is instantiated as .init name = Component");
        result.component = component_type();
        scope.instantiations.push_back(std::move(result));
    }

    struct Nested {
        explicit Nested(int& count) : count(count) { ++count; }
        ~Nested() { --count; }
        int& count;
    };

    ast::Program* program_ = nullptr;
    int nesting_ = 0;
};

}  // namespace

ast::Program parse(const Source& source, ast::Arena& arena, Report& report) {
    std::vector<Token> tokens = tokenize(source, report);
    report.throw_if_errors();  // what follows a broken token would only confuse
    return Parser(source, arena, report, std::move(tokens)).run();
}

}  // namespace dl
