#include "grounding.hpp"

#include <algorithm>

namespace dl {

using ast::Argument;

namespace {

class Grounding {
public:
    explicit Grounding(std::size_t variables) : grounded_(variables, false) {}

    std::vector<bool> run(ast::Clause* clause, bool head_binds) {
        if (head_binds)
            for (Argument* a : clause->head->args) bind(a);
        collect(clause->body);
        for (changed_ = true; changed_;) {
            changed_ = false;
            for (const Equality& e : equalities_) {
                if (is_grounded(e.left)) bind(e.right);
                if (is_grounded(e.right)) bind(e.left);
            }
        }
        return std::move(grounded_);
    }

private:
    struct Equality {
        Argument *left, *right;
    };

    // Atoms bind at once; equalities, also those within aggregates, are followed until nothing changes. The body of an
    // aggregate sees what is bound around it, but binds only what is local to it: other names there are not its own.
    void collect(const ast::List<ast::Literal*>& body) {
        for (ast::Literal* l : body) {
            if (l->kind == ast::Literal::Kind::Atom)
                for (Argument* a : l->atom->args) bind(a);
            if (l->kind == ast::Literal::Kind::Comparison && l->compare == Compare::Equal)
                equalities_.push_back({l->left, l->right});
        }
    }

public:
    // Binds the local variables of an aggregate, given what is bound outside.
    void aggregate(Argument* aggregate, const std::vector<ClauseVariable>& variables, std::vector<bool>& grounded) {
        grounded_ = std::move(grounded);
        owner_ = aggregate;
        variables_ = &variables;
        collect(aggregate->body);
        for (changed_ = true; changed_;) {
            changed_ = false;
            for (const Equality& e : equalities_) {
                if (is_grounded(e.left)) bind(e.right);
                if (is_grounded(e.right)) bind(e.left);
            }
        }
        grounded = std::move(grounded_);
    }

private:
    bool is_grounded(Argument* a) const {
        switch (a->kind) {
            case Argument::Kind::Variable: return grounded_[a->id];
            case Argument::Kind::Unnamed: return false;
            case Argument::Kind::Aggregate: return injected_grounded(a, a);
            default: return std::all_of(a->args.begin(), a->args.end(), [&](Argument* p) { return is_grounded(p); });
        }
    }

    // The value of an aggregate is known once every variable that it takes from outside is bound.
    bool injected_grounded(Argument* aggregate, Argument* top) const {
        bool result = true;
        ast::for_each(top, [&](Argument* a) {
            if (a->kind == Argument::Kind::Variable && is_outside(a, aggregate)) result = result && grounded_[a->id];
        });
        return result;
    }
    bool is_outside(const Argument* variable, const Argument* aggregate) const {
        return !local_to(variable, aggregate);
    }
    bool local_to(const Argument* variable, const Argument* aggregate) const {
        const Argument* scope = scopes_ ? (*scopes_)[variable->id].scope : nullptr;
        if (!scope) return false;
        if (scope == aggregate) return true;
        bool nested = false;  // local to an aggregate within this one
        ast::for_each(const_cast<Argument*>(aggregate), [&](Argument* a) { nested |= a == scope; });
        return nested;
    }

    void bind(Argument* a) {
        switch (a->kind) {
            case Argument::Kind::Variable:
                if (grounded_[a->id]) return;
                if (owner_ && (*variables_)[a->id].scope != owner_) return;
                grounded_[a->id] = true;
                changed_ = true;
                return;
            case Argument::Kind::Record:
            case Argument::Kind::Branch:
                for (Argument* part : a->args) bind(part);
                return;
            default: return;
        }
    }

public:
    const std::vector<ClauseVariable>* scopes_ = nullptr;

private:
    std::vector<bool> grounded_;
    std::vector<Equality> equalities_;
    Argument* owner_ = nullptr;
    const std::vector<ClauseVariable>* variables_ = nullptr;
    bool changed_ = false;
};

// Aggregates of one scope, then those within each.
void ground_aggregates(const std::vector<Argument*>& aggregates, const std::vector<ClauseVariable>& variables,
                       std::vector<bool>& grounded) {
    for (Argument* aggregate : aggregates) {
        Grounding inner(variables.size());
        inner.scopes_ = &variables;
        inner.aggregate(aggregate, variables, grounded);
        std::vector<Argument*> nested;
        const auto visit = [&](Argument* a) {
            if (a->kind == Argument::Kind::Aggregate) nested.push_back(a);
        };
        for (Argument* target : aggregate->args) for_each_in_scope(target, visit);
        for_each_in_scope(aggregate->body, visit);
        ground_aggregates(nested, variables, grounded);
    }
}

}  // namespace

std::vector<bool> grounded_variables(ast::Clause* clause, const std::vector<ClauseVariable>& variables, bool head_binds) {
    Grounding outer(variables.size());
    outer.scopes_ = &variables;
    std::vector<bool> grounded = outer.run(clause, head_binds);
    std::vector<Argument*> aggregates;
    const auto visit = [&](Argument* a) {
        if (a->kind == Argument::Kind::Aggregate) aggregates.push_back(a);
    };
    for (Argument* a : clause->head->args) for_each_in_scope(a, visit);
    for_each_in_scope(clause->body, visit);
    if (!aggregates.empty()) ground_aggregates(aggregates, variables, grounded);
    return grounded;
}

}  // namespace dl
