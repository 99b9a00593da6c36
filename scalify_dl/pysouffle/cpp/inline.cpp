#include "inline.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "normal_form.hpp"
#include "scopes.hpp"

namespace dl {

using ast::Argument;

namespace {

using Substitution = std::unordered_map<ast::Name, Argument*>;

class Inliner {
public:
    Inliner(const Declarations& declarations, ast::Arena& arena, Report& report)
        : declarations_(declarations), arena_(arena), report_(report), bodies_(declarations.relations.size()) {}

    std::vector<ast::Clause*> run(const std::vector<ast::Clause*>& definitions, const std::vector<ast::Clause*>& callers,
                                  const std::vector<std::int32_t>& order) {
        std::vector<std::vector<ast::Clause*>> by_relation(declarations_.relations.size());
        for (ast::Clause* clause : definitions) {
            name_locals(clause);
            by_relation[inline_relation(clause->head)].push_back(clause);
        }
        for (std::int32_t r : order)
            for (ast::Clause* clause : by_relation[r])
                for (ast::Clause* c : expand(clause)) bodies_[r].push_back(c);
        std::vector<ast::Clause*> result;
        for (ast::Clause* clause : callers)
            for (ast::Clause* c : expand(clause)) result.push_back(c);
        return result;
    }

private:
    static constexpr std::size_t kMaxClauses = 50'000;
    static constexpr std::size_t kMaxNodes = 100'000;

    std::int32_t inline_relation(const ast::Atom* atom) const {
        const RelationInfo* r = declarations_.relation(atom);
        return r && r->is_inline ? static_cast<std::int32_t>(r - declarations_.relations.data()) : -1;
    }

    // A variable of an aggregate that hides one of the clause gets a name of its own, so that what is put for the
    // outer one stays out of the aggregate.
    void name_locals(ast::Clause* clause) {
        const std::vector<ClauseVariable> variables = resolve_variables(clause);
        const auto rename = [&](Argument* a) {
            if (a->kind == Argument::Kind::Variable && variables[a->id].scope)
                a->text = arena_.keep(std::string(a->text) + "#" + std::to_string(a->id));
        };
        ast::for_each(clause->head, rename);
        for (ast::Literal* l : clause->body) ast::for_each(l, rename);
    }

    ast::Literal* node(ast::Literal::Kind kind, Offset begin) {
        ast::Literal* result = arena_.make<ast::Literal>();
        result->kind = kind;
        result->begin = begin;
        return result;
    }

    // The body as one formula with every inline atom replaced by the disjunction of its clauses' bodies.
    std::vector<ast::Clause*> expand(ast::Clause* clause) {
        if (!mentions_inline(clause, declarations_)) return {clause};
        ast::Literal* formula = node(ast::Literal::Kind::And, clause->begin);
        for (ast::Literal* l : clause->body) {
            const std::int32_t r = l->atom ? inline_relation(l->atom) : -1;
            if (r < 0) {
                formula->parts.push_back(l);
                continue;
            }
            ast::Literal* options = node(ast::Literal::Kind::Or, l->begin);
            for (ast::Clause* definition : bodies_[r])
                options->parts.push_back(use(definition, l->atom));
            if (l->kind == ast::Literal::Kind::Negation) {
                ast::Literal* negation = node(ast::Literal::Kind::Not, l->begin);
                negation->parts.push_back(options);
                options = negation;
            }
            formula->parts.push_back(options);
        }
        std::vector<ast::Clause*> result;
        for (const Conjunction& conjunction : disjunctive_normal_form(formula, arena_, report_)) {
            ast::Clause* c = arena_.make<ast::Clause>();
            c->kind = clause->kind == ast::Clause::Kind::Fact ? ast::Clause::Kind::Rule : clause->kind;
            c->generated = true;
            c->begin = clause->begin;
            c->end = clause->end;
            c->head = arena_.copy(clause->head);
            for (const ast::Literal* l : conjunction) c->body.push_back(arena_.copy(l));
            check_size(c);
            result.push_back(c);
        }
        made_ += result.size();
        if (made_ > kMaxClauses) {
            report_.error(clause->begin, "inlining makes more than " + std::to_string(kMaxClauses) + " clauses",
                          "remove 'inline' from some relations");
            report_.throw_if_errors();
        }
        return result;
    }

