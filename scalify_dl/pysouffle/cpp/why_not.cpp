#include "why_not.hpp"

#include <algorithm>

#include "provenance.hpp"

namespace dl {

namespace {

using Kind = FlatLiteral::Kind;

constexpr int kBindings = 32;         // bindings of the longest prefix that are tried for near matches
constexpr Row kRowsLookedAt = 200000; // rows of a relation that are compared for them
constexpr std::size_t kShown = 3;

class Search {
public:
    Search(Engine& engine, int rule, const std::vector<Value>& row)
        : engine_(engine), index_(rule), rule_(engine.program().rules[static_cast<std::size_t>(rule)]), flat_(engine.flat(rule)), row_(row) {}

    Obstacle run() {
        Obstacle out;
        out.rule = index_;
        head_.assign(static_cast<std::size_t>(flat_.registers), 0);
        given_.assign(static_cast<std::size_t>(flat_.registers), 0);
        for (const auto& [reg, value] : flat_.constants) set(reg, value);
        const Table& head = engine_.relation(flat_.relation).table;
        for (std::size_t i = 0; i < row_.size(); ++i) {
            const auto reg = static_cast<std::size_t>(flat_.head[i]);
            if (given_[reg] && !head.same(static_cast<int>(i), head_[reg], row_[i])) {
                out.reason = "the head of this rule does not fit: column " + std::to_string(i + 1) + " differs";
                return out;
            }
            if (!given_[reg]) set(flat_.head[i], row_[i]);
        }
        order();
        std::vector<int> taken;
        std::vector<Value> best = head_;
        for (const int source : sources_) {
            taken.push_back(source);
            if (first(taken, true)) continue;
            if (first(taken, false)) {
                out.reason = "the body has answers, but none gives this head";
                note_bindings(out, taken, false);
                out.literal = instantiate(engine_, rule_, rule_.head, values_, known_);
                return out;
            }
            taken.pop_back();
            obstacle(out, taken, source);
            return out;
        }
        out.reason = "every literal can be satisfied: the row should be there (was it removed by subsumption, choice-domain or limitsize?)";
        return out;
    }

private:
    void set(Register r, Value value) {
        head_[static_cast<std::size_t>(r)] = value;
        given_[static_cast<std::size_t>(r)] = 1;
    }

    // Literals as written, but for those that need variables bound further on: these wait.
    void order() {
        std::vector<int> waiting;
        for (int i = 0; i < static_cast<int>(rule_.body.size()); ++i) waiting.push_back(i);
        while (!waiting.empty()) {
            const auto next = std::find_if(waiting.begin(), waiting.end(), [&](int source) {
                if (rule_.body[static_cast<std::size_t>(source)].kind == Literal::Kind::Atom) return true;
                std::vector<int> with = sources_;
                with.push_back(source);
                return grounded(with, true);
            });
            const auto chosen = next == waiting.end() ? waiting.begin() : next;
            sources_.push_back(*chosen);
            waiting.erase(chosen);
        }
    }

    // The flat literals of some source literals; those of the head too where they can be computed.
    std::vector<FlatLiteral> body(const std::vector<int>& sources, bool with_head) const {
        std::vector<FlatLiteral> out;
        for (const FlatLiteral& l : flat_.body)
            if (l.source < 0 ? with_head : std::find(sources.begin(), sources.end(), l.source) != sources.end()) out.push_back(l);
        return out;
    }

