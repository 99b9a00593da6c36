#include "witnesses.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "grounding.hpp"

namespace dl {

using ast::Argument;

namespace {

// Aggregates at any depth, outer ones first.
std::vector<Argument*> aggregates_of(ast::Clause* clause) {
    std::vector<Argument*> result;
    const auto visit = [&](Argument* a) {
        if (a->kind == Argument::Kind::Aggregate) result.push_back(a);
    };
    ast::for_each(clause->head, visit);
    for (ast::Literal* l : clause->body) ast::for_each(l, visit);
    return result;
}

// Does the aggregate use only variables of the clause and its own? Else it cannot be repeated outside those around it.
bool movable(Argument* aggregate, const std::vector<ClauseVariable>& variables) {
    std::unordered_set<const Argument*> own;
    ast::for_each(aggregate, [&](Argument* a) { own.insert(a); });
    bool result = true;
    ast::for_each(aggregate, [&](Argument* a) {
        if (a->kind != Argument::Kind::Variable) return;
        const Argument* scope = variables[a->id].scope;
        result = result && (!scope || own.count(scope));
    });
    return result;
}

// Names that a positive atom or `=` of the aggregate's own body may bind.
std::unordered_set<ast::Name> names_in_body(const Argument* aggregate) {
    std::unordered_set<ast::Name> result;
    for_each_in_scope(aggregate->body, [&](Argument* a) {
        if (a->kind == Argument::Kind::Variable) result.insert(a->text);
    });
    return result;
}

template <class Root>
void rename(Root* root, const std::unordered_map<ast::Name, ast::Name>& names) {
    ast::for_each(root, [&](Argument* a) {
        if (a->kind != Argument::Kind::Variable) return;
        if (auto found = names.find(a->text); found != names.end()) a->text = found->second;
    });
}

}  // namespace

void export_witnesses(ast::Clause* clause, std::vector<ClauseVariable>& variables, bool head_binds, ast::Arena& arena) {
    if (clause->kind == ast::Clause::Kind::Fact) return;
    const std::vector<Argument*> aggregates = aggregates_of(clause);
    const bool extremum = std::any_of(aggregates.begin(), aggregates.end(), [](const Argument* a) {
        return a->aggregate == dl::Aggregate::Min || a->aggregate == dl::Aggregate::Max;
    });
    if (!extremum) return;

    const std::vector<bool> grounded = grounded_variables(clause, variables, head_binds);
    std::unordered_set<ast::Name> wanted;  // used outside aggregates, bound by nothing there
    for (std::size_t i = 0; i < variables.size(); ++i)
        if (!variables[i].scope && !grounded[i]) wanted.insert(variables[i].name);
    if (wanted.empty()) return;

    int count = 0;
    std::vector<ast::Literal*> added;
    for (Argument* a : aggregates) {
        if (a->kind != Argument::Kind::Aggregate || !movable(a, variables)) continue;
        if (a->aggregate != dl::Aggregate::Min && a->aggregate != dl::Aggregate::Max) continue;
        const std::unordered_set<ast::Name> bound = names_in_body(a);
        if (std::none_of(bound.begin(), bound.end(), [&](ast::Name n) { return wanted.count(n); })) continue;

        // Outside, the witnesses keep their names and everything local to the aggregate gets a new one.
        // Inside, the witnesses become local.
        std::unordered_map<ast::Name, ast::Name> inside, outside;
        const auto fresh = [&](ast::Name name, int number, const char* side) {
            std::string result = "@";
            result.append(name).append("@").append(side).append(std::to_string(number));
            return arena.keep(result);
        };
        ast::for_each(a, [&](Argument* v) {
            if (v->kind != Argument::Kind::Variable) return;
            if (wanted.count(v->text)) inside[v->text] = fresh(v->text, count, "i");
            else if (variables[v->id].scope) outside[v->text] = fresh(v->text, count, "o");
        });
        const auto copy = [&](const auto* part) {
            auto* result = arena.copy(part);
            rename(result, outside);
            return result;
        };
        for (const ast::Literal* l : a->body) added.push_back(copy(l));
        ast::Literal* attained = arena.make<ast::Literal>();
        attained->kind = ast::Literal::Kind::Comparison;
        attained->compare = Compare::Equal;
        attained->begin = a->begin;
        attained->left = copy(a->args[0]);
        // The aggregate moves into an equation of its own; where it stood, a variable stands for its value.
        Argument* value = arena.make<Argument>();
        *value = Argument(*a);
        rename(value, inside);
        const ast::Name result = arena.keep(std::string("@").append(std::to_string(count++)));
        attained->right = arena.variable(result, a->begin);
        added.push_back(attained);
        ast::Literal* definition = arena.make<ast::Literal>();
        definition->kind = ast::Literal::Kind::Comparison;
        definition->compare = Compare::Equal;
        definition->begin = a->begin;
        definition->left = arena.variable(result, a->begin);
        definition->right = value;
        added.push_back(definition);
        a->kind = Argument::Kind::Variable;
        a->text = result;
        a->args.clear();
        a->body.clear();
    }
    clause->body.insert(clause->body.end(), added.begin(), added.end());
    variables = resolve_variables(clause);
}

}  // namespace dl
