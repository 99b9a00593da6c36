#include "provenance.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

namespace dl {

namespace {

// Negated and aggregated atoms read the finished relations, which follow after the relations of the levels.
void read_finished(std::vector<Literal>& body, bool nested, int offset) {
    for (Literal& literal : body) {
        if (literal.kind == Literal::Kind::Negation || (nested && literal.kind == Literal::Kind::Atom)) literal.atom.relation += offset;
        if (literal.kind == Literal::Kind::Aggregate) read_finished(literal.body, true, offset);
    }
}

constexpr std::uint32_t kNever = 0xFFFFFFFFu;
constexpr int kWays = 8;  // through one rule that are compared, where steps have a cost

// `x = @generated`: how the front end gives the value of an aggregate its name.
bool names_a_result(const Literal& literal, const Rule& rule) {
    const auto generated = [&](const Term& t) {
        return t.kind == Term::Kind::Variable && rule.variables[static_cast<std::size_t>(t.variable)].name.rfind('@', 0) == 0;
    };
    return literal.kind == Literal::Kind::Comparison && literal.compare == Compare::Equal && (generated(literal.left) || generated(literal.right));
}

// Makes only rows born before a stage visible, in the relations of a body, as long as it lives.
class Before {
public:
    Before(Engine& levels, const FlatRule& rule, std::uint32_t stage) {
        for (const FlatLiteral& literal : rule.body) {
            if (literal.kind != FlatLiteral::Kind::Atom) continue;
            Table& table = levels.relation(literal.relation).table;
            saved_.emplace_back(&table, table.visible);
            const auto at = std::lower_bound(table.births.begin(), table.births.end(), stage,
                                             [](const Birth& birth, std::uint32_t s) { return birth.stage < s; });
            table.visible = std::min(table.visible, at == table.births.begin() ? 0 : (at - 1)->end);
        }
    }
    ~Before() {
        for (auto at = saved_.rbegin(); at != saved_.rend(); ++at) at->first->visible = at->second;
    }
    Before(const Before&) = delete;
    Before& operator=(const Before&) = delete;

private:
    std::vector<std::pair<Table*, Row>> saved_;
};

}  // namespace

Provenance::Provenance(Engine& engine) : engine_(engine), rules_of_(engine.program().relations.size()) {
    const Rules& rules = engine.program().rules;
    for (std::size_t i = 0; i < rules.size(); ++i)
        if (rules[i].kind == Rule::Kind::Derive) rules_of_[static_cast<std::size_t>(rules[i].head.relation)].push_back(static_cast<int>(i));
}

void Provenance::prepare(const Limits& limits, std::function<void()> interrupt) {
    if (!engine_.complete()) throw EvaluationError("explanations need a complete run: run the program first");
    if (levels_) return;
    const CoreProgram& program = engine_.program();
    const int n = static_cast<int>(program.relations.size());
    CoreProgram core;
    core.files = program.files;
    core.types = program.types;
    core.functors = program.functors;
    core.relations = program.relations;
    for (Relation& relation : core.relations) relation.choice.clear();
    core.relations.insert(core.relations.end(), program.relations.begin(), program.relations.end());
    std::vector<Rule> rules = program.rules.copy();
    Stratum all;
    all.relations.resize(static_cast<std::size_t>(n));
    std::iota(all.relations.begin(), all.relations.end(), 0);
    all.recursive = true;
    for (std::size_t i = 0; i < rules.size(); ++i) {
        read_finished(rules[i].body, false, n);
        if (rules[i].kind == Rule::Kind::Derive) all.rules.push_back(static_cast<int>(i));
    }
    core.rules = Rules(std::move(rules));
    auto levels = std::make_unique<Engine>(std::move(core), engine_.database().arithmetic, engine_.database().terms, std::vector<Stratum>{all});
    for (int r = 0; r < n; ++r) {
        levels->database().relations[static_cast<std::size_t>(n + r)] = engine_.database().relations[static_cast<std::size_t>(r)];
        engine_.for_each_fact(r, [&](const Value* row) {
            if (engine_.relation(r).contains(row)) levels->add_fact(r, row);
        });
    }
    // where rows can be lost or are counted, only rows that are there in the end may support others
    for (const Stratum& stratum : engine_.strata())
        for (const int r : stratum.relations)
            if (!stratum.monotone) levels->relation(r).only = &engine_.relation(r);
    for (const Rule& rule : program.rules)
        if (has_side_effects(program, rule)) levels->relation(rule.head.relation).only = &engine_.relation(rule.head.relation);
    levels->database().functors = engine_.database().functors;
    levels->timing = false;
    levels->run(limits, std::move(interrupt));
    levels_ = std::move(levels);
    rounds_ = levels_.get();
    plans_.clear();
    plans_.resize(program.rules.size());
}

std::uint32_t Provenance::stage_of(int relation, const Value* row) {
    RelationData& data = rounds_->relation(relation);
    if (!data.eqrel) {
        const Row at = data.table.find(row);
        return at == kNoRow ? kNever : data.table.birth(at);
    }
    if (!data.eqrel->contains(row[0], row[1])) return kNever;
    std::uint32_t latest = 0;
    for (const int link : path(*data.eqrel, row[0], row[1])) latest = std::max(latest, data.eqrel->links()[static_cast<std::size_t>(link)].stage);
    return latest;
}

int Provenance::height(int relation, const Value* row) {
    const std::uint32_t stage = stage_of(relation, row);
    return stage == kNever ? -1 : static_cast<int>(stage) - 1;
}

std::vector<ProofNode> Provenance::explain(int relation, const std::vector<std::vector<Value>>& rows, std::vector<int>& roots, Recorder* recorder) {
    nodes_.clear();
    known_.clear();
    struct Recording {
        Recording(Machine& m, Recorder*& kept, Recorder* r) : machine(m), recorder(kept) {
            recorder = r;
            machine.record(r);
        }
        ~Recording() {
            recorder = nullptr;
            machine.record(nullptr);
        }
        Machine& machine;
        Recorder*& recorder;
    };
    const Recording recording(rounds_->machine(), recorder_, recorder);
    for (const auto& row : rows) roots.push_back(engine_.relation(relation).contains(row.data()) ? node_of(relation, row) : -1);
    for (std::size_t i = 0; i < nodes_.size(); ++i) expand(static_cast<int>(i));
    known_.clear();
    return std::move(nodes_);
}

std::vector<ProofNode> Provenance::derivation(const std::vector<Rows>& wanted, const std::vector<char>& leaves) {
    if (!engine_.complete()) throw EvaluationError("a derivation needs a complete run: run the program first");
    struct Answering {  // in the run itself
        Answering(Provenance& p, const std::vector<char>& leaves) : provenance(p) {
            provenance.rounds_ = &provenance.engine_;
            provenance.leaves_ = &leaves;
            std::vector<std::unique_ptr<Plan>>(p.engine_.program().rules.size()).swap(p.plans_);
        }
        ~Answering() {
            provenance.rounds_ = provenance.levels_.get();
            provenance.leaves_ = nullptr;
            std::vector<std::unique_ptr<Plan>>(provenance.plans_.size()).swap(provenance.plans_);
        }
        Provenance& provenance;
    };
    const Answering answering(*this, leaves);
    nodes_.clear();
    known_.clear();
    std::size_t asked = 0;
    for (const Rows& of : wanted)
        for (const auto& row : of.rows) asked = static_cast<std::size_t>(node_of(of.relation, row)) + 1;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        expand(static_cast<int>(i));
        if (nodes_[i].kind == ProofNode::Kind::Unknown || nodes_[i].kind == ProofNode::Kind::Equivalence)
            throw EvaluationError("a row of " + engine_.declaration(nodes_[i].relation).name + " has no derivation");
    }
    known_.clear();
    // premises first
    std::vector<int> place(nodes_.size(), -1), open;
    std::vector<ProofNode> out;
    out.reserve(nodes_.size());
    for (std::size_t root = 0; root < asked; ++root) {
        open.push_back(static_cast<int>(root));
        while (!open.empty()) {
            const int at = open.back();
            ProofNode& node = nodes_[static_cast<std::size_t>(at)];
            const std::size_t before = open.size();
            if (place[static_cast<std::size_t>(at)] < 0)
                for (const int p : node.premises)
                    if (place[static_cast<std::size_t>(p)] < 0) open.push_back(p);
            if (open.size() > before) continue;
            open.pop_back();
            if (place[static_cast<std::size_t>(at)] >= 0) continue;
            for (int& p : node.premises) p = place[static_cast<std::size_t>(p)];
            place[static_cast<std::size_t>(at)] = static_cast<int>(out.size());
            out.push_back(std::move(node));
        }
    }
    nodes_.clear();
    return out;
}

