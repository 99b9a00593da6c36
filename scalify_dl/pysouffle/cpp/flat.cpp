#include "flat.hpp"

#include <algorithm>
#include <map>

namespace dl {

namespace {

// Branches of an ADT without any fields are plain numbers, as in Soufflé.
bool is_enumeration(const Type& type) {
    return std::all_of(type.branches.begin(), type.branches.end(), [](const Branch& b) { return b.fields.empty(); });
}

class Flattener {
public:
    Flattener(const CoreProgram& program, const Rule& rule, Symbols& symbols)
        : program_(program), rule_(rule), symbols_(symbols), parent_(rule.variables.size()) {
        for (std::size_t v = 0; v < parent_.size(); ++v) parent_[v] = static_cast<Register>(v);
        flat_.registers = static_cast<std::int32_t>(parent_.size());
    }

    FlatRule run() {
        depth_of_.assign(rule_.variables.size(), -1);
        for (const Term& term : rule_.head.args) note_depth(term, 0);
        for (const Literal& literal : rule_.body) note_depth(literal, 0);
        flat_.relation = rule_.head.relation;
        for (std::size_t i = 0; i < rule_.body.size(); ++i) {
            source_ = static_cast<std::int32_t>(i);
            add(rule_.body[i], flat_.body, 0);
        }
        source_ = -1;
        if (rule_.kind == Rule::Kind::Subsume) {
            // the head row is both atoms, one after the other: the dominated row goes if it is not the dominating one
            for (int i = 0; i < 2; ++i) {
                for (Register& r : nth_atom(i).args)
                    if (r == kUnnamed) r = fresh();
                flat_.head.insert(flat_.head.end(), nth_atom(i).args.begin(), nth_atom(i).args.end());
            }
        } else {
            for (const Term& term : rule_.head.args) flat_.head.push_back(reg(term, flat_.body));
        }
        for (Register& r : flat_.head) r = find(r);
        for (FlatLiteral& literal : flat_.body) resolve(literal);
        for (std::size_t v = 0; v < rule_.variables.size(); ++v) flat_.of_variable.push_back(find(static_cast<Register>(v)));
        compare_computed();
        mark_for_head();
        for (FlatLiteral& literal : flat_.body) note_outer(literal);
        return std::move(flat_);
    }

private:
    // ---- which variables are local to which nesting of aggregates (0: the rule's own body)
    void note_depth(const Term& term, int depth) {
        if (term.kind == Term::Kind::Variable) {
            int& known = depth_of_[static_cast<std::size_t>(term.variable)];
            known = known < 0 ? depth : std::min(known, depth);
        }
        for (const Term& arg : term.args) note_depth(arg, depth);
    }
    void note_depth(const Literal& literal, int depth) {
        for (const Term& arg : literal.atom.args) note_depth(arg, depth);
        if (literal.kind == Literal::Kind::Comparison) {
            note_depth(literal.left, depth);
            note_depth(literal.right, depth);
        }
        if (literal.kind == Literal::Kind::Aggregate) {
            int& known = depth_of_[static_cast<std::size_t>(literal.result)];
            known = known < 0 ? depth : std::min(known, depth);
            note_depth(literal.target, depth + 1);
            for (const Literal& inner : literal.body) note_depth(inner, depth + 1);
        }
    }

    // ---- registers that were found to be equal
    Register find(Register r) {
        if (r == kUnnamed) return r;
        if (static_cast<std::size_t>(r) >= parent_.size()) return r;
        while (parent_[static_cast<std::size_t>(r)] != r) {
            r = parent_[static_cast<std::size_t>(r)];
            if (static_cast<std::size_t>(r) >= parent_.size()) break;
        }
        return r;
    }
    bool is_variable(Register r) const { return r != kUnnamed && static_cast<std::size_t>(r) < parent_.size(); }

    FlatLiteral& nth_atom(int n) {
        for (FlatLiteral& literal : flat_.body)
            if (literal.kind == FlatLiteral::Kind::Atom && n-- == 0) return literal;
        throw EvaluationError("a subsumption rule without its two atoms");
    }

    Register fresh() { return flat_.registers++; }

    Register constant(Value value) {
        const auto [at, added] = constants_.try_emplace(value, 0);
        if (added) {
            at->second = fresh();
            flat_.constants.emplace_back(at->second, value);
        }
        return at->second;
    }

