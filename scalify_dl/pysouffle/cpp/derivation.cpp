#include "derivation.hpp"

#include <nanobind/stl/string.h>

#include <map>

#include "text.hpp"

namespace dl {

namespace {

constexpr int kDeepest = 20000;

class Numbering {
public:
    explicit Numbering(Engine& engine) : engine_(engine), scalars_(engine.program(), engine.database()) {}

    const nb::list& values() const { return values_; }

    std::size_t number(TypeIndex index, Value value, int depth = 0) {
        if (depth > kDeepest) throw nb::value_error("a record nested more than 20,000 deep");
        const Type& type = engine_.program().types[static_cast<std::size_t>(index)];
        const bool nested = type.kind == TypeKind::Record || type.kind == TypeKind::Adt;
        auto& known = known_[nested ? index : static_cast<TypeIndex>(-1 - static_cast<int>(type.kind))];
        const auto found = known.find(value);
        if (found != known.end()) return found->second;
        nb::object item;
        if (!nested || (type.kind == TypeKind::Record && value == 0)) item = scalars_.decode(index, value);
        else if (type.kind == TypeKind::Record) item = fields(type.fields, engine_.database().records.fields(value), depth);
        else item = branch(type, value, depth);
        return known[value] = add(std::move(item));
    }

private:
    std::size_t add(nb::object item) {
        values_.append(std::move(item));
        return nb::len(values_) - 1;
    }
    nb::object fields(const std::vector<Field>& declared, std::span<const Value> span, int depth) {
        const std::vector<Value> values(span.begin(), span.end());
        nb::list out;
        for (std::size_t i = 0; i < declared.size(); ++i) out.append(number(declared[i].type, values[i], depth + 1));
        return out;
    }
    nb::object branch(const Type& type, Value value, int depth) {
        const auto span = Text::is_enumeration(type) ? std::span<const Value>() : engine_.database().records.fields(value);
        const Branch& branch = type.branches[static_cast<std::size_t>(span.empty() ? value : span[0])];
        auto& name = names_[branch.name];
        if (name == 0) name = 1 + add(nb::str(branch.name.c_str()));
        const std::size_t held = add(fields(branch.fields, span.empty() ? span : span.subspan(1), depth));
        nb::list out;
        out.append(name - 1);
        out.append(held);
        return out;
    }

    Engine& engine_;
    PythonValues scalars_;
    nb::list values_;
    std::unordered_map<TypeIndex, std::unordered_map<Value, std::size_t>> known_;  // by type; base types by kind
    std::map<std::string, std::size_t> names_;  // of branches; their numbers + 1
};

}  // namespace

nb::tuple as_python(Engine& engine, const std::vector<ProofNode>& derivation) {
    Numbering numbering(engine);
    nb::dict names;
    nb::list steps;
    for (const ProofNode& node : derivation) {
        nb::list premises, values;
        const int rule = node.kind == ProofNode::Kind::Rule ? node.rule : -1;
        if (rule >= 0) {
            const std::vector<Variable>& variables = engine.program().rules[static_cast<std::size_t>(rule)].variables;
            if (!names.contains(rule)) {
                nb::list own;
                for (const auto& bound : node.bindings) own.append(variables[static_cast<std::size_t>(bound.first)].name);
                names[nb::int_(rule)] = own;
            }
            for (const auto& [variable, value] : node.bindings) values.append(numbering.number(variables[static_cast<std::size_t>(variable)].type, value));
            for (const int p : node.premises) premises.append(p);
        } else {
            const std::vector<Attribute>& attributes = engine.declaration(node.relation).attributes;
            for (std::size_t i = 0; i < attributes.size(); ++i) values.append(numbering.number(attributes[i].type, node.row[i]));
        }
        steps.append(nb::make_tuple(node.relation, rule, premises, values));
    }
    return nb::make_tuple(numbering.values(), names, steps);
}

}  // namespace dl