int Provenance::node_of(int relation, std::vector<Value> row) {
    const Table& table = engine_.relation(relation).table;  // as it holds the row: equal floats may have other bits
    if (const Row at = table.floats().empty() ? kNoRow : table.find(row.data()); at != kNoRow) row.assign(table.row(at), table.row(at) + table.arity());
    const auto [at, added] = known_.try_emplace(Key{relation, row}, static_cast<int>(nodes_.size()));
    if (added) {
        ProofNode node;
        node.relation = relation;
        node.row = std::move(row);
        nodes_.push_back(std::move(node));
    }
    return at->second;
}

void Provenance::expand(int node) {
    const int relation = nodes_[static_cast<std::size_t>(node)].relation;
    const std::vector<Value> row = nodes_[static_cast<std::size_t>(node)].row;
    if (engine_.is_fact(relation, row.data())) return;
    const std::uint32_t stage = stage_of(relation, row.data());
    if (stage != kNever) {
        Found best;
        bool found = false;
        for (const int rule : rules_of_[static_cast<std::size_t>(relation)])
            if (by_rule(row, rule, stage, best, found)) break;
        if (found) return take(node, std::move(best));
        if (rounds_->relation(relation).eqrel && by_equivalence(node)) return;
    }
    nodes_[static_cast<std::size_t>(node)].kind = ProofNode::Kind::Unknown;
}

