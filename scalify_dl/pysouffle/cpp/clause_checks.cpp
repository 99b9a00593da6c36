#include "clause_checks.hpp"

#include <algorithm>
#include <unordered_set>

#include "grounding.hpp"

namespace dl {

using ast::Argument;

namespace {

class NameChecks {
public:
    NameChecks(const Declarations& declarations, Report& report) : declarations_(declarations), report_(report) {}

    void run(ast::Clause* clause) {
        atom(clause->head, false);
        if (clause->kind == ast::Clause::Kind::Fact)
            for (Argument* a : clause->head->args) constant(a);
        if (clause->kind == ast::Clause::Kind::Subsumption && clause->body[0]->atom->name != clause->body[1]->atom->name)
            report_.error(clause->begin, "subsumption must compare tuples of the same relation");
        for (ast::Literal* l : clause->body) literal(l);
        aggregates(clause);
    }

private:
    // Of two literals with aggregates, each must not need what only the other's aggregate runs through (as in Soufflé,
    // which asks this even of variables that an atom binds).
    struct Runs {
        Offset begin = 0;
        std::unordered_set<ast::Name> named, bound;
    };
    void aggregates(const ast::Clause* clause) {
        std::vector<Runs> all;
        for (ast::Literal* l : clause->body) {
            Runs runs;
            ast::for_each(l, [&](Argument* a) {
                if (a->kind == Argument::Kind::Variable) runs.named.insert(a->text);
                if (a->kind != Argument::Kind::Aggregate) return;
                if (runs.begin == 0) runs.begin = a->begin;
                for (ast::Literal* part : a->body)
                    for (Argument* value : part->kind == ast::Literal::Kind::Atom ? part->atom->args : ast::List<Argument*>()) {
                        if (value->kind == Argument::Kind::Variable) runs.bound.insert(value->text);
                    }
            });
            if (!l->atom && runs.begin > 0) all.push_back(std::move(runs));
        }
        const auto needs = [](const Runs& a, const Runs& b) {
            return std::any_of(a.named.begin(), a.named.end(), [&](ast::Name name) { return !a.bound.count(name) && b.bound.count(name); });
        };
        for (const Runs& a : all)
            for (const Runs& b : all)
                if (&a != &b && needs(a, b) && needs(b, a)) {
                    report_.error(a.begin, "mutually dependent aggregates", "name the variables that an aggregate runs through apart");
                    return;
                }
    }

    void atom(ast::Atom* atom, bool in_body) {
        const RelationInfo* relation = declarations_.relation(atom);
        if (!relation) {
            report_.error(atom->begin, "undefined relation " + quote(atom->name), declarations_.similar_relation(atom->name));
        } else if (relation->arity() != atom->args.size()) {
            report_.error(atom->begin, "mismatching arity of relation " + quote(atom->name) + ": " +
                                           std::to_string(relation->arity()) + " expected, " +
                                           std::to_string(atom->args.size()) + " given");
        }
        for (Argument* a : atom->args) argument(a, in_body, in_body ? "" : "in the head of a rule");
    }

    void literal(ast::Literal* l) {
        if (l->atom) return atom(l->atom, true);
        if (!l->left) return;
        // Soufflé does not mind `_ = sum x : { ... }`, but it says nothing.
        const bool aggregate = l->left->kind == Argument::Kind::Aggregate || l->right->kind == Argument::Kind::Aggregate;
        for (Argument* side : {l->left, l->right}) argument(side, aggregate, "in a comparison");
    }

    // `unnamed_allowed`: may this argument itself be `_`? Within records and branches of a body it always may.
    void argument(Argument* a, bool unnamed_allowed, const char* where) {
        using Kind = Argument::Kind;
        switch (a->kind) {
            case Kind::Unnamed:
                if (!unnamed_allowed)
                    report_.error(a->begin, std::string("underscore ") + (*where ? where : "in the argument of a functor"),
                                  "'_' stands for any value; a value is needed here");
                return;
            case Kind::Record:
            case Kind::Branch: {
                const bool head = std::string_view(where) == "in the head of a rule";
                for (Argument* part : a->args) argument(part, !head, where);
                return;
            }
            case Kind::Iteration:
                report_.error(a->begin, std::string(a->text) + "() is not supported");
                return;
            case Kind::User:
                if (declarations_.functor(a->text) < 0)
                    report_.error(a->begin, "undefined user-defined functor " + quote(a->text), "declare it with .functor");
                break;
            case Kind::Aggregate:
                for (Argument* target : a->args) argument(target, false, "in the target of an aggregate");
                for (ast::Literal* l : a->body) literal(l);
                return;
            default: break;
        }
        for (Argument* part : a->args) argument(part, false, "in the argument of a functor");
    }

    void constant(Argument* a) {
        switch (a->kind) {
            case Argument::Kind::Variable:
                report_.error(a->begin, "argument in fact is not constant: variable " + quote(a->text),
                              "symbols are written in double quotes");
                return;
            case Argument::Kind::Counter:
                report_.error(a->begin, "argument in fact is not constant");
                return;
            default:
                for (Argument* part : a->args) constant(part);
        }
    }

