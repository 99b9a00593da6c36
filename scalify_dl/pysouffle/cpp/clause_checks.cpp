#include "clause_checks.hpp"

#include <algorithm>

#include "grounding.hpp"

namespace dl {

using ast::Argument;

namespace {

std::string quote(ast::Name name) { return "'" + std::string(name) + "'"; }

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
    }

private:
    void atom(ast::Atom* atom, bool in_body) {
        const RelationInfo* relation = declarations_.relation(atom->name);
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
                report_.error(a->begin, "__ITERATION__() is not supported");
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
    const std::vector<bool> grounded = grounded_variables(clause, variables, head_binds);
    for (std::size_t i = 0; i < variables.size(); ++i) {
        if (grounded[i]) continue;
        bool in_aggregate = false;
        if (!variables[i].scope)
            for (ast::Literal* l : clause->body)
                ast::for_each(l, [&](Argument* a) {
                    for (ast::Literal* part : a->body)
                        for (Argument* inner : part->atom ? part->atom->args : ast::List<Argument*>())
                            in_aggregate |= inner->kind == Argument::Kind::Variable && inner->text == variables[i].name;
                });
        if (in_aggregate)
            report.error(variables[i].begin, "ungrounded variable " + quote(variables[i].name) + " (witness problem)",
                         "it is bound within an aggregate only; of a count, sum or mean no value can be passed on");
        else
            report.error(variables[i].begin, "ungrounded variable " + quote(variables[i].name),
                         "it must occur in a positive atom of the body, or be equal to something that is known");
    }
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