    // Which of the literals can be run, in any order, from the head's values?
    std::vector<FlatLiteral> runnable(std::vector<FlatLiteral> literals, bool& all_of_sources) const {
        std::vector<char> bound = given_;
        const auto is_bound = [&](Register r) { return r != kUnnamed && bound[static_cast<std::size_t>(r)]; };
        std::vector<FlatLiteral> out;
        for (bool progress = true; progress;) {
            progress = false;
            for (auto at = literals.begin(); at != literals.end(); ++at) {
                const bool args = std::all_of(at->args.begin(), at->args.end(), is_bound);
                bool ready = false;
                switch (at->kind) {
                    case Kind::Atom: ready = true; break;
                    case Kind::Compare: ready = at->compare == Compare::False || (is_bound(at->left) && is_bound(at->right)); break;
                    case Kind::Compute:
                    case Kind::Range: ready = args; break;
                    case Kind::Pack: ready = args || is_bound(at->result); break;
                    case Kind::Negation:
                    case Kind::Aggregate: ready = std::all_of(at->outer.begin(), at->outer.end(), is_bound); break;
                }
                if (!ready) continue;
                for (const Register r : at->args)
                    if (r != kUnnamed) bound[static_cast<std::size_t>(r)] = 1;
                if (at->result != kUnnamed) bound[static_cast<std::size_t>(at->result)] = 1;
                out.push_back(std::move(*at));
                literals.erase(at);
                progress = true;
                break;
            }
        }
        all_of_sources = std::all_of(literals.begin(), literals.end(), [](const FlatLiteral& l) { return l.source < 0; });
        return out;
    }
    bool grounded(const std::vector<int>& sources, bool with_head) const {
        bool all = false;
        runnable(body(sources, with_head), all);
        return all;
    }

    // visit(registers) for the bindings that satisfy these literals; true stops.
    void each(const std::vector<int>& sources, bool with_head, const std::function<bool(const std::vector<Value>&)>& visit) {
        bool all = false;
        FlatRule part;
        part.relation = flat_.relation;
        part.head = flat_.head;
        part.body = runnable(body(sources, with_head), all);
        part.registers = flat_.registers;
        part.constants = flat_.constants;
        const std::vector<char> none(engine_.program().relations.size(), 0);
        auto plan = make_plan({part, -1, none, Step::Kind::Visit, with_head ? flat_.head : given_in(part), false}, engine_.database());
        for (std::size_t r = 0; r < head_.size(); ++r)
            if (given_[r]) plan->registers[r] = head_[r];
        engine_.machine().each(*plan, [&]() { return visit(plan->registers); });
    }
    // Without the head's own computations its columns are still given, but for the ones that the head computes.
    std::vector<Register> given_in(const FlatRule& part) const {
        std::vector<Register> out;
        for (const Register r : part.head) {
            const bool computed = std::any_of(flat_.body.begin(), flat_.body.end(), [&](const FlatLiteral& l) { return l.source < 0 && l.result == r; });
            if (!computed) out.push_back(r);
        }
        if (out.empty()) out = part.head;
        return out;
    }
    bool first(const std::vector<int>& sources, bool with_head) {
        bool found = false;
        each(sources, with_head, [&](const std::vector<Value>&) { return found = true; });
        return found;
    }

    // Variables that the literals bind, with their values in `registers`.
    void take_bindings(Obstacle& out, const std::vector<int>& sources, const std::vector<Value>& registers) {
        std::vector<char> bound = given_;
        bool all = false;
        for (const FlatLiteral& l : runnable(body(sources, true), all)) {
            for (const Register r : l.args)
                if (r != kUnnamed) bound[static_cast<std::size_t>(r)] = 1;
            if (l.result != kUnnamed) bound[static_cast<std::size_t>(l.result)] = 1;
        }
        out.bindings.clear();
        values_.assign(rule_.variables.size(), 0);
        known_.assign(rule_.variables.size(), 0);
        const std::vector<char> global = global_variables(rule_);
        for (std::size_t v = 0; v < rule_.variables.size(); ++v) {
            const auto reg = static_cast<std::size_t>(flat_.of_variable[v]);
            if (!bound[reg] || !global[v]) continue;
            known_[v] = 1;
            values_[v] = registers[reg];
            if (rule_.variables[v].name.rfind('@', 0) != 0) out.bindings.emplace_back(static_cast<int>(v), registers[reg]);
        }
        bound_ = std::move(bound);
        registers_ = registers;
    }
    void note_bindings(Obstacle& out, const std::vector<int>& sources, bool with_head) {
        each(sources, with_head, [&](const std::vector<Value>& registers) {
            take_bindings(out, sources, registers);
            return true;
        });
    }