Plan& Provenance::plan(int rule) {
    auto& plan = plans_[static_cast<std::size_t>(rule)];
    if (!plan) {
        const FlatRule& flat = rounds_->flat(rule);
        const std::vector<char> none(rounds_->program().relations.size(), 0);
        plan = make_plan({flat, -1, none, Step::Kind::Visit, flat.head, false}, rounds_->database());
    }
    return *plan;
}

// Look for a way through a rule's body that is better than the best found so far. True: good enough.
bool Provenance::by_rule(const std::vector<Value>& row, int index, std::uint32_t stage, Found& best, bool& any) {
    const Rule& rule = rounds_->program().rules[static_cast<std::size_t>(index)];
    const FlatRule& flat = rounds_->flat(index);
    Plan& plan = this->plan(index);
    std::vector<char> set(plan.registers.size(), 0);
    for (const auto& [reg, value] : flat.constants) {
        plan.registers[static_cast<std::size_t>(reg)] = value;
        set[static_cast<std::size_t>(reg)] = 1;
    }
    const Table& head = rounds_->relation(flat.relation).table;
    for (std::size_t i = 0; i < row.size(); ++i) {
        const auto reg = static_cast<std::size_t>(flat.head[i]);
        if (set[reg]) {
            if (!head.same(static_cast<int>(i), plan.registers[reg], row[i])) return false;
            continue;
        }
        plan.registers[reg] = row[i];
        set[reg] = 1;
    }
    const auto value = [&](Register r) { return plan.registers[static_cast<std::size_t>(r)]; };
    bool enough = false;
    int ways = 0;
    if (recorder_) {
        recorder_->cut({0, 0});
        engine_.database().formulas->rule = index;
    }
    const Before before(*rounds_, flat, stage);
    rounds_->machine().each(plan, [&]() {
        std::vector<std::pair<int, std::vector<Value>>> premises;
        std::vector<Value> variables;
        for (const Register r : flat.of_variable) variables.push_back(value(r));
        for (const FlatLiteral& literal : flat.body) {
            if (literal.kind != FlatLiteral::Kind::Atom || (leaves_ && (*leaves_)[static_cast<std::size_t>(literal.relation)])) continue;
            std::vector<Value> premise;
            bool complete = true;
            for (const Register r : literal.args) {
                complete = complete && r != kUnnamed;
                premise.push_back(r == kUnnamed ? 0 : value(r));
            }
            if (!complete && !fill(literal, premise)) return false;
            if (rounds_->relation(literal.relation).eqrel && stage_of(literal.relation, premise.data()) >= stage) return false;
            premises.emplace_back(literal.relation, std::move(premise));
        }
        const std::size_t cost = recorder_ ? recorder_->decisions.size() + recorder_->goals.size() : 0;
        enough = cost == 0 || ++ways == kWays;
        if (any && cost >= best.cost) return enough;
        any = true;
        best = Found{};
        best.cost = cost;
        best.premises = std::move(premises);
        best.node.kind = rule.body.empty() ? ProofNode::Kind::Fact : ProofNode::Kind::Rule;
        best.node.rule = index;
        if (recorder_) {
            best.node.decisions = recorder_->decisions;
            best.node.goals = recorder_->goals;
        }
        const std::vector<char> known = global_variables(rule);
        for (std::size_t v = 0; v < rule.variables.size(); ++v)
            if (known[v] && rule.variables[v].name.rfind('@', 0) != 0) best.node.bindings.emplace_back(static_cast<int>(v), variables[v]);
        if (!leaves_)
            for (const Literal& literal : engine_.program().rules[static_cast<std::size_t>(index)].body)
                if (literal.kind != Literal::Kind::Atom && !names_a_result(literal, rule)) best.node.conditions.push_back(instantiate(engine_, rule, literal, variables, known));
        return enough;
    });
    return enough && best.cost == 0;
}

