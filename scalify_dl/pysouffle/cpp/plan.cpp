#include "plan.hpp"

#include <algorithm>

#include "join_order.hpp"

namespace dl {

namespace {

using Kind = FlatLiteral::Kind;

constexpr Row kSmall = 8;           // a relation this small is scanned, not indexed
constexpr double kNearlyUnique = 1.5;
constexpr double kShort = 3;        // rows with one value, on average, that are looked at rather than indexed further
constexpr Row kLongestChain = 12;        // … and at most

class Planner {
public:
    Planner(const PlanRequest& request, Database& db) : request_(request), db_(db) {}

    std::unique_ptr<Plan> run() {
        const FlatRule& rule = request_.rule;
        const std::vector<char> bound = given_registers(request_);
        head_wants_.assign(static_cast<std::size_t>(rule.registers), 0);
        if (request_.last == Step::Kind::Emit) {
            for (const Register r : rule.head) head_wants_[static_cast<std::size_t>(r)] = 1;
            for (const FlatLiteral& l : rule.body)
                if (l.for_head)
                    for (const Register r : l.args) head_wants_[static_cast<std::size_t>(r)] = 1;
        }
        auto plan = best(rule.body, bound, request_.delta);
        Step last;
        last.kind = request_.last;
        plan->steps.push_back(std::move(last));
        mark_existential(*plan, request_.last == Step::Kind::Emit);
        finish(*plan);
        plan->registers.assign(static_cast<std::size_t>(rule.registers), 0);
        for (const auto& c : rule.constants) plan->registers[static_cast<std::size_t>(c.first)] = c.second;
        note_sizes(rule.body, *plan);
        return plan;
    }

private:
    Table& table(const FlatLiteral& l) { return db_.relations[static_cast<std::size_t>(l.relation)]->table; }
    RelationData& data(const FlatLiteral& l) { return *db_.relations[static_cast<std::size_t>(l.relation)]; }

    std::unique_ptr<Plan> best(const std::vector<FlatLiteral>& body, std::vector<char> bound, int delta) {
        const JoinOrder::Order order = JoinOrder(request_, db_).choose(body, bound, delta);
        auto plan = std::make_unique<Plan>();
        plan->cost = order.cost;
        plan->steps.reserve(order.items.size() + 1);
        for (const auto& [at, estimate] : order.items) {
            Step step = make_step(body, at, bound, delta);
            step.source = body[static_cast<std::size_t>(at)].source;
            step.estimate = estimate;
            bind(body[static_cast<std::size_t>(at)], bound);
            plan->steps.push_back(std::move(step));
        }
        return plan;
    }

    Step make_step(const std::vector<FlatLiteral>& body, int at, const std::vector<char>& bound, int delta) {
        const FlatLiteral& l = body[static_cast<std::size_t>(at)];
        Step step;
        step.type = l.type;
        step.from = l.from;
        step.type_index = l.type_index;
        step.op = l.op;
        step.compare = l.compare;
        step.aggregate = l.aggregate;
        step.functor = l.functor;
        step.result = l.result;
        step.left = l.left;
        step.right = l.right;
        step.args = l.args;
        switch (l.kind) {
            case Kind::Atom: atom_step(l, bound, step, view_of(l, at, delta)); break;
            case Kind::Compare: step.kind = Step::Kind::Compare; break;
            case Kind::Compute: step.kind = is_bound(l.result, bound) ? Step::Kind::Check : Step::Kind::Compute; break;
            case Kind::Range: step.kind = is_bound(l.result, bound) ? Step::Kind::RangeCheck : Step::Kind::Range; break;
            case Kind::Pack:
                if (is_bound(l.result, bound)) {
                    step.kind = Step::Kind::Unpack;
                    std::vector<char> now = bound;
                    for (const Register r : l.args) {
                        step.bound.push_back(is_bound(r, now));
                        if (r != kUnnamed) now[static_cast<std::size_t>(r)] = 1;
                    }
                } else {
                    step.kind = Step::Kind::Pack;
                }
                break;
            case Kind::Negation: {
                step.kind = Step::Kind::Negation;
                step.inner = inner_plan(l, bound, Step::Kind::Found);
                break;
            }
            case Kind::Aggregate: {
                step.kind = Step::Kind::Aggregate;
                step.check_result = is_bound(l.result, bound);
                step.left = l.target;
                step.cacheable = l.outer_count == 0;
                step.inner = inner_plan(l, bound, Step::Kind::Fold);
                break;
            }
        }
        return step;
    }

