#include "strata.hpp"

#include <algorithm>

namespace dl {

namespace {

// Tarjan's algorithm with an explicit stack: components come out dependencies first.
std::vector<std::vector<int>> components(const std::vector<std::vector<int>>& needs) {
    const int n = static_cast<int>(needs.size());
    std::vector<int> number(static_cast<std::size_t>(n), -1), low(static_cast<std::size_t>(n), 0), open;
    std::vector<char> on_stack(static_cast<std::size_t>(n), 0);
    std::vector<std::vector<int>> out;
    struct Frame {
        int node;
        std::size_t next;
    };
    int counter = 0;
    std::vector<Frame> frames;
    for (int root = 0; root < n; ++root) {
        if (number[static_cast<std::size_t>(root)] >= 0) continue;
        frames.push_back({root, 0});
        while (!frames.empty()) {
            const int node = frames.back().node;
            const auto v = static_cast<std::size_t>(node);
            if (frames.back().next == 0 && number[v] < 0) {
                number[v] = low[v] = counter++;
                open.push_back(node);
                on_stack[v] = 1;
            }
            if (frames.back().next < needs[v].size()) {
                const auto w = static_cast<std::size_t>(needs[v][frames.back().next++]);
                if (number[w] < 0) frames.push_back({static_cast<int>(w), 0});
                else if (on_stack[w]) low[v] = std::min(low[v], number[w]);
                continue;
            }
            frames.pop_back();
            if (!frames.empty()) {
                const auto parent = static_cast<std::size_t>(frames.back().node);
                low[parent] = std::min(low[parent], low[v]);
            }
            if (low[v] != number[v]) continue;
            out.emplace_back();
            for (int member = -1; member != node;) {
                member = open.back();
                open.pop_back();
                on_stack[static_cast<std::size_t>(member)] = 0;
                out.back().push_back(member);
            }
            std::sort(out.back().begin(), out.back().end());
        }
    }
    return out;
}

bool side_effect(const CoreProgram& program, const Term& term) {
    if (term.kind == Term::Kind::Functor) {
        if (term.op == Op::AutoInc) return true;
        if (term.op == Op::User && program.functors[static_cast<std::size_t>(term.functor)].stateful) return true;
    }
    return std::any_of(term.args.begin(), term.args.end(), [&](const Term& t) { return side_effect(program, t); });
}

bool side_effect(const CoreProgram& program, const std::vector<Literal>& body) {
    for (const Literal& literal : body) {
        for (const Term& term : literal.atom.args)
            if (side_effect(program, term)) return true;
        if (side_effect(program, literal.left) || side_effect(program, literal.right) || side_effect(program, literal.target)) return true;
        if (side_effect(program, literal.body)) return true;
    }
    return false;
}

void keep_unique(std::vector<int>& values) {
    std::sort(values.begin(), values.end());
    values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

bool has_side_effects(const CoreProgram& program, const Rule& rule) {
    for (const Term& term : rule.head.args)
        if (side_effect(program, term)) return true;
    return side_effect(program, rule.body);
}

std::vector<Stratum> stratify(const CoreProgram& program) {
    std::vector<std::vector<int>> needs(program.relations.size());
    for (const Rule& rule : program.rules) {
        auto& of_head = needs[static_cast<std::size_t>(rule.head.relation)];
        for_each_atom(rule.body, true, [&](int relation, bool) {
            if (rule.kind == Rule::Kind::Subsume && relation == rule.head.relation) return;
            of_head.push_back(relation);
        });
    }
    std::vector<std::vector<int>> sorted = needs;
    for (auto& list : sorted) keep_unique(list);

    std::vector<Stratum> strata;
    std::vector<int> stratum_of(program.relations.size());
    for (auto& members : components(sorted)) {
        Stratum stratum;
        stratum.relations = std::move(members);
        const int first = stratum.relations.front();
        const auto& own = sorted[static_cast<std::size_t>(first)];
        stratum.recursive = stratum.relations.size() > 1 || std::binary_search(own.begin(), own.end(), first);
        for (const int relation : stratum.relations) {
            stratum_of[static_cast<std::size_t>(relation)] = static_cast<int>(strata.size());
            if (!program.relations[static_cast<std::size_t>(relation)].choice.empty()) stratum.monotone = false;
        }
        strata.push_back(std::move(stratum));
    }
    for (std::size_t i = 0; i < program.rules.size(); ++i) {
        const Rule& rule = program.rules[i];
        const int at = stratum_of[static_cast<std::size_t>(rule.head.relation)];
        Stratum& stratum = strata[static_cast<std::size_t>(at)];
        if (rule.kind == Rule::Kind::Subsume) {
            stratum.subsumptions.push_back(static_cast<int>(i));
            stratum.monotone = false;
        } else {
            stratum.rules.push_back(static_cast<int>(i));
        }
        for_each_atom(rule.body, true, [&](int relation, bool positive) {
            if (stratum_of[static_cast<std::size_t>(relation)] == at) return;
            (positive ? stratum.positive : stratum.other).push_back(relation);
        });
    }
    for (Stratum& stratum : strata) {
        keep_unique(stratum.positive);
        keep_unique(stratum.other);
    }
    return strata;
}

}  // namespace dl
