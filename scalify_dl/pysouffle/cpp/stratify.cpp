#include "stratify.hpp"

#include <algorithm>

namespace dl {

namespace {

enum class Through : std::uint8_t { Atom, Negation, Aggregate };

struct Edge {
    std::int32_t to;
    Through through;
    Offset begin;
};

struct Graph {
    std::vector<std::vector<Edge>> edges;  // relation -> relations in the bodies of its clauses
    std::vector<std::int32_t> component;
    std::vector<bool> recursive;           // by component
};

class Builder {
public:
    explicit Builder(const Declarations& declarations) : declarations_(declarations) {}

    Graph run(const std::vector<ast::Clause*>& clauses) {
        graph_.edges.resize(declarations_.relations.size());
        for (ast::Clause* clause : clauses) {
            from_ = index(clause->head);
            if (from_ < 0) continue;
            for (ast::Argument* a : clause->head->args) aggregates(a);
            for (ast::Literal* l : clause->body) literal(l, false);
        }
        components();
        return std::move(graph_);
    }

    std::int32_t index(const ast::Atom* atom) const {
        const RelationInfo* r = declarations_.relation(atom);
        return r ? static_cast<std::int32_t>(r - declarations_.relations.data()) : -1;
    }

private:
    void literal(ast::Literal* l, bool aggregate) {
        if (l->atom) {
            const Through through = l->kind == ast::Literal::Kind::Negation ? Through::Negation
                                    : aggregate                            ? Through::Aggregate
                                                                           : Through::Atom;
            if (std::int32_t to = index(l->atom); to >= 0) graph_.edges[from_].push_back({to, through, l->atom->begin});
            for (ast::Argument* a : l->atom->args) aggregates(a);
        }
        if (l->left) aggregates(l->left);
        if (l->right) aggregates(l->right);
    }
    void aggregates(ast::Argument* a) {
        for (ast::Argument* part : a->args) aggregates(part);
        for (ast::Literal* l : a->body) literal(l, true);
    }

    // Tarjan's algorithm with a stack of its own: chains of rules may be long.
    void components() {
        const std::size_t n = graph_.edges.size();
        graph_.component.assign(n, -1);
        std::vector<std::int32_t> number(n, -1), low(n, 0), stack;
        struct Frame {
            std::int32_t node;
            std::size_t edge;
        };
        std::int32_t next = 0, count = 0;
        for (std::size_t root = 0; root < n; ++root) {
            if (number[root] >= 0) continue;
            std::vector<Frame> frames{{static_cast<std::int32_t>(root), 0}};
            while (!frames.empty()) {
                Frame& f = frames.back();
                const std::int32_t v = f.node;
                if (f.edge == 0) {
                    number[v] = low[v] = next++;
                    stack.push_back(v);
                }
                if (f.edge < graph_.edges[v].size()) {
                    const std::int32_t w = graph_.edges[v][f.edge++].to;
                    if (number[w] < 0) frames.push_back({w, 0});
                    else if (graph_.component[w] < 0) low[v] = std::min(low[v], number[w]);
                    continue;
                }
                if (low[v] == number[v]) {
                    std::size_t size = 0;
                    std::int32_t w;
                    do {
                        w = stack.back();
                        stack.pop_back();
                        graph_.component[w] = count;
                        ++size;
                    } while (w != v);
                    bool loop = size > 1;
                    for (const Edge& e : graph_.edges[v]) loop |= e.to == v;
                    graph_.recursive.push_back(loop);
                    ++count;
                }
                frames.pop_back();
                if (!frames.empty()) low[frames.back().node] = std::min(low[frames.back().node], low[v]);
            }
        }
    }