    std::unique_ptr<Plan> inner_plan(const FlatLiteral& l, const std::vector<char>& bound, Step::Kind last) {
        auto inner = best(l.body, bound, -1);
        Step end;
        end.kind = last;
        end.left = l.target;
        inner->steps.push_back(std::move(end));
        for (Step& step : inner->steps) step.existential = last == Step::Kind::Found;
        finish(*inner);
        return inner;
    }

    View view_of(const FlatLiteral& l, int at, int delta) const {
        if (delta < 0) return View::All;
        if (at == delta) return View::Delta;
        const bool recursive = request_.recursive[static_cast<std::size_t>(l.relation)] != 0;
        return request_.old_before_delta && recursive && at < delta ? View::Old : View::All;
    }

    void atom_step(const FlatLiteral& l, const std::vector<char>& bound, Step& step, View view) {
        RelationData& relation = data(l);
        step.relation = &relation;
        step.view = view;
        std::vector<char> now = bound;
        std::vector<ColumnRegister> known;
        std::vector<int> first_column(now.size(), -1);
        for (int column = 0; column < static_cast<int>(l.args.size()); ++column) {
            const Register r = l.args[static_cast<std::size_t>(column)];
            if (r == kUnnamed) continue;
            if (bound[static_cast<std::size_t>(r)]) {
                known.push_back({column, r});
            } else if (now[static_cast<std::size_t>(r)]) {
                step.same.emplace_back(first_column[static_cast<std::size_t>(r)], column);
            } else {
                step.binds.push_back({column, r});
                now[static_cast<std::size_t>(r)] = 1;
                first_column[static_cast<std::size_t>(r)] = column;
            }
        }
        if (relation.eqrel) {
            if (view == View::Delta || known.empty()) {
                step.kind = Step::Kind::EqScan;
                step.checks = std::move(known);
            } else if (known.size() == 2) {
                step.kind = Step::Kind::EqExists;
                step.key = std::move(known);
            } else {
                step.kind = Step::Kind::EqProbe;
                step.key = std::move(known);
            }
            return;
        }
        if (known.size() == l.args.size()) {
            step.kind = Step::Kind::Exists;
            step.key = std::move(known);
            return;
        }
        const Table& table = relation.table;
        if (known.empty() || view == View::Delta || table.visible <= kSmall) {
            step.kind = Step::Kind::Scan;
            step.checks = std::move(known);
            return;
        }
        step.kind = Step::Kind::Probe;
        step.index = &choose_index(l, known);
        for (const int column : step.index->columns()) {
            const auto found = std::find_if(known.begin(), known.end(), [&](const ColumnRegister& k) { return k.column == column; });
            step.key.push_back(*found);
            known.erase(found);
        }
        step.checks = std::move(known);
    }

    // The index on exactly the known columns, or one on fewer of them that is nearly as good and exists already; for
    // relations that are complete, one on a single column that is an array from value to rows, if few rows share a value.
    Index& choose_index(const FlatLiteral& literal, const std::vector<ColumnRegister>& known) {
        Table& table = data(literal).table;
        std::vector<int> columns;
        for (const ColumnRegister& k : known)
            if (k.column < 64) columns.push_back(k.column);
        Index* near = nullptr;
        for (const auto& index : table.indexes()) {
            if (index->columns() == columns) return *index;
            const bool subset = std::includes(columns.begin(), columns.end(), index->columns().begin(), index->columns().end());
            if (!subset || index->keys() == 0) continue;
            const double chain = static_cast<double>(index->indexed()) / static_cast<double>(index->keys());
            if (chain <= kNearlyUnique) near = index.get();
        }
        if (near) return *near;
        if (columns.size() > 1 && !request_.recursive[static_cast<std::size_t>(literal.relation)])
            if (Index* array = short_array(table, columns)) return *array;
        return table.index(columns);
    }

