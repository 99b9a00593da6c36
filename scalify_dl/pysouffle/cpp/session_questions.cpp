// What is asked after a run: why a row was derived, why not, and what it hangs on.
#include "conditions.hpp"
#include "derivation.hpp"
#include "session.hpp"
#include "why_not.hpp"

namespace dl {

nb::tuple Session::explain(int relation, nb::handle rows) {
    std::vector<std::vector<Value>> values;
    for (nb::handle row : rows) values.push_back(encode_row(relation, row));
    std::vector<ProofNode> nodes;
    std::vector<int> roots;
    {
        const Running running(*this);
        nb::gil_scoped_release release;
        nodes = provenance_->explain(relation, values, roots);
    }
    PythonValues decode(engine_.program(), engine_.database());
    constexpr const char* kinds[] = {"fact", "rule", "equivalence", "unknown"};
    nb::list out;
    for (const ProofNode& node : nodes) {
        nb::list premises, conditions;
        for (const int p : node.premises) premises.append(p);
        for (const std::string& c : node.conditions) conditions.append(shown(c));
        out.append(nb::make_tuple(kinds[static_cast<int>(node.kind)], node.relation, decode.decode_row(engine_.declaration(node.relation), node.row.data()),
                                  node.rule, bindings(decode, node.rule, node.bindings), premises, conditions));
    }
    return nb::make_tuple(out, roots);
}

nb::tuple Session::derivation(const std::vector<std::pair<int, nb::list>>& wanted, const std::vector<int>& leaves) {
    const std::vector<Rows> rows = encode_rows(wanted);
    std::vector<char> leaf(engine_.program().relations.size(), 0);
    for (const int relation : leaves) leaf[static_cast<std::size_t>(relation)] = 1;
    std::vector<ProofNode> nodes;
    {
        const Running running(*this);
        nb::gil_scoped_release release;
        if (!provenance_) provenance_ = std::make_unique<Provenance>(engine_);
        nodes = provenance_->derivation(rows, leaf);
    }
    return as_python(engine_, nodes);
}

int Session::height(int relation, nb::handle row) { return provenance_->height(relation, encode_row(relation, row).data()); }

bool Session::contains(int relation, nb::handle row) { return engine_.relation(relation).contains(encode_row(relation, row).data()); }

nb::list Session::why_not(int relation, nb::handle row) {
    const std::vector<Value> values = encode_row(relation, row);
    if (!engine_.complete()) throw EvaluationError("explanations need a complete run: run the program first");
    std::vector<Obstacle> obstacles;
    {
        const Running running(*this);
        nb::gil_scoped_release release;
        obstacles = dl::why_not(engine_, relation, values);
    }
    PythonValues decode(engine_.program(), engine_.database());
    nb::list out;
    for (const Obstacle& o : obstacles) {
        nb::list nearest;
        for (const auto& near : o.nearest) nearest.append(decode.decode_row(engine_.declaration(o.relation), near.data()));
        out.append(nb::make_tuple(o.rule, shown(o.literal), o.reason, bindings(decode, o.rule, o.bindings), o.relation, nearest));
    }
    return out;
}

nb::list Session::conditions(const std::vector<std::pair<int, nb::list>>& wanted) {
    const std::vector<Rows> rows = encode_rows(wanted);
    std::vector<Decision> decisions;
    {
        const Running running(*this);
        nb::gil_scoped_release release;
        ProofConditions conditions(engine_, *provenance_);
        for (const Rows& of : rows) conditions.add(of.relation, of.rows);
        decisions = conditions.decisions();
    }
    constexpr const char* kinds[] = {"less", "less_equal", "not_equal", "equal", "integer"};
    nb::list out;
    for (const Decision& d : decisions) {
        const Condition& c = engine_.database().formulas->conditions()[static_cast<std::size_t>(d.condition)];
        const Rule& rule = engine_.program().rules[static_cast<std::size_t>(d.rule)];
        const std::string file = rule.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(rule.position.file)] : "";
        out.append(nb::make_tuple(kinds[static_cast<int>(c.kind)], c.left, c.right, shown(rule.text), file, rule.position.line));
    }
    return out;
}

nb::list Session::bindings(PythonValues& decode, int rule, const std::vector<std::pair<int, Value>>& bound) {
    nb::list out;
    for (const auto& [variable, value] : bound) {
        const Variable& v = engine_.program().rules[static_cast<std::size_t>(rule)].variables[static_cast<std::size_t>(variable)];
        out.append(nb::make_tuple(v.name, decode.decode(v.type, value)));
    }
    return out;
}

}  // namespace dl