    const Declarations& declarations_;
    Report& report_;
};

}  // namespace

void check_names(ast::Clause* clause, const Declarations& declarations, Report& report) {
    NameChecks(declarations, report).run(clause);
}

void check_grounded(ast::Clause* clause, const std::vector<ClauseVariable>& variables, bool head_binds, Report& report) {
    if (clause->kind == ast::Clause::Kind::Fact || variables.empty()) return;
    const auto all = [](const std::vector<bool>& v) { return std::find(v.begin(), v.end(), false) == v.end(); };
    const std::vector<bool> strictly = grounded_variables(clause, variables, head_binds);
    if (all(strictly)) return;
    // An aggregate over an unbound variable is no news besides that variable.
    std::vector<bool> grounded = grounded_variables(clause, variables, head_binds, true);
    if (all(grounded)) grounded = strictly;  // aggregates that wait for each other
    const std::size_t errors = report.error_count();
    for (std::size_t i = 0; i < variables.size(); ++i) {
        const ast::Name name = written_name(variables[i].name);
        if (grounded[i] || name.empty()) continue;
        bool in_aggregate = false;
        if (!variables[i].scope)
            for (ast::Literal* l : clause->body)
                ast::for_each(l, [&](Argument* a) {
                    for (ast::Literal* part : a->body)
                        for (Argument* inner : part->atom ? part->atom->args : ast::List<Argument*>())
                            in_aggregate |= inner->kind == Argument::Kind::Variable && inner->text == variables[i].name;
                });
        if (in_aggregate)
            report.error(variables[i].begin, "ungrounded variable " + quote(name) + " (witness problem)",
                         "it is bound within an aggregate only; of a count, sum or mean no value can be passed on");
        else
            report.error(variables[i].begin, "ungrounded variable " + quote(name),
                         "it must occur in a positive atom of the body, or be equal to something that is known");
    }
    if (report.error_count() == errors) report.error(clause->begin, "ungrounded value in this clause");
}

void check_plan(const ast::Clause* clause, Report& report) {
    if (clause->plan.empty() || clause->kind == ast::Clause::Kind::Subsumption) return;
    const auto atoms = static_cast<std::size_t>(std::count_if(clause->body.begin(), clause->body.end(), [](const ast::Literal* l) {
        return l->kind == ast::Literal::Kind::Atom;
    }));
    // "0:(1,2), 1:(2,1)": every order names every atom once.
    std::string_view rest = clause->plan;
    while (!rest.empty()) {
        const std::size_t open = rest.find('('), close = rest.find(')');
        if (open == std::string_view::npos || close == std::string_view::npos) return;
        std::vector<bool> named(atoms, false);
        std::size_t count = 0;
        for (std::size_t i = open + 1; i < close; ++i) {
            if (rest[i] < '0' || rest[i] > '9') continue;
            std::size_t number = 0;
            for (; i < close && rest[i] >= '0' && rest[i] <= '9'; ++i) number = std::min<std::size_t>(number * 10 + (rest[i] - '0'), 1u << 20);
            ++count;
            if (number >= 1 && number <= atoms) named[number - 1] = true;
        }
        if (count != atoms || std::find(named.begin(), named.end(), false) != named.end()) {
            report.error(clause->begin, "invalid execution order in .plan",
                         "an order lists the atoms of the body, 1 to " + std::to_string(atoms) + ", each once");
            return;
        }
        rest.remove_prefix(close + 1);
        if (rest.find('(') == std::string_view::npos) return;
    }
}

void warn_about_empty_relations(const ast::Program& program, const Declarations& declarations, Report& report) {
    std::unordered_set<ast::Name> filled;
    for (const ast::Clause* clause : program.clauses) filled.insert(clause->head->name);
    for (const ast::DirectiveDeclaration& d : program.directives)
        if (d.kind == Directive::Kind::Input) filled.insert(d.relation);
    for (const RelationInfo& r : declarations.relations)
        if (!filled.count(r.declaration->name))
            report.warning(r.declaration->begin, "no rules or facts are defined for relation " + quote(r.declaration->name));
}

void warn_about_variables(const ast::Clause* clause, const std::vector<ClauseVariable>& variables, Report& report) {
    if (clause->generated) return;
    for (const ClauseVariable& v : variables) {
        // The same name in another scope may be meant: `a(x) :- m = min x : { b(x) }` has a witness.
        const bool single = v.uses == 1 && std::count_if(variables.begin(), variables.end(), [&](const ClauseVariable& w) {
                                               return w.name == v.name;
                                           }) == 1;
        if (single && v.name[0] != '_')
            report.warning(v.begin, "variable " + quote(v.name) + " only occurs once", "write _ or _" + std::string(v.name));
        if (v.uses > 1 && v.name[0] == '_')
            report.warning(v.begin, "variable " + quote(v.name) + " is marked as singleton but occurs more than once");
    }
}

}  // namespace dl