    static Index* short_array(Table& table, const std::vector<int>& columns) {
        int best = -1;
        double most = table.visible / kShort;
        for (const int column : columns) {
            const double distinct = table.distinct(std::uint64_t{1} << column);
            if (distinct <= most) continue;
            most = distinct;
            best = column;
        }
        if (best < 0) return nullptr;
        Index& index = table.index({best});
        return index.is_array() && index.longest_chain() <= kLongestChain ? &index : nullptr;
    }

    // From which step on is one success enough? Where no later step binds what the head wants.
    void mark_existential(Plan& plan, bool emits) const {
        if (!emits) {
            for (Step& step : plan.steps) step.existential = true;
            return;
        }
        std::vector<char> wants = head_wants_;
        const auto wanted_register = [&](Register r) { return r != kUnnamed && wants[static_cast<std::size_t>(r)]; };
        const auto any_wanted = [&](const std::vector<Register>& regs) { return std::any_of(regs.begin(), regs.end(), wanted_register); };
        for (std::size_t i = plan.steps.size(); i-- > 0;) {
            Step& step = plan.steps[i];
            bool needed = false;  // by the head: every success of this step counts
            switch (step.kind) {
                case Step::Kind::Compute:
                    needed = step.op == Op::AutoInc || step.op == Op::User;
                    [[fallthrough]];
                case Step::Kind::Pack:  // changes only with its arguments: those are needed then
                    if (wanted_register(step.result))
                        for (const Register r : step.args) wants[static_cast<std::size_t>(r)] = 1;
                    break;
                case Step::Kind::Aggregate:
                case Step::Kind::Range: needed = wanted_register(step.result); break;
                case Step::Kind::Unpack: needed = any_wanted(step.args); break;
                default:
                    for (const ColumnRegister& bind : step.binds) needed = needed || wanted_register(bind.reg);
            }
            if (needed) break;
            step.existential = true;
        }
    }

    void finish(Plan& plan) const {
        std::size_t widest = 1;
        for (const Step& step : plan.steps) {
            widest = std::max({widest, step.key.size(), step.args.size()});
            if (step.relation) widest = std::max(widest, static_cast<std::size_t>(step.relation->table.arity()));
        }
        plan.scratch.assign(widest, 0);
    }

    void note_sizes(const std::vector<FlatLiteral>& body, Plan& plan) {
        for (const FlatLiteral& l : body) {
            if (l.kind == Kind::Atom)
                plan.sizes.emplace_back(l.relation, static_cast<Row>(std::min<std::size_t>(data(l).eqrel ? data(l).rows() : table(l).visible, kNoRow)));
            note_sizes(l.body, plan);
        }
    }

    const PlanRequest& request_;
    Database& db_;
    std::vector<char> head_wants_;
};

}  // namespace

std::unique_ptr<Plan> make_plan(const PlanRequest& request, Database& database) {
    return Planner(request, database).run();
}

std::vector<int> literal_order(const PlanRequest& request, Database& database) {
    std::vector<int> out;
    for (const auto& item : JoinOrder(request, database).choose(request.rule.body, given_registers(request), request.delta).items)
        out.push_back(item.first);
    return out;
}

bool outdated(const Plan& plan, const Database& database) {
    for (const auto& [relation, then] : plan.sizes) {
        const RelationData& data = *database.relations[static_cast<std::size_t>(relation)];
        const double now = data.eqrel ? static_cast<double>(data.rows()) : data.table.visible;
        const double before = std::max<double>(then, kSmall);
        if (now > before * 4 || now * 16 < before) return true;
    }
    return false;
}

}  // namespace dl