    // Every level of inlining can double a term, and nest it deeper.
    void check_size(ast::Clause* clause) {
        std::size_t nodes = 0;
        int deepest = 0;
        const auto measure = [&](Argument* a) {
            ast::for_each(a, [&](Argument*) { ++nodes; });
            deepest = std::max(deepest, height(a));
        };
        for (ast::Literal* l : clause->body) {
            if (l->atom) std::for_each(l->atom->args.begin(), l->atom->args.end(), measure);
            if (l->left) measure(l->left), measure(l->right);
        }
        if (nodes <= kMaxNodes && deepest <= ast::kMaxDepth) return;
        report_.error(clause->begin, "inlining makes this clause too large", "remove 'inline' from some relations");
        report_.throw_if_errors();
    }

    static int height(const Argument* a) {
        int below = 0;
        for (const Argument* part : a->args) below = std::max(below, height(part));
        return below + 1;
    }

    // The body of `definition` for one use of its relation: its variables renamed, its head equated with the atom.
    ast::Literal* use(const ast::Clause* definition, const ast::Atom* atom) {
        ast::Clause* copy = arena_.copy(definition);
        const std::string suffix = "#" + std::to_string(++uses_);
        Substitution renamed;
        const auto rename = [&](Argument* a) {
            if (a->kind != Argument::Kind::Variable) return;
            Argument*& to = renamed[a->text];
            if (!to) to = arena_.variable(arena_.keep(std::string(a->text) + suffix), a->begin);
            a->text = to->text;
        };
        ast::for_each(copy->head, rename);
        for (ast::Literal* l : copy->body) ast::for_each(l, rename);

        ast::Literal* result = node(ast::Literal::Kind::And, atom->begin);
        Substitution substitution;
        const std::vector<TypeId>& types = declarations_.relation(atom)->types;
        for (std::size_t i = 0; i < atom->args.size(); ++i)
            unify(copy->head->args[i], atom->args[i], types[i], substitution, result);
        result->parts.insert(result->parts.end(), copy->body.begin(), copy->body.end());
        for (ast::Literal* l : result->parts) substitute(l, substitution);
        return result;
    }

    // A head variable takes the argument itself, unless that must be evaluated once or is a pattern with `_`; else an
    // equality is added.
    void unify(Argument* head, Argument* given, TypeId type, Substitution& substitution, ast::Literal* out) {
        using Kind = Argument::Kind;
        if (given->kind == Kind::Unnamed) return;
        if (head->kind == Kind::Variable && may_be_repeated(given)) {
            Argument* value = is_record(given) ? cast(given, type) : given;
            if (substitution.emplace(head->text, value).second) return;
        }
        if (head->kind == Kind::Record && given->kind == Kind::Record && head->args.size() == given->args.size()) {
            for (std::size_t i = 0; i < head->args.size(); ++i)
                unify(head->args[i], given->args[i], declarations_.types.info(type).fields[i], substitution, out);
            return;
        }
        ast::Literal* equal = node(ast::Literal::Kind::Comparison, given->begin);
        equal->compare = Compare::Equal;
        equal->left = arena_.copy(head);
        equal->right = arena_.copy(given);
        // The atom told the type of a record; now a cast does.
        if (is_record(given)) equal->right = cast(equal->right, type);
        else if (is_record(head)) equal->left = cast(equal->left, type);
        out->parts.push_back(equal);
    }

    static bool may_be_repeated(Argument* a) {
        bool result = true;
        ast::for_each(a, [&](Argument* part) {
            const bool generator = part->kind == Argument::Kind::Functor && part->op == Op::Range;
            result = result && !generator && part->kind != Argument::Kind::Unnamed && part->kind != Argument::Kind::Aggregate &&
                     part->kind != Argument::Kind::Counter && part->kind != Argument::Kind::User;
        });
        return result;
    }

    static bool is_record(const Argument* a) { return a->kind == Argument::Kind::Record || a->kind == Argument::Kind::Nil; }

    Argument* cast(Argument* value, TypeId type) {
        Argument* result = arena_.make<Argument>();
        result->kind = Argument::Kind::Cast;
        result->begin = value->begin;
        result->text = declarations_.types.info(type).name;
        result->depth = static_cast<std::uint16_t>(value->depth + 1);
        result->args.push_back(value);
        return result;
    }

