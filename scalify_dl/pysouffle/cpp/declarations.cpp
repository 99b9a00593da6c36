#include "declarations.hpp"

#include <algorithm>
#include <unordered_set>

namespace dl {

namespace {

// Levenshtein distance, for short names.
std::size_t distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
        }
    }
    return row[b.size()];
}

}  // namespace

Declarations::Declarations(const ast::Program& program, Report& report) : types(program, report) {
    for (const auto& [key, value] : program.pragmas)
        if (key == "inline-exclude") exclude_from_inlining(value);
    relations.reserve(program.relations.size());
    for (const ast::RelationDeclaration& d : program.relations) declare_relation(d, report);
    for (const ast::FunctorDeclaration& d : program.functors) declare_functor(d, report);
    for (const ast::Clause* clause : program.clauses)
        if (clause->kind == ast::Clause::Kind::Subsumption)
            if (RelationInfo* r = relation(clause->head->name)) r->has_subsumption = true;
    for (const RelationInfo& r : relations)
        if (r.declaration->has(Tok::QBTreeDelete) && !r.has_subsumption)
            report.warning(r.declaration->begin, "no subsumptive rule for relation " + quote(r.declaration->name));
    check_directives(program, report);
}

void Declarations::exclude_from_inlining(std::string_view names) {
    while (!names.empty()) {
        const std::size_t end = std::min(names.find(','), names.size());
        not_inline_.insert(names.substr(0, end));
        names.remove_prefix(std::min(end + 1, names.size()));
    }
}

void Declarations::declare_relation(const ast::RelationDeclaration& d, Report& report) {
    if (types.is_declared(d.name)) report.error(d.begin, "relation " + quote(d.name) + " has the name of a type");
    if (!relation_names_.emplace(d.name, static_cast<std::int32_t>(relations.size())).second) {
        report.error(d.begin, "redefinition of relation " + quote(d.name));
        return;
    }
    RelationInfo info;
    info.declaration = &d;
    info.is_inline = d.has(Tok::QInline) && !d.has(Tok::QNoInline) && !not_inline_.count(d.name);
    std::unordered_map<ast::Name, int> seen;
    for (const ast::Attribute& a : d.attributes) {
        info.types.push_back(types.find(a.type));
        if (info.types.back() < 0)
            report.error(a.begin, "undefined type " + quote(a.type) + " of attribute " + quote(a.name),
                         "declare it with .type, or use number, unsigned, float or symbol");
        if (seen[a.name]++)
            report.error(a.begin, "doubly defined attribute name " + quote(a.name) + " in relation " + quote(d.name));
    }
    if (d.has(Tok::QEqrel)) {
        if (info.arity() != 2)
            report.error(d.begin, "equivalence relation " + quote(d.name) + " is not binary",
                         "eqrel relations have two attributes");
        else if (info.types[0] != info.types[1])
            report.error(d.begin, "the domains of equivalence relation " + quote(d.name) + " are different");
    }
    for (const ast::RelationDeclaration::Key& key : d.choice)
        for (ast::Name name : key.names)
            if (!seen.count(name))
                report.error(key.begin, "attribute " + quote(name) + " is not in relation " + quote(d.name));
    if (d.has(Tok::QBTreeDelete) && info.arity() == 0)
        report.error(d.begin, "subsumptive relation " + quote(d.name) + " must not be nullary");
    relations.push_back(std::move(info));
}

void Declarations::declare_functor(const ast::FunctorDeclaration& d, Report& report) {
    if (!functor_names_.emplace(d.name, static_cast<std::int32_t>(functors.size())).second) {
        report.error(d.begin, "redefinition of functor " + quote(d.name));
        return;
    }
    FunctorInfo info;
    info.declaration = &d;
    const auto type = [&](const ast::Attribute& a) {
        const TypeId result = types.find(a.type);
        if (result < 0) {
            report.error(a.begin, "undefined type " + quote(a.type) + " of functor " + quote(d.name));
        } else if (types.kind(result) > TypeKind::Symbol && !d.stateful) {
            report.error(a.begin, "functors that are not stateful cannot use records and ADTs", "write 'stateful' after the declaration");
        }
        return result;
    };
    for (const ast::Attribute& a : d.parameters) info.parameters.push_back(type(a));
    info.result = type(d.result);
    functors.push_back(std::move(info));
}

void Declarations::check_directives(const ast::Program& program, Report& report) {
    std::unordered_set<ast::Name> sized;
    for (const ast::DirectiveDeclaration& d : program.directives) {
        const RelationInfo* r = relation(d.relation);
        if (!r) {
            report.error(d.begin, "undefined relation " + quote(d.relation), similar_relation(d.relation));
        } else if (r->is_inline && d.kind != Directive::Kind::LimitSize) {
            report.error(d.begin, "relation " + quote(d.relation) + " is inlined, so it cannot be read or written",
                         "remove 'inline' from its declaration");
        }
        if (d.kind == Directive::Kind::PrintSize && !sized.insert(d.relation).second)
            report.error(d.begin, "redefinition of the printsize directive of relation " + quote(d.relation), "one is enough");
        if (d.kind == Directive::Kind::LimitSize) {
            const bool has_n = std::any_of(d.parameters.begin(), d.parameters.end(), [](const auto& p) {
                return p.first == "n" && !p.second.empty() &&
                       std::all_of(p.second.begin(), p.second.end(), [](char c) { return c >= '0' && c <= '9'; });
            });
            if (!has_n)
                report.error(d.begin, "limitsize directive of relation " + quote(d.relation) + " has no limit",
                             "write .limitsize " + std::string(d.relation) + "(n=1000)");
        }
    }
}

const RelationInfo* Declarations::relation(ast::Name name) const {
    auto found = relation_names_.find(name);
    return found == relation_names_.end() ? nullptr : &relations[found->second];
}

const RelationInfo* Declarations::relation(const ast::Atom* atom) const {
    if (atom->relation == -2) {
        const RelationInfo* found = relation(atom->name);
        atom->relation = found ? static_cast<std::int32_t>(found - relations.data()) : -1;
    }
    return atom->relation < 0 ? nullptr : &relations[static_cast<std::size_t>(atom->relation)];
}

RelationInfo* Declarations::relation(ast::Name name) {
    return const_cast<RelationInfo*>(std::as_const(*this).relation(name));
}

std::int32_t Declarations::functor(ast::Name name) const {
    auto found = functor_names_.find(name);
    return found == functor_names_.end() ? -1 : found->second;
}

std::string Declarations::similar_relation(ast::Name name) const {
    if (name.size() > 40 || relations.size() > 5000) return {};
    std::size_t best = name.size() / 3 + 1;
    ast::Name found;
    for (const RelationInfo& r : relations) {
        const ast::Name candidate = r.declaration->name;
        if (candidate.size() > name.size() + best || name.size() > candidate.size() + best) continue;
        if (const std::size_t d = distance(name, candidate); d < best) {
            best = d;
            found = candidate;
        }
    }
    return found.empty() ? "declare it with .decl" : "is " + quote(found) + " meant?";
}

}  // namespace dl