    const Declarations& declarations_;
    Graph graph_;
    std::int32_t from_ = -1;
};

// A shortest way from `from` to `to` within one component, as text: "b -> !c -> a".
std::string path(const Graph& graph, const Declarations& declarations, std::int32_t from, std::int32_t to) {
    std::vector<std::pair<std::int32_t, Through>> origin(graph.edges.size(), {-1, Through::Atom});
    std::vector<std::int32_t> queue{from};
    std::vector<bool> seen(graph.edges.size(), false);
    seen[from] = true;
    for (std::size_t i = 0; i < queue.size() && !seen[to]; ++i)
        for (const Edge& e : graph.edges[queue[i]])
            if (!seen[e.to] && graph.component[e.to] == graph.component[from]) {
                seen[e.to] = true;
                origin[e.to] = {queue[i], e.through};
                queue.push_back(e.to);
            }
    std::vector<std::string> steps;
    for (std::int32_t at = to; at != from; at = origin[at].first) {
        const char* mark = origin[at].second == Through::Negation ? "!" : "";
        steps.push_back(mark + std::string(declarations.relations[at].declaration->name));
    }
    std::string result;
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) result += " -> " + *step;
    return result;
}

// A rule has a version for each atom of its own stratum, and one if there is none: `.plan 0:(…), 1:(…)`.
void check_versions(const ast::Clause* clause, std::size_t versions, Report& report) {
    const std::string_view plan = clause->plan;
    for (std::size_t i = 0, depth = 0; i < plan.size(); ++i) {
        depth += plan[i] == '(';
        depth -= plan[i] == ')';
        if (depth > 0 || plan[i] < '0' || plan[i] > '9') continue;
        std::size_t number = 0;
        for (; i < plan.size() && plan[i] >= '0' && plan[i] <= '9'; ++i) number = std::min<std::size_t>(number * 10 + static_cast<std::size_t>(plan[i] - '0'), 1u << 20);
        --i;
        if (number >= versions)
            report.error(clause->begin, ".plan orders version " + std::to_string(number) + " of this rule, which has " + std::to_string(versions),
                         "versions are counted from 0, one for each atom of the rule's own stratum");
    }
}

}  // namespace

void check_stratification(const std::vector<ast::Clause*>& clauses, const Declarations& declarations, Report& report) {
    Builder builder(declarations);
    const Graph graph = builder.run(clauses);
    std::vector<bool> reported(graph.recursive.size(), false);
    for (std::size_t r = 0; r < graph.edges.size(); ++r)
        for (const Edge& e : graph.edges[r]) {
            const std::int32_t component = graph.component[r];
            if (e.through == Through::Atom || graph.component[e.to] != component || reported[component]) continue;
            reported[component] = true;
            const std::string name(declarations.relations[r].declaration->name);
            const std::string next(declarations.relations[e.to].declaration->name);
            const bool negation = e.through == Through::Negation;
            report.error(e.begin,
                         "unable to stratify: relation '" + name + "' depends on itself through " +
                             (negation ? "negation" : "aggregation") + ": " + name + " -> " + (negation ? "!" : "aggregate of ") +
                             next + path(graph, declarations, e.to, static_cast<std::int32_t>(r)),
                         "negated and aggregated relations must be complete before the rule is used");
        }

    for (ast::Clause* clause : clauses) {
        const std::int32_t head = builder.index(clause->head);
        if (head < 0) continue;
        const auto recursive = std::count_if(clause->body.begin(), clause->body.end(), [&](const ast::Literal* l) {
            const std::int32_t to = l->atom ? builder.index(l->atom) : -1;
            return to >= 0 && graph.recursive[graph.component[head]] && graph.component[to] == graph.component[head];
        });
        check_versions(clause, std::max<std::size_t>(static_cast<std::size_t>(recursive), 1), report);
        if (recursive == 0) continue;
        const auto visit = [&](ast::Argument* a) {
            if (a->kind == ast::Argument::Kind::Counter) report.error(a->begin, "auto-increment functor in a recursive rule");
        };
        ast::for_each(clause->head, visit);
        for (ast::Literal* l : clause->body) ast::for_each(l, visit);
    }
}

std::vector<std::int32_t> inline_order(const std::vector<ast::Clause*>& clauses, const Declarations& declarations, Report& report) {
    std::vector<ast::Clause*> inlined;
    for (ast::Clause* clause : clauses)
        if (const RelationInfo* r = declarations.relation(clause->head); r && r->is_inline) inlined.push_back(clause);
    Graph graph = Builder(declarations).run(inlined);
    std::vector<std::int32_t> order;
    for (std::size_t r = 0; r < graph.edges.size(); ++r) {
        if (!declarations.relations[r].is_inline) continue;
        const auto relation = static_cast<std::int32_t>(r);
        if (graph.recursive[graph.component[r]]) {
            std::string cycle(declarations.relations[r].declaration->name);
            for (const Edge& e : graph.edges[r])
                if (graph.component[e.to] == graph.component[r]) {
                    cycle += " -> " + std::string(declarations.relations[e.to].declaration->name) +
                             path(graph, declarations, e.to, relation);
                    break;
                }
            report.error(declarations.relations[r].declaration->begin, "cannot inline cyclically dependent relations: " + cycle);
            graph.recursive[graph.component[r]] = false;  // once per cycle
        }
        order.push_back(relation);
    }
    // Tarjan numbers a component after all that it reaches.
    std::sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) { return graph.component[a] < graph.component[b]; });
    return order;
}

}  // namespace dl