    void substitute(Argument*& a, const Substitution& substitution) {
        if (a->kind == Argument::Kind::Variable) {
            auto found = substitution.find(a->text);
            if (found != substitution.end()) a = arena_.copy(found->second);
            return;
        }
        for (Argument*& part : a->args) substitute(part, substitution);
        for (ast::Literal* l : a->body) substitute(l, substitution);
    }
    void substitute(ast::Literal* l, const Substitution& substitution) {
        if (l->atom)
            for (Argument*& a : l->atom->args) substitute(a, substitution);
        if (l->left) substitute(l->left, substitution);
        if (l->right) substitute(l->right, substitution);
    }

    const Declarations& declarations_;
    ast::Arena& arena_;
    Report& report_;
    std::vector<std::vector<ast::Clause*>> bodies_;  // of the inline relations, fully expanded
    std::size_t made_ = 0;
    int uses_ = 0;
};

}  // namespace

void check_inlining(const std::vector<ast::Clause*>& clauses, const Declarations& declarations, Report& report) {
    const auto is_inline = [&](const ast::Atom* atom) {
        const RelationInfo* r = declarations.relation(atom);
        return r && r->is_inline;
    };
    const bool any = std::any_of(declarations.relations.begin(), declarations.relations.end(),
                                 [](const RelationInfo& r) { return r.is_inline; });
    if (!any) return;

    std::unordered_set<ast::Name> with_variables;  // relations some clause of which has variables of its own
    for (const ast::Clause* clause : clauses) {
        if (!is_inline(clause->head)) continue;
        if (clause->kind == ast::Clause::Kind::Subsumption)
            report.error(clause->begin, "relation " + quote(clause->head->name) + " is inlined, so it cannot have subsumption rules");
        std::unordered_set<ast::Name> head;
        const auto in_head = [&](Argument* a) {
            if (a->kind == Argument::Kind::Variable) head.insert(a->text);
        };
        for (Argument* a : clause->head->args) ast::for_each(a, in_head);
        for (ast::Literal* l : clause->body)
            ast::for_each(l, [&](Argument* a) {
                if (a->kind == Argument::Kind::Variable && !head.count(a->text)) with_variables.insert(clause->head->name);
                if (a->kind == Argument::Kind::Counter)
                    report.error(a->begin, "cannot inline a clause that contains a counter");
            });
    }
    const auto atom = [&](ast::Literal* l, bool in_aggregate) {
        if (!l->atom || !is_inline(l->atom)) return;
        const ast::Atom* a = l->atom;
        if (in_aggregate) {
            report.error(a->begin, "cannot inline relation " + quote(a->name) + " in an aggregate", "remove 'inline' from its declaration");
            return;
        }
        for (Argument* arg : a->args)
            ast::for_each(arg, [&](Argument* part) {
                if (part->kind == Argument::Kind::Counter)
                    report.error(part->begin, "cannot inline an atom that contains a counter");
                if (part->kind == Argument::Kind::Unnamed && l->kind == ast::Literal::Kind::Negation)
                    report.error(part->begin, "cannot inline a negated atom that contains '_'", "remove 'inline' from " + quote(a->name));
            });
        if (l->kind == ast::Literal::Kind::Negation && with_variables.count(a->name))
            report.error(a->begin, "cannot inline negated relation " + quote(a->name) + ", whose rules have variables of their own",
                         "remove 'inline' from its declaration");
    };
    for (ast::Clause* clause : clauses) {
        const auto aggregates = [&](Argument* a) {
            for (ast::Literal* l : a->body) atom(l, true);
        };
        ast::for_each(clause->head, aggregates);
        for (ast::Literal* l : clause->body) {
            atom(l, false);
            ast::for_each(l, aggregates);
        }
    }
}

bool mentions_inline(const ast::Clause* clause, const Declarations& declarations) {
    return std::any_of(clause->body.begin(), clause->body.end(), [&](const ast::Literal* l) {
        const RelationInfo* r = l->atom ? declarations.relation(l->atom) : nullptr;
        return r && r->is_inline;
    });
}

std::vector<ast::Clause*> inline_relations(const std::vector<ast::Clause*>& definitions,
                                           const std::vector<ast::Clause*>& callers,
                                           const std::vector<std::int32_t>& order, const Declarations& declarations,
                                           ast::Arena& arena, Report& report) {
    return Inliner(declarations, arena, report).run(definitions, callers, order);
}

}  // namespace dl
