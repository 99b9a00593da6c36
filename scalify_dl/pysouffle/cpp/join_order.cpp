#include "join_order.hpp"

#include <algorithm>
#include <limits>

namespace dl {

namespace {

using Kind = FlatLiteral::Kind;

bool partial(const FlatLiteral& literal) {  // may fail: only when everything cheaper has passed
    switch (literal.op) {
        case Op::Div: case Op::Mod: case Op::Exp: case Op::User: case Op::AutoInc: return true;
        case Op::Convert: return literal.from == TypeKind::Symbol;
        default: return false;
    }
}

}  // namespace

bool all_bound(const std::vector<Register>& registers, const std::vector<char>& bound) {
    return std::all_of(registers.begin(), registers.end(), [&](Register r) { return is_bound(r, bound); });
}

void bind(const FlatLiteral& literal, std::vector<char>& bound) {
    if (literal.kind == Kind::Atom || literal.kind == Kind::Pack)
        for (const Register r : literal.args)
            if (r != kUnnamed) bound[static_cast<std::size_t>(r)] = 1;
    if (literal.result != kUnnamed) bound[static_cast<std::size_t>(literal.result)] = 1;
}

std::vector<char> given_registers(const PlanRequest& request) {
    std::vector<char> bound(static_cast<std::size_t>(request.rule.registers), 0);
    for (const auto& constant : request.rule.constants) bound[static_cast<std::size_t>(constant.first)] = 1;
    for (const Register r : request.bound) bound[static_cast<std::size_t>(r)] = 1;
    return bound;
}

JoinOrder::Order JoinOrder::choose(const std::vector<FlatLiteral>& body, const std::vector<char>& bound, int delta) {
    Order order = greedy(body, bound, delta, std::numeric_limits<double>::max());
    if (delta < 0) {
        int atoms = 0;
        double most = 0;
        for (const FlatLiteral& l : body)
            if (l.kind == Kind::Atom) ++atoms, most = std::max(most, static_cast<double>(data(l).rows()));
        if (atoms > 1 && most > 64) {
            for (std::size_t i = 0; i < body.size(); ++i) {
                if (body[i].kind != Kind::Atom) continue;
                Order other = greedy(body, bound, static_cast<int>(i), order.cost);
                if (other.cost < order.cost * 0.999) order = std::move(other);
            }
        }
    }
    if (order.cost == std::numeric_limits<double>::max() && !body.empty())
        throw EvaluationError("no order of this body grounds all its variables");
    return order;
}

// ---- when can a literal that is no atom run? Smaller is sooner; 0: not yet.
int JoinOrder::readiness(const FlatLiteral& l, const std::vector<char>& bound) const {
    switch (l.kind) {
        case Kind::Compare:
            if (l.compare == Compare::False) return 1;
            return is_bound(l.left, bound) && is_bound(l.right, bound) ? 1 : 0;
        case Kind::Pack:
            if (is_bound(l.result, bound)) return 2;
            return all_bound(l.args, bound) ? 4 : 0;
        case Kind::Compute:
            if (!all_bound(l.args, bound)) return 0;
            return partial(l) ? 6 : 3;
        case Kind::Negation: return all_bound(l.outer, bound) ? 5 : 0;
        case Kind::Aggregate: return l.outer_count == 0 ? 4 : 0;
        case Kind::Range: return is_bound(l.result, bound) && all_bound(l.args, bound) ? 2 : 0;
        case Kind::Atom: return 0;
    }
    return 0;
}

// ---- expected rows per entry of a literal that searches; negative: it cannot run yet
double JoinOrder::fanout(const FlatLiteral& l, const std::vector<char>& bound) {
    if (l.kind == Kind::Range) return all_bound(l.args, bound) ? 10.0 : -1;
    if (l.kind == Kind::Aggregate) return all_bound(l.outer, bound) ? 1.01 : -1;
    RelationData& relation = data(l);
    if (relation.eqrel) {
        const double pairs = static_cast<double>(std::max<std::size_t>(relation.eqrel->pairs(), 1));
        const double each = pairs / static_cast<double>(std::max<std::size_t>(relation.eqrel->elements(), 1));
        const int known = is_bound(l.args[0], bound) + is_bound(l.args[1], bound);
        return known == 2 ? 0.5 : known == 1 ? each : pairs;
    }
    std::uint64_t mask = 0;
    bool complete = true;
    for (std::size_t i = 0; i < l.args.size(); ++i) {
        if (is_bound(l.args[i], bound)) {
            if (i < 64) mask |= std::uint64_t{1} << i;
        } else {
            complete = false;
        }
    }
    if (complete) return 0.5;
    if (request_.empty_is_unknown && relation.table.visible == 0) {
        double rows = 1e6;
        for (const Register r : l.args) rows /= is_bound(r, bound) ? 1e3 : 1;
        return std::max(rows, 1.0);
    }
    const double rows = std::max<double>(relation.table.visible, 1);
    if (mask == 0) return rows;
    return rows / std::max(1.0, std::min(rows, relation.table.distinct(mask)));
}

// The literal that searches least, or -1. Ties go to the one with more columns bound, then by relation: the order in which
// a body is written should not matter.
int JoinOrder::cheapest(const std::vector<FlatLiteral>& body, const std::vector<char>& done, const std::vector<char>& bound, double& best_cost) {
    int best = -1;
    best_cost = std::numeric_limits<double>::max();
    int best_bound = 0;
    for (std::size_t i = 0; i < body.size(); ++i) {
        if (done[i] || for_later(body[i])) continue;
        const Kind kind = body[i].kind;
        if (kind != Kind::Atom && kind != Kind::Range && kind != Kind::Aggregate) continue;
        const double cost = fanout(body[i], bound);
        if (cost < 0) continue;
        int known = 0;
        for (const Register r : body[i].args) known += is_bound(r, bound);
        const bool better = cost < best_cost * 0.999 ||
                            (cost <= best_cost * 1.001 &&
                             (known > best_bound || (known == best_bound && best >= 0 && body[i].relation < body[static_cast<std::size_t>(best)].relation)));
        if (best < 0 || better) best = static_cast<int>(i), best_cost = cost, best_bound = known;
    }
    return best;
}

JoinOrder::Order JoinOrder::greedy(const std::vector<FlatLiteral>& body, std::vector<char> bound, int first, double give_up) {
    Order order;
    std::vector<char> done(body.size(), 0);
    double rows = 1;
    const auto take = [&](int at, double factor) {
        done[static_cast<std::size_t>(at)] = 1;
        order.items.emplace_back(at, factor);
        rows *= factor;
        order.cost += rows;
        bind(body[static_cast<std::size_t>(at)], bound);
    };
    std::size_t left = body.size();
    for (std::size_t i = 0; i < body.size(); ++i) {
        // a counter's value that is given was once counted: nothing to check
        if (body[i].kind != Kind::Compute || body[i].op != Op::AutoInc || !is_bound(body[i].result, bound)) continue;
        done[i] = 1;
        --left;
    }
    const auto run_ready = [&]() {
        for (;;) {
            int best = -1, best_rank = 100;
            for (std::size_t i = 0; i < body.size(); ++i) {
                if (done[i] || for_later(body[i])) continue;
                const int rank = readiness(body[i], bound);
                if (rank > 0 && rank < best_rank) best = static_cast<int>(i), best_rank = rank;
            }
            if (best < 0) return;
            const FlatLiteral& l = body[static_cast<std::size_t>(best)];
            const bool filters = best_rank == 1 || best_rank == 5 ||
                                 ((l.kind == Kind::Compute || l.kind == Kind::Pack) && is_bound(l.result, bound));
            take(best, filters ? 0.6 : 1.0);
            --left;
        }
    };
    if (first >= 0) {
        // constants and aggregates of nothing may come before the first atom; they cost no search
        const FlatLiteral& l = body[static_cast<std::size_t>(first)];
        take(first, request_.delta == first ? 1.0 : std::max(0.5, fanout(l, bound)));
        --left;
    }
    run_ready();
    while (left > 0 && order.cost <= give_up) {
        double best_cost = 0;
        const int best = cheapest(body, done, bound, best_cost);
        if (best < 0) break;
        take(best, best_cost);
        --left;
        run_ready();
    }
    // what is left computes for the head, each after what it needs
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t i = 0; i < body.size(); ++i) {
            if (done[i] || !for_later(body[i]) || !all_bound(body[i].args, bound)) continue;
            take(static_cast<int>(i), 1.0);
            --left;
            progress = true;
        }
    }
    if (left > 0) order.cost = std::numeric_limits<double>::max();
    return order;
}

}  // namespace dl