    // The register of a term; what it takes to compute it is added to `body`.
    Register reg(const Term& term, std::vector<FlatLiteral>& body) {
        switch (term.kind) {
            case Term::Kind::Variable: return find(term.variable);
            case Term::Kind::Unnamed: return kUnnamed;
            case Term::Kind::Nil: return constant(0);
            case Term::Kind::Constant:
                return constant(term.type == TypeKind::Symbol ? symbols_.intern(term.text) : term.number);
            default: break;
        }
        if (term.kind == Term::Kind::Branch && is_enumeration(type_of(term))) return constant(term.branch);
        const Register result = fresh();
        compute(term, result, body);
        return result;
    }

    const Type& type_of(const Term& term) const { return program_.types[static_cast<std::size_t>(term.type_index)]; }

    // result = term, for a record, branch or functor
    void compute(const Term& term, Register result, std::vector<FlatLiteral>& body) {
        FlatLiteral literal;
        literal.source = source_;
        literal.result = result;
        literal.type = term.type;
        literal.from = term.from;
        if (term.kind == Term::Kind::Functor) {
            literal.kind = term.op == Op::Range ? FlatLiteral::Kind::Range : FlatLiteral::Kind::Compute;
            literal.op = term.op;
            literal.functor = term.functor;
        } else {
            literal.kind = FlatLiteral::Kind::Pack;
            literal.type_index = term.type_index;
            if (term.kind == Term::Kind::Branch) literal.args.push_back(constant(term.branch));
        }
        for (const Term& arg : term.args) literal.args.push_back(reg(arg, body));
        body.push_back(std::move(literal));
    }

    static bool is_compound(const Term& term) {
        return term.kind == Term::Kind::Functor || term.kind == Term::Kind::Record || term.kind == Term::Kind::Branch;
    }

    void add(const Literal& literal, std::vector<FlatLiteral>& body, int depth) {
        switch (literal.kind) {
            case Literal::Kind::Atom: body.push_back(atom(literal.atom, body)); return;
            case Literal::Kind::Negation: {
                FlatLiteral negation;
                negation.kind = FlatLiteral::Kind::Negation;
                negation.source = source_;
                // what the arguments compute from bound values is computed outside, patterns with `_` are matched inside
                std::vector<FlatLiteral> inner;
                inner.push_back(atom(literal.atom, inner));
                for (FlatLiteral& l : inner) {
                    const bool outside = l.kind == FlatLiteral::Kind::Compute ||
                                         (l.kind == FlatLiteral::Kind::Pack && !has_unnamed(l, inner));
                    (outside ? body : negation.body).push_back(std::move(l));
                }
                body.push_back(std::move(negation));
                return;
            }
            case Literal::Kind::Comparison: add_comparison(literal, body, depth); return;
            case Literal::Kind::Aggregate: {
                FlatLiteral aggregate;
                aggregate.kind = FlatLiteral::Kind::Aggregate;
                aggregate.source = source_;
                aggregate.aggregate = literal.aggregate;
                aggregate.type = literal.type;
                aggregate.from = literal.target.type;
                aggregate.result = literal.result;
                for (const Literal& inner : literal.body) add(inner, aggregate.body, depth + 1);
                if (literal.aggregate != Aggregate::Count) aggregate.target = reg(literal.target, aggregate.body);
                body.push_back(std::move(aggregate));
                return;
            }
        }
    }

    static bool has_unnamed(const FlatLiteral& pack, const std::vector<FlatLiteral>& others) {
        for (const Register r : pack.args) {
            if (r == kUnnamed) return true;
            for (const FlatLiteral& l : others)
                if (l.kind == FlatLiteral::Kind::Pack && l.result == r && has_unnamed(l, others)) return true;
        }
        return false;
    }

    FlatLiteral atom(const Atom& source, std::vector<FlatLiteral>& body) {
        FlatLiteral literal;
        literal.kind = FlatLiteral::Kind::Atom;
        literal.source = source_;
        literal.relation = source.relation;
        for (const Term& arg : source.args) literal.args.push_back(reg(arg, body));
        return literal;
    }

    // May `r` be renamed to another register in a body of this depth? Only what is local to it.
    bool renamable(Register r, int depth) const {
        return is_variable(r) && parent_[static_cast<std::size_t>(r)] == r && depth_of_[static_cast<std::size_t>(r)] >= depth;
    }