    // The literal that stops the bindings of `taken`: the binding that comes closest is shown.
    void obstacle(Obstacle& out, const std::vector<int>& taken, int source) {
        const Literal& literal = rule_.body[static_cast<std::size_t>(source)];
        const FlatLiteral* atom = nullptr;
        for (const FlatLiteral& l : flat_.body) {
            if (l.source != source) continue;
            if (l.kind == Kind::Atom) atom = &l;
            if (l.kind == Kind::Negation)
                for (const FlatLiteral& inner : l.body)
                    if (inner.kind == Kind::Atom) atom = &inner;
        }
        int best = -1, tried = 0;
        each(taken, true, [&](const std::vector<Value>& registers) {
            Obstacle candidate = out;
            take_bindings(candidate, taken, registers);
            const int score = atom ? near(candidate, *atom) : 0;
            if (score > best) {
                best = score;
                candidate.literal = instantiate(engine_, rule_, literal, values_, known_);
                out = std::move(candidate);
            }
            return ++tried >= kBindings;
        });
        switch (literal.kind) {
            case Literal::Kind::Atom: out.reason = "there is no such row"; break;
            case Literal::Kind::Negation: out.reason = "there is such a row"; break;
            case Literal::Kind::Comparison: out.reason = "the condition does not hold"; break;
            case Literal::Kind::Aggregate: out.reason = "the aggregate has another value, or none"; break;
        }
    }

    // Fill in the rows that agree with the atom in most columns; returns in how many.
    int near(Obstacle& out, const FlatLiteral& atom) {
        const RelationData& data = engine_.relation(atom.relation);
        out.relation = atom.relation;
        std::vector<std::pair<int, std::vector<Value>>> best;
        Row looked_at = 0;
        const auto look = [&](const Value* row) {
            int same = 0;
            for (std::size_t i = 0; i < atom.args.size(); ++i) {
                const Register r = atom.args[i];
                same += r != kUnnamed && bound_[static_cast<std::size_t>(r)] && registers_[static_cast<std::size_t>(r)] == row[i];
            }
            if (best.size() < kShown || same > best.back().first) {
                const auto at = std::find_if(best.begin(), best.end(), [&](const auto& b) { return b.first < same; });
                best.insert(at, {same, std::vector<Value>(row, row + atom.args.size())});
                if (best.size() > kShown) best.pop_back();
            }
            return ++looked_at >= kRowsLookedAt;
        };
        if (data.eqrel) {
            data.eqrel->all([&](Value left, Value right) {
                const Value row[2] = {left, right};
                return look(row);
            });
        } else {
            for (Row row = 0; row < data.table.visible; ++row)
                if (!data.table.dead(row) && look(data.table.row(row))) break;
        }
        out.nearest.clear();
        for (auto& [same, row] : best)
            if (same > 0 || atom.args.empty() || same == best.front().first) out.nearest.push_back(std::move(row));
        return best.empty() ? 0 : best.front().first;
    }

    Engine& engine_;
    int index_;
    const Rule& rule_;
    const FlatRule& flat_;
    const std::vector<Value>& row_;
    std::vector<Value> head_;   // registers that are known from the start
    std::vector<char> given_;
    std::vector<int> sources_;  // literals of the body in the order of the search
    std::vector<Value> values_; // by variable, of the binding last taken
    std::vector<char> known_;
    std::vector<Value> registers_;
    std::vector<char> bound_;
};

}  // namespace

std::vector<Obstacle> why_not(Engine& engine, int relation, const std::vector<Value>& row) {
    std::vector<Obstacle> out;
    const Rules& rules = engine.program().rules;
    for (std::size_t i = 0; i < rules.size(); ++i)
        if (rules[i].kind == Rule::Kind::Derive && rules[i].head.relation == relation)
            out.push_back(Search(engine, static_cast<int>(i), row).run());
    return out;
}

}  // namespace dl
