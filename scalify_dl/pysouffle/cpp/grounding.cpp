#include "grounding.hpp"

#include <algorithm>

namespace dl {

using ast::Argument;

namespace {

// One scope at a time: the clause, then the aggregates in it, then those within these. A scope binds its own variables
// only, and sees what the scopes around it have bound.
class Grounding {
public:
    Grounding(const std::vector<ClauseVariable>& variables, bool aggregates_known)
        : variables_(variables), aggregates_known_(aggregates_known), grounded_(variables.size(), false) {}

    void bind_head(ast::Atom* head) {
        for (Argument* a : head->args) bind(a, nullptr);
    }

    void scope(const ast::List<ast::Literal*>& body, const std::vector<Argument*>& others, Argument* aggregate) {
        std::vector<const ast::Literal*> equations;
        for (const ast::Literal* l : body) {
            if (l->kind == ast::Literal::Kind::Atom)
                for (Argument* a : l->atom->args) bind(a, aggregate);
            else if (l->kind == ast::Literal::Kind::Comparison && l->compare == Compare::Equal)
                equations.push_back(l);
        }
        if (!equations.empty()) follow(equations, aggregate);

        std::vector<Argument*> inner;
        const auto collect = [&](Argument* a) {
            if (a->kind == Argument::Kind::Aggregate) inner.push_back(a);
        };
        for (Argument* a : others) for_each_in_scope(a, collect);
        for_each_in_scope(body, collect);
        for (Argument* a : inner) scope(a->body, {a->args.begin(), a->args.end()}, a);
    }

    std::vector<bool> result() { return std::move(grounded_); }

private:
    // Every equation is looked at again when one of its variables gets bound.
    void follow(const std::vector<const ast::Literal*>& equations, Argument* aggregate) {
        uses_.assign(variables_.size(), {});
        open_.clear();
        for (const ast::Literal* l : equations) {
            open_.push_back(l);
            for (Argument* side : {l->left, l->right})
                ast::for_each(side, [&](Argument* a) {
                    if (a->kind == Argument::Kind::Variable && !grounded_[a->id]) uses_[a->id].push_back(l);
                });
        }
        while (!open_.empty()) {
            const ast::Literal* l = open_.back();
            open_.pop_back();
            if (is_grounded(l->left)) bind(l->right, aggregate);
            if (is_grounded(l->right)) bind(l->left, aggregate);
        }
        uses_.clear();
    }

    bool is_grounded(Argument* a) const {
        switch (a->kind) {
            case Argument::Kind::Variable: return grounded_[a->id];
            case Argument::Kind::Unnamed: return false;
            case Argument::Kind::Aggregate: return aggregates_known_ || has_all_injected(a);
            default: return std::all_of(a->args.begin(), a->args.end(), [&](Argument* part) { return is_grounded(part); });
        }
    }

    // The value of an aggregate is known once everything that it takes from around it is bound.
    bool has_all_injected(Argument* aggregate) const {
        std::vector<const Argument*> within;
        ast::for_each(aggregate, [&](Argument* a) {
            if (a->kind == Argument::Kind::Aggregate) within.push_back(a);
        });
        bool result = true;
        ast::for_each(aggregate, [&](Argument* a) {
            if (a->kind != Argument::Kind::Variable || !result) return;
            const bool local = std::find(within.begin(), within.end(), variables_[a->id].scope) != within.end();
            result = local || grounded_[a->id];
        });
        return result;
    }

    void bind(Argument* a, Argument* aggregate) {
        switch (a->kind) {
            case Argument::Kind::Variable:
                if (grounded_[a->id] || variables_[a->id].scope != aggregate) return;
                grounded_[a->id] = true;
                if (!uses_.empty()) open_.insert(open_.end(), uses_[a->id].begin(), uses_[a->id].end());
                return;
            case Argument::Kind::Record:
            case Argument::Kind::Branch:
                for (Argument* part : a->args) bind(part, aggregate);
                return;
            case Argument::Kind::Cast:  // as([x, y], T) is a pattern like [x, y]
                if (a->args[0]->kind == Argument::Kind::Record) bind(a->args[0], aggregate);
                return;
            default: return;
        }
    }

    const std::vector<ClauseVariable>& variables_;
    const bool aggregates_known_;
    std::vector<bool> grounded_;
    std::vector<std::vector<const ast::Literal*>> uses_;  // while equations are followed: those of every variable
    std::vector<const ast::Literal*> open_;
};

}  // namespace

std::vector<bool> grounded_variables(ast::Clause* clause, const std::vector<ClauseVariable>& variables, bool head_binds,
                                     bool aggregates_known) {
    Grounding grounding(variables, aggregates_known);
    if (head_binds) grounding.bind_head(clause->head);
    grounding.scope(clause->body, {clause->head->args.begin(), clause->head->args.end()}, nullptr);
    return grounding.result();
}

}  // namespace dl