    void add_comparison(const Literal& literal, std::vector<FlatLiteral>& body, int depth) {
        if (literal.compare == Compare::True) return;
        if (literal.compare == Compare::Equal) {
            const Term *left = &literal.left, *right = &literal.right;
            if (is_compound(*left) && !is_compound(*right)) std::swap(left, right);
            const bool is_enum = right->kind == Term::Kind::Branch && is_enumeration(type_of(*right));
            if (is_compound(*right) && !is_enum && left->kind != Term::Kind::Unnamed) {
                compute(*right, reg(*left, body), body);
                return;
            }
            if (!is_compound(*left) && (!is_compound(*right) || is_enum)) {
                const Register l = reg(*left, body), r = reg(*right, body);
                if (l == r) return;
                if (renamable(l, depth)) {
                    parent_[static_cast<std::size_t>(l)] = r;
                    return;
                }
                if (renamable(r, depth)) {
                    parent_[static_cast<std::size_t>(r)] = l;
                    return;
                }
            }
        }
        FlatLiteral compare;
        compare.kind = FlatLiteral::Kind::Compare;
        compare.source = source_;
        compare.compare = literal.compare;
        compare.type = literal.type;
        compare.type_index = type_index_of(literal.left.kind == Term::Kind::Unnamed ? literal.right : literal.left);
        if (literal.compare != Compare::False) {
            compare.left = reg(literal.left, body);
            compare.right = reg(literal.right, body);
        }
        body.push_back(std::move(compare));
    }

    TypeIndex type_index_of(const Term& term) const {
        if (term.kind == Term::Kind::Variable) return rule_.variables[static_cast<std::size_t>(term.variable)].type;
        if (term.type >= TypeKind::Record) return term.type_index;
        return term.type == TypeKind::Symbol ? kSymbol : term.type == TypeKind::Float ? kFloat : term.type == TypeKind::Unsigned ? kUnsigned : kNumber;
    }

    void resolve(FlatLiteral& literal) {
        for (Register& r : literal.args) r = find(r);
        for (Register* r : {&literal.result, &literal.target, &literal.left, &literal.right}) *r = find(*r);
        for (FlatLiteral& inner : literal.body) resolve(inner);
    }

    // A computed float that must equal what something else binds is compared, which NaN fails: a plan may only find it.
    void compare_computed() {
        std::vector<int> binders(static_cast<std::size_t>(flat_.registers), 0);
        for (const FlatLiteral& literal : flat_.body) count_binders(literal, binders);
        compare_computed(flat_.body, binders);
    }
    static void count_binders(const FlatLiteral& literal, std::vector<int>& binders) {
        const auto count = [&](Register r) {
            if (r != kUnnamed) ++binders[static_cast<std::size_t>(r)];
        };
        if (literal.kind != FlatLiteral::Kind::Compare) count(literal.result);
        if (literal.kind == FlatLiteral::Kind::Atom || literal.kind == FlatLiteral::Kind::Pack) std::for_each(literal.args.begin(), literal.args.end(), count);
        if (literal.kind != FlatLiteral::Kind::Negation)
            for (const FlatLiteral& inner : literal.body) count_binders(inner, binders);
    }
    static void compare_computed(std::vector<FlatLiteral>& body, const std::vector<int>& binders) {
        for (std::size_t i = 0; i < body.size(); ++i) {  // grows
            compare_computed(body[i].body, binders);
            const FlatLiteral& literal = body[i];
            const bool aggregate = literal.kind == FlatLiteral::Kind::Aggregate;
            if (literal.type != TypeKind::Float || (!aggregate && literal.kind != FlatLiteral::Kind::Compute) || binders[static_cast<std::size_t>(literal.result)] < 2) continue;
            FlatLiteral compare;
            compare.kind = FlatLiteral::Kind::Compare;
            compare.source = literal.source;
            compare.compare = Compare::Equal;
            compare.type = TypeKind::Float;
            compare.type_index = kFloat;
            compare.left = compare.right = literal.result;
            body.push_back(std::move(compare));
        }
    }

