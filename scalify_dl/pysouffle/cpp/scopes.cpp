#include "scopes.hpp"

#include <algorithm>
#include <unordered_map>

namespace dl {

using ast::Argument;

namespace {

class Resolver {
public:
    std::vector<ClauseVariable> run(ast::Clause* clause) {
        Scope scope;
        std::vector<Argument*> inner;
        const auto visit = [&](Argument* a) { occurrence(a, scope, inner); };
        for (Argument* argument : clause->head->args) for_each_in_scope(argument, visit);
        for_each_in_scope(clause->body, visit);
        for (Argument* a : inner) aggregate(a, scope);
        return std::move(variables_);
    }

private:
    struct Scope {
        const Scope* parent = nullptr;
        Argument* aggregate = nullptr;
        std::vector<std::int32_t> own;
        std::unordered_map<ast::Name, std::int32_t> table;  // of `own`, once a search would take long

        std::int32_t find_own(const std::vector<ClauseVariable>& variables, ast::Name name) const {
            if (!table.empty()) {
                auto found = table.find(name);
                return found == table.end() ? -1 : found->second;
            }
            for (std::int32_t id : own)
                if (variables[id].name == name) return id;
            return -1;
        }
        void add(const std::vector<ClauseVariable>& variables, std::int32_t id) {
            own.push_back(id);
            if (own.size() == 30)
                for (std::int32_t i : own) table.emplace(variables[i].name, i);
            else if (own.size() > 30) table.emplace(variables[id].name, id);
        }
    };

    std::int32_t lookup(const Scope* scope, ast::Name name) const {
        for (; scope; scope = scope->parent)
            if (std::int32_t id = scope->find_own(variables_, name); id >= 0) return id;
        return -1;
    }

    std::int32_t add(Scope& scope, const Argument* a) {
        const auto id = static_cast<std::int32_t>(variables_.size());
        variables_.push_back({a->text, a->begin, 0, scope.aggregate});
        scope.add(variables_, id);
        return id;
    }

    void occurrence(Argument* a, Scope& scope, std::vector<Argument*>& inner) {
        a->id = -1;
        if (a->kind == Argument::Kind::Aggregate) inner.push_back(a);
        if (a->kind != Argument::Kind::Variable) return;
        std::int32_t id = lookup(&scope, a->text);
        if (id < 0) id = add(scope, a);
        a->id = id;
        variables_[id].uses++;
    }

    void aggregate(Argument* aggregate, const Scope& outer) {
        Scope scope{&outer, aggregate, {}, {}};
        if (!aggregate->args.empty()) shadow_target(aggregate, scope);
        std::vector<Argument*> inner;
        const auto visit = [&](Argument* a) { occurrence(a, scope, inner); };
        for (Argument* target : aggregate->args) for_each_in_scope(target, visit);
        for_each_in_scope(aggregate->body, visit);
        for (Argument* a : inner) this->aggregate(a, scope);
    }

    // Names of the target that the body mentions are new variables.
    void shadow_target(Argument* aggregate, Scope& scope) {
        for_each_in_scope(aggregate->args[0], [&](Argument* target) {
            if (target->kind != Argument::Kind::Variable || scope.find_own(variables_, target->text) >= 0) return;
            bool in_body = false;
            for_each_in_scope(aggregate->body, [&](Argument* a) {
                in_body |= a->kind == Argument::Kind::Variable && a->text == target->text;
            });
            if (in_body) add(scope, target);
        });
    }

    std::vector<ClauseVariable> variables_;
};

}  // namespace

ast::Name written_name(ast::Name name) {
    if (!name.empty() && name[0] == '@') {
        name.remove_prefix(1);
        if (name.find('@') == ast::Name::npos) return {};
    }
    return name.substr(0, name.find_first_of("@#"));
}

std::vector<ClauseVariable> resolve_variables(ast::Clause* clause) { return Resolver().run(clause); }

}  // namespace dl
