#include "lower.hpp"

#include <algorithm>

#include "constants.hpp"

namespace dl {

using ast::Argument;

namespace {

class ClauseLowering {
public:
    ClauseLowering(const std::vector<ClauseVariable>& variables, const ClauseTypes& types, const Declarations& declarations,
                   const Source& source)
        : types_(types), declarations_(declarations), source_(source) {
        for (std::size_t i = 0; i < variables.size(); ++i)
            rule_.variables.push_back({std::string(variables[i].name), TypeSystem::core_index(types.variable_type(i))});
    }

    Rule run(ast::Clause* clause) {
        using Kind = ast::Clause::Kind;
        rule_.kind = clause->kind == Kind::Subsumption ? Rule::Kind::Subsume : Rule::Kind::Derive;
        rule_.position = source_.position(clause->begin);
        rule_.plan = clause->plan;
        rule_.text = clause_text(clause);
        std::vector<Literal> extra;  // what the head needs: aggregates, ranges
        rule_.head = atom(clause->head, extra);
        rule_.body.reserve(clause->body.size());
        for (ast::Literal* l : clause->body) literal(l, rule_.body);
        for (Literal& l : extra) rule_.body.push_back(std::move(l));
        return std::move(rule_);
    }

private:
    std::string clause_text(const ast::Clause* clause) const {
        constexpr std::size_t kLongest = 500;
        if (clause->begin == clause->end)  // made by a pass, not written
            return std::string(clause->head->name) + "(…) :- " + std::string(clause->body[0]->atom->name) + "(…).";
        std::string result;
        bool space = false;
        for (Offset i = clause->begin; i < clause->end; ++i) {
            const char c = source_.text[i];
            if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
                space = true;
                continue;
            }
            if (space) result += ' ';
            space = false;
            result += c;
            if (result.size() >= kLongest && (static_cast<unsigned char>(source_.text[i + 1]) & 0xC0) != 0x80) {
                return result + " …";
            }
        }
        return result;
    }

    std::int32_t fresh(TypeId type) {
        rule_.variables.push_back({"@" + std::to_string(fresh_++), TypeSystem::core_index(type)});
        return static_cast<std::int32_t>(rule_.variables.size()) - 1;
    }

    Term variable(std::int32_t index, TypeKind kind, Offset begin) const {
        Term result;
        result.kind = Term::Kind::Variable;
        result.type = kind;
        result.variable = index;
        result.position = source_.position(begin);
        return result;
    }

    Atom atom(const ast::Atom* a, std::vector<Literal>& body) {
        Atom result;
        result.relation = declarations_.relation(a)->core_index;
        result.position = source_.position(a->begin);
        result.args.reserve(a->args.size());
        for (const Argument* argument : a->args) result.args.push_back(term(argument, body));
        return result;
    }

    void literal(const ast::Literal* l, std::vector<Literal>& body) {
        Literal result;
        result.position = source_.position(l->begin);
        switch (l->kind) {
            case ast::Literal::Kind::Atom:
            case ast::Literal::Kind::Negation:
                result.kind = l->kind == ast::Literal::Kind::Atom ? Literal::Kind::Atom : Literal::Kind::Negation;
                result.atom = atom(l->atom, body);
                break;
            default:
                result.kind = Literal::Kind::Comparison;
                result.compare = l->compare;
                if (!l->left) break;
                result.type = types_.of(l->left) == kAnyType ? types_.kind(l->right) : types_.kind(l->left);
                result.left = side(l->left, l->right, l->compare, body);
                result.right = side(l->right, l->left, l->compare, body);
                // `_ = min x : {...}`: that there is a minimum is all that counts.
                if (result.left.kind == Term::Kind::Unnamed || result.right.kind == Term::Kind::Unnamed) return;
        }
        body.push_back(std::move(result));
    }

    // In `x = range(...)` the generator stays where it is; anywhere else it gets a variable.
    Term side(const Argument* a, const Argument* other, Compare compare, std::vector<Literal>& body) {
        const bool generator = a->kind == Argument::Kind::Functor && a->op == Op::Range;
        if (generator && compare == Compare::Equal && other->kind == Argument::Kind::Variable) return functor(a, body);
        return term(a, body);
    }