void Provenance::take(int node, Found&& step) {
    std::vector<int> premises;
    for (auto& [relation, premise] : step.premises) premises.push_back(node_of(relation, std::move(premise)));
    ProofNode& self = nodes_[static_cast<std::size_t>(node)];
    step.node.relation = self.relation;
    step.node.row = std::move(self.row);
    step.node.premises = std::move(premises);
    self = std::move(step.node);
}

// The first visible row that agrees with a premise in the columns that the rule names.
bool Provenance::fill(const FlatLiteral& literal, std::vector<Value>& premise) {
    RelationData& data = rounds_->relation(literal.relation);
    if (data.eqrel) {
        const auto take = [&](Value left, Value right) {
            premise = {left, right};
            return true;
        };
        if (literal.args[0] != kUnnamed) return data.eqrel->members(premise[0], [&](Value other) { return take(premise[0], other); });
        if (literal.args[1] != kUnnamed) return data.eqrel->members(premise[1], [&](Value other) { return take(other, premise[1]); });
        return data.eqrel->all(take);
    }
    const Table& table = data.table;
    std::vector<int> columns;
    std::vector<Value> key;
    for (std::size_t i = 0; i < premise.size() && i < 64; ++i) {
        if (literal.args[i] == kUnnamed) continue;
        columns.push_back(static_cast<int>(i));
        key.push_back(premise[i]);
    }
    const auto take = [&](Row row) { premise.assign(table.row(row), table.row(row) + table.arity()); };
    for (const auto& index : table.indexes()) {
        if (index->columns() != columns) continue;
        Row oldest = kNoRow;  // chains run from new to old
        for (Row row = index->first(table, key.data()); row != kNoRow; row = index->next(row))
            if (row < table.visible) oldest = row;
        if (oldest == kNoRow) return false;
        take(oldest);
        return true;
    }
    for (Row row = 0; row < table.visible; ++row) {
        bool same = true;
        for (std::size_t i = 0; same && i < columns.size(); ++i) same = table.same(columns[i], table.row(row)[columns[i]], key[i]);
        if (!same) continue;
        take(row);
        return true;
    }
    return false;
}

// ---------------------------------------------------------------- equivalence relations

// The links on the way from one value to another; links form a forest, so there is one way.
std::vector<int> Provenance::path(const EqRel& eqrel, Value from, Value to) const {
    std::unordered_map<Value, std::vector<std::pair<Value, int>>>& near = near_[&eqrel];
    if (near.empty())
        for (std::size_t i = 0; i < eqrel.links().size(); ++i) {
            const EqRel::Link& link = eqrel.links()[i];
            near[link.left].emplace_back(link.right, static_cast<int>(i));
            near[link.right].emplace_back(link.left, static_cast<int>(i));
        }
    if (from == to) return {near[from].front().second};
    std::unordered_map<Value, std::pair<Value, int>> came;
    std::deque<Value> open{from};
    came[from] = {from, -1};
    while (!open.empty() && !came.count(to)) {
        const Value at = open.front();
        open.pop_front();
        for (const auto& [next, link] : near[at])
            if (came.try_emplace(next, at, link).second) open.push_back(next);
    }
    std::vector<int> links;
    for (Value at = to; at != from; at = came[at].first) links.push_back(came[at].second);
    std::reverse(links.begin(), links.end());
    return links;
}

bool Provenance::by_equivalence(int node) {
    const int relation = nodes_[static_cast<std::size_t>(node)].relation;
    const std::vector<Value> row = nodes_[static_cast<std::size_t>(node)].row;
    const EqRel& eqrel = *rounds_->relation(relation).eqrel;
    std::vector<int> premises;
    for (const int at : path(eqrel, row[0], row[1])) {
        const EqRel::Link& link = eqrel.links()[static_cast<std::size_t>(at)];
        if (link.left == row[0] && link.right == row[1]) return false;  // it was inserted as such: a rule has to say why
        premises.push_back(node_of(relation, {link.left, link.right}));
    }
    nodes_[static_cast<std::size_t>(node)].kind = ProofNode::Kind::Equivalence;
    nodes_[static_cast<std::size_t>(node)].premises = std::move(premises);
    return true;
}

}  // namespace dl
