#include "outline.hpp"

#include <algorithm>

namespace dl {

Outline outline(const CoreProgram& program, std::vector<Stratum> strata) {
    Outline out;
    out.strata = strata.empty() ? stratify(program) : std::move(strata);
    for (const Directive& directive : program.directives) {
        if (directive.kind != Directive::Kind::LimitSize) continue;
        for (Stratum& stratum : out.strata)
            if (std::binary_search(stratum.relations.begin(), stratum.relations.end(), directive.relation)) stratum.monotone = false;
    }
    out.rules.resize(program.rules.size());
    for (std::size_t i = 0; i < program.rules.size(); ++i) {
        const Rule& rule = program.rules[i];
        out.rules[i].head = rule.head.relation;
        for (const Literal& literal : rule.body)
            if (literal.kind == Literal::Kind::Atom) out.rules[i].atoms.push_back(literal.atom.relation);
        out.side_effects = out.side_effects || has_side_effects(program, rule);
    }
    return out;
}

}  // namespace dl