    // What is computed for the head only is computed last, once per derived row.
    void mark_for_head() {
        std::vector<int> uses(static_cast<std::size_t>(flat_.registers), 0);
        for (const FlatLiteral& literal : flat_.body)
            for_each_register(literal, [&](Register r) { ++uses[static_cast<std::size_t>(r)]; });
        bool changed = true;
        while (changed) {
            changed = false;
            for (FlatLiteral& literal : flat_.body) {
                const bool computes = literal.kind == FlatLiteral::Kind::Compute || literal.kind == FlatLiteral::Kind::Pack;
                if (!computes || literal.for_head || uses[static_cast<std::size_t>(literal.result)] != 1) continue;
                const bool constant = std::any_of(flat_.constants.begin(), flat_.constants.end(),
                                                  [&](const auto& c) { return c.first == literal.result; });
                if (constant) continue;
                const bool complete = std::find(literal.args.begin(), literal.args.end(), kUnnamed) == literal.args.end();
                const bool wanted = std::find(flat_.head.begin(), flat_.head.end(), literal.result) != flat_.head.end() ||
                                    feeds_head(literal.result);
                if (!complete || !wanted || !bound_elsewhere(literal)) continue;
                literal.for_head = true;
                for (const Register r : literal.args) --uses[static_cast<std::size_t>(r)];
                // its own arguments, if computed, may now be for the head as well
                for (const Register r : literal.args) feeds_.push_back(r);
                changed = true;
            }
        }
    }
    bool feeds_head(Register r) const { return std::find(feeds_.begin(), feeds_.end(), r) != feeds_.end(); }

    // Every argument can be bound without this literal (it is not a pattern that binds its arguments).
    bool bound_elsewhere(const FlatLiteral& literal) const {
        if (literal.kind == FlatLiteral::Kind::Compute) return true;
        for (const Register r : literal.args) {
            bool found = std::any_of(flat_.constants.begin(), flat_.constants.end(), [&](const auto& c) { return c.first == r; });
            for (const FlatLiteral& other : flat_.body) {
                if (&other == &literal || found) continue;
                found = other.result == r ||
                        ((other.kind == FlatLiteral::Kind::Atom || other.kind == FlatLiteral::Kind::Pack) &&
                         std::find(other.args.begin(), other.args.end(), r) != other.args.end());
            }
            if (!found) return false;
        }
        return true;
    }

    // Registers of a nested body that the enclosing body binds: those it uses elsewhere, those the head uses.
    void note_outer(FlatLiteral& literal) {
        if (literal.body.empty()) return;
        if (outside_.empty()) {
            outside_.assign(static_cast<std::size_t>(flat_.registers), 0);
            for (const Register r : flat_.head) outside_[static_cast<std::size_t>(r)] += 1;
            for (const auto& c : flat_.constants) outside_[static_cast<std::size_t>(c.first)] += 1;
            for (const FlatLiteral& l : flat_.body) count_uses(l);
        }
        // uses inside this literal against all uses
        std::vector<int> inside(static_cast<std::size_t>(flat_.registers), 0);
        const auto count = [&](Register r) { ++inside[static_cast<std::size_t>(r)]; };
        for (const FlatLiteral& inner : literal.body) for_each_register(inner, count);
        if (literal.target != kUnnamed) count(literal.target);
        for (Register r = 0; r < flat_.registers; ++r)
            if (inside[static_cast<std::size_t>(r)] > 0 && outside_[static_cast<std::size_t>(r)] > inside[static_cast<std::size_t>(r)])
                literal.outer.push_back(r);
        for (const Register r : literal.outer)
            literal.outer_count += std::none_of(flat_.constants.begin(), flat_.constants.end(), [&](const auto& c) { return c.first == r; });
        for (FlatLiteral& inner : literal.body) note_outer(inner);
    }
    void count_uses(const FlatLiteral& literal) {
        for_each_register(literal, [&](Register r) { ++outside_[static_cast<std::size_t>(r)]; });
    }

    const CoreProgram& program_;
    const Rule& rule_;
    Symbols& symbols_;
    FlatRule flat_;
    std::vector<Register> parent_;  // of variables only
    std::vector<int> depth_of_;
    std::map<Value, Register> constants_;
    std::vector<Register> feeds_;
    std::vector<int> outside_;
    std::int32_t source_ = -1;
};

}  // namespace

FlatRule flatten(const CoreProgram& program, const Rule& rule, Symbols& symbols) {
    return Flattener(program, rule, symbols).run();
}

}  // namespace dl