    Term term(const Argument* a, std::vector<Literal>& body) {
        using Kind = Argument::Kind;
        Term result;
        result.position = source_.position(a->begin);
        result.type = types_.kind(a);
        switch (a->kind) {
            case Kind::Variable: return variable(a->id, types_.kind(a), a->begin);
            case Kind::Unnamed: result.kind = Term::Kind::Unnamed; return result;
            case Kind::String:
                result.kind = Term::Kind::Constant;
                result.text = a->text;
                return result;
            case Kind::Number: case Kind::Unsigned: case Kind::Float:
                result.kind = Term::Kind::Constant;
                result.number = *parse_constant(a->text, result.type, declarations_.word_size);
                return result;
            case Kind::Nil:
                result.kind = Term::Kind::Nil;
                result.type_index = TypeSystem::core_index(types_.type(a));
                return result;
            case Kind::Record:
                result.kind = Term::Kind::Record;
                result.type_index = TypeSystem::core_index(types_.type(a));
                break;
            case Kind::Branch: {
                const TypeSystem::BranchRef ref = declarations_.types.find_branch(a->text);
                result.kind = Term::Kind::Branch;
                result.type_index = TypeSystem::core_index(ref.type);
                result.branch = ref.branch;
                break;
            }
            case Kind::Cast: {
                Term value = term(a->args[0], body);
                if (value.type == result.type && result.type <= TypeKind::Symbol) return value;
                if (value.kind == Term::Kind::Record || value.kind == Term::Kind::Nil) return value;
                result.kind = Term::Kind::Functor;
                result.op = Op::Cast;
                result.from = value.type;
                result.type_index = TypeSystem::core_index(types_.type(a));
                result.args.push_back(std::move(value));
                return result;
            }
            case Kind::Counter:
                result.kind = Term::Kind::Functor;
                result.op = Op::AutoInc;
                return result;
            case Kind::User:
                result.kind = Term::Kind::Functor;
                result.op = Op::User;
                result.functor = declarations_.functor(a->text);
                break;
            case Kind::Functor:
                if (a->op == Op::Range) return generated(a, body);
                return functor(a, body);
            case Kind::Aggregate: return aggregate(a, body);
            case Kind::Iteration: return result;  // refused by the checks
        }
        for (const Argument* part : a->args) result.args.push_back(term(part, body));
        return result;
    }

    Term functor(const Argument* a, std::vector<Literal>& body) {
        Term result;
        result.kind = Term::Kind::Functor;
        result.position = source_.position(a->begin);
        result.type = types_.kind(a);
        result.op = a->op;
        if (a->op == Op::Add && result.type == TypeKind::Symbol) result.op = Op::Cat;
        for (const Argument* part : a->args) result.args.push_back(term(part, body));
        if (a->op == Op::Convert) {
            result.from = types_.kind(a->args[0]);
            if (result.from == result.type) return std::move(result.args[0]);
        }
        return result;
    }

    Term generated(const Argument* range, std::vector<Literal>& body) {
        const TypeKind kind = types_.kind(range);
        Term value = variable(fresh(types_.type(range)), kind, range->begin);
        Literal assign;
        assign.kind = Literal::Kind::Comparison;
        assign.compare = Compare::Equal;
        assign.type = kind;
        assign.position = value.position;
        assign.left = value;
        assign.right = functor(range, body);
        body.push_back(std::move(assign));
        return value;
    }

    Term aggregate(const Argument* a, std::vector<Literal>& body) {
        Literal result;
        result.kind = Literal::Kind::Aggregate;
        result.position = source_.position(a->begin);
        result.aggregate = a->aggregate;
        result.type = types_.kind(a);
        for (const ast::Literal* l : a->body) literal(l, result.body);
        if (!a->args.empty()) result.target = term(a->args[0], result.body);
        result.result = fresh(types_.type(a));
        Term value = variable(result.result, result.type, a->begin);
        body.push_back(std::move(result));
        return value;
    }

    const ClauseTypes& types_;
    const Declarations& declarations_;
    const Source& source_;
    Rule rule_;
    int fresh_ = 0;
};

}  // namespace

Rule lower_clause(ast::Clause* clause, const std::vector<ClauseVariable>& variables, const ClauseTypes& types,
                  const Declarations& declarations, const Source& source) {
    return ClauseLowering(variables, types, declarations, source).run(clause);
}

CoreProgram lower_declarations(const ast::Program& program, Declarations& declarations, const Source& source) {
    CoreProgram core;
    core.files = source.file_names();
    core.types = declarations.types.core_types();
    core.pragmas = program.pragmas;

    for (RelationInfo& info : declarations.relations) {
        if (info.is_inline) continue;
        info.core_index = static_cast<std::int32_t>(core.relations.size());
        const ast::RelationDeclaration& d = *info.declaration;
        Relation relation;
        relation.name = d.name;
        relation.position = source.position(d.begin);
        relation.eqrel = d.has(Tok::QEqrel);
        for (std::size_t i = 0; i < d.attributes.size(); ++i)
            relation.attributes.push_back({std::string(d.attributes[i].name), TypeSystem::core_index(info.types[i])});
        for (const ast::RelationDeclaration::Key& key : d.choice) {
            std::vector<std::int32_t> columns;
            for (ast::Name name : key.names)
                for (std::size_t i = 0; i < d.attributes.size(); ++i)
                    if (d.attributes[i].name == name) columns.push_back(static_cast<std::int32_t>(i));
            relation.choice.push_back(std::move(columns));
        }
        for (Tok q : d.qualifiers)
            if (q != Tok::QEqrel && q != Tok::QInput && q != Tok::QOutput && q != Tok::QPrintSize)
                relation.qualifiers.emplace_back(spelling(q));
        core.relations.push_back(std::move(relation));
    }

    for (const FunctorInfo& info : declarations.functors) {
        Functor functor;
        functor.name = info.declaration->name;
        for (TypeId t : info.parameters) functor.parameters.push_back(TypeSystem::core_index(t));
        functor.result = TypeSystem::core_index(info.result);
        functor.stateful = info.declaration->stateful;
        functor.position = source.position(info.declaration->begin);
        core.functors.push_back(std::move(functor));
    }

    for (const ast::DirectiveDeclaration& d : program.directives) {
        const RelationInfo* relation = declarations.relation(d.relation);
        if (relation->core_index < 0) continue;
        core.directives.push_back({d.kind, relation->core_index, d.parameters, source.position(d.begin)});
    }
    return core;
}

}  // namespace dl
