#include "conditions.hpp"

#include <algorithm>
#include <utility>

namespace dl {

namespace {

constexpr std::size_t kGoals = 16;

}  // namespace

ProofConditions::ProofConditions(Engine& engine, Provenance& provenance)
    : engine_(engine), provenance_(provenance), recorder_(engine.program(), engine.database()) {
    rules_of_.resize(engine.program().relations.size());
    monotone_.assign(rules_of_.size(), 1);
    asked_.assign(rules_of_.size(), 0);
    reach_.assign(rules_of_.size(), 0);
    for (std::size_t i = 0; i < engine.program().rules.size(); ++i) {
        const Rule& rule = engine.program().rules[i];
        if (rule.kind == Rule::Kind::Derive) rules_of_[static_cast<std::size_t>(rule.head.relation)].push_back(static_cast<int>(i));
    }
    for (const Rule& rule : engine.program().rules)
        if (rule.kind == Rule::Kind::Subsume) monotone_[static_cast<std::size_t>(rule.head.relation)] = 0;
    for (const Directive& directive : engine.program().directives)
        if (directive.kind == Directive::Kind::LimitSize) monotone_[static_cast<std::size_t>(directive.relation)] = 0;
}

void ProofConditions::add(int relation, const std::vector<std::vector<Value>>& rows) {
    std::vector<int> roots;
    const std::vector<ProofNode> nodes = provenance_.explain(relation, rows, roots, &recorder_);
    if (std::find(roots.begin(), roots.end(), -1) != roots.end())
        throw EvaluationError("conditions of a row of " + engine_.declaration(relation).name + " that does not hold");
    for (const ProofNode& node : nodes) {
        if (node.kind == ProofNode::Kind::Unknown)
            throw EvaluationError("conditions of a row of " + engine_.declaration(node.relation).name + " whose premises were removed are not available");
        take(node.decisions, node.goals);
    }
    while (!open_.empty()) {
        const Goal goal = std::move(open_.back());
        open_.pop_back();
        settle(goal);
    }
}

void ProofConditions::take(const std::vector<Decision>& decisions, const std::vector<Goal>& goals) {
    for (const Decision& decision : decisions) {
        const auto at = static_cast<std::size_t>(decision.condition);
        if (noted_.size() <= at) noted_.resize(at + 1, 0);
        if (!noted_[at]) decisions_.push_back(decision);
        noted_[at] = 1;
    }
    for (Goal goal : goals) {
        // Rules that count upwards would ask for ever more: in the long run only for values that the relation has.
        const auto index = static_cast<std::size_t>(goal.relation);
        if (!engine_.declaration(goal.relation).choice.empty()) goal.known.clear();  // any row may exclude another
        else if (asked_[index] > kGoals + 2 * engine_.relation(goal.relation).rows()) widen(goal);
        if (goals_.count({goal.relation, {}}) || !goals_.insert(goal).second) continue;
        ++asked_[index];
        open_.push_back(std::move(goal));
    }
}

void ProofConditions::widen(Goal& goal) {
    const Table& table = engine_.relation(goal.relation).table;
    std::erase_if(goal.known, [&](const std::pair<int, Value>& known) {
        const auto [at, added] = values_.try_emplace({goal.relation, known.first});
        if (added)
            for (Row row = 0; row < table.visible; ++row) at->second.insert(table.row(row)[known.first]);
        return !at->second.count(known.second);
    });
}

// Every way to a row that fits the goal, whether it leads to one or not.
void ProofConditions::settle(const Goal& goal) {
    const CoreProgram& program = engine_.program();
    const auto index = static_cast<std::size_t>(goal.relation);
    if (!monotone_[index]) refuse(goal.relation, "of which rows may be removed or left out (subsumption, limitsize)");
    for (const int rule : rules_of_[index]) {
        if (has_side_effects(program, program.rules[static_cast<std::size_t>(rule)])) refuse(goal.relation, "which counts or calls the host");
        look_at(rule, goal);
    }
}

void ProofConditions::refuse(int relation, const std::string& why) const {
    throw EvaluationError("conditions are not available: a negation or an aggregate depends on relation " + engine_.declaration(relation).name + ", " + why);
}

std::size_t ProofConditions::reach(int relation) {
    std::size_t& known = reach_[static_cast<std::size_t>(relation)];
    if (known > 0) return known;
    std::vector<char> seen(reach_.size(), 0);
    std::vector<int> open{relation};
    seen[static_cast<std::size_t>(relation)] = 1;
    for (std::size_t at = 0; at < open.size(); ++at)
        for (const int rule : rules_of_[static_cast<std::size_t>(open[at])])
            for_each_atom(engine_.program().rules[static_cast<std::size_t>(rule)].body, true, [&](int next, bool) {
                if (!std::exchange(seen[static_cast<std::size_t>(next)], 1)) open.push_back(next);
            });
    return known = open.size();
}

bool ProofConditions::blocked(const FlatRule& flat, const std::vector<char>& set, const std::vector<Value>& registers) {
    const Recorder::Mark mark = recorder_.mark();
    const FlatLiteral* best = nullptr;
    std::vector<ColumnRegister> best_known;
    for (const FlatLiteral& literal : flat.body) {
        if (literal.kind != FlatLiteral::Kind::Atom) continue;
        const RelationData& data = engine_.relation(literal.relation);
        std::vector<ColumnRegister> known;
        for (std::size_t i = 0; i < literal.args.size(); ++i)
            if (literal.args[i] != kUnnamed && set[static_cast<std::size_t>(literal.args[i])]) known.push_back({static_cast<int>(i), literal.args[i]});
        if (data.eqrel || (best && reach(literal.relation) >= reach(best->relation))) continue;
        bool none = true;
        for (const Row row : recorder_.candidates(data, known, registers.data())) none = none && !recorder_.may_match(data, data.table.row(row), known, registers.data());
        if (none) best = &literal, best_known = std::move(known);
    }
    recorder_.cut(mark);
    if (best) recorder_.want(engine_.relation(best->relation), best_known, registers.data());
    return best != nullptr;
}

void ProofConditions::look_at(int rule, const Goal& goal) {
    const FlatRule& flat = engine_.flat(rule);
    std::vector<int> columns;
    std::vector<Register> bound;
    for (const auto& known : goal.known) {
        columns.push_back(known.first);
        bound.push_back(flat.head[static_cast<std::size_t>(known.first)]);
    }
    auto& plan = plans_[{rule, columns}];
    if (!plan) {
        const std::vector<char> none(engine_.program().relations.size(), 0);
        plan = make_plan({flat, -1, none, Step::Kind::Visit, bound, false}, engine_.database());
        for (Step& step : plan->steps) step.existential = false;  // every way to a row counts
    }
    recorder_.cut({0, 0});
    engine_.database().formulas->rule = rule;
    std::vector<char> set(plan->registers.size(), 0);
    for (const auto& [reg, value] : flat.constants) {
        plan->registers[static_cast<std::size_t>(reg)] = value;
        set[static_cast<std::size_t>(reg)] = 1;
    }
    struct Recording {
        Recording(Machine& m, Recorder& r) : machine(m), recorder(r) {
            ++recorder.finished;
            machine.record(&recorder);
        }
        ~Recording() {
            --recorder.finished;
            machine.record(nullptr);
        }
        Machine& machine;
        Recorder& recorder;
    };
    {
        const Recording recording(engine_.machine(), recorder_);
        const bool chooses = !engine_.declaration(goal.relation).choice.empty();
        std::vector<Value> row(flat.head.size());
        bool fits = true;
        for (const auto& [column, value] : goal.known) {
            const auto reg = static_cast<std::size_t>(flat.head[static_cast<std::size_t>(column)]);
            if (set[reg]) fits = fits && recorder_.equal(recorder_.column_type(goal.relation, column), plan->registers[reg], value);
            else plan->registers[reg] = value, set[reg] = 1;
        }
        if (fits && !blocked(flat, set, plan->registers)) {
            try {
                engine_.machine().each(*plan, [&] {
                    if (!chooses) return true;
                    // where nothing had to be chosen here, nothing has to elsewhere: the rows are the same ones
                    for (std::size_t i = 0; i < row.size(); ++i) row[i] = plan->registers[static_cast<std::size_t>(flat.head[i])];
                    if (!engine_.relation(goal.relation).contains(row.data()) || recorder_.varies(goal.relation, row.data()))
                        refuse(goal.relation, "of which rows were left out (choice-domain)");
                    return true;
                });
            } catch (const EvaluationError& error) {
                throw EvaluationError(std::string(error.what()) + "\n  in the rule " + engine_.describe(engine_.program().rules[static_cast<std::size_t>(rule)]));
            }
        }
    }
    take(recorder_.decisions, recorder_.goals);
}

}  // namespace dl
