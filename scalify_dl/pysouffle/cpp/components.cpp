#include "components.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace dl {

using ast::Component;
using ast::Name;

namespace {

constexpr int kMaxDepth = 400;
constexpr std::size_t kMaxContent = 500'000;

using Names = std::unordered_map<Name, Name>;

Name first_part(Name qualified) { return qualified.substr(0, qualified.find('.')); }

// Component names are looked up in the component at hand, in those that it inherits from, then in those around it.
class Lookup {
public:
    explicit Lookup(const ast::Program& program) : program_(program) {
        for (const Component* c : program.components) enclose(c);
    }

    const Component* find(const Component* scope, Name name, const Names& parameters) const {
        if (auto bound = parameters.find(name); bound != parameters.end()) name = bound->second;
        std::unordered_set<const Component*> seen;
        for (const Component* s = scope; s; s = enclosing(s))
            if (const Component* found = inherited(s, name, parameters, seen)) return found;
        return among(program_.components, name);
    }
    const Component* enclosing(const Component* c) const {
        auto found = enclosing_.find(c);
        return found == enclosing_.end() ? nullptr : found->second;
    }

private:
    // In the component itself, or in those that it inherits from. A cycle of these is an error of its own.
    const Component* inherited(const Component* c, Name name, const Names& parameters,
                               std::unordered_set<const Component*>& seen) const {
        if (!seen.insert(c).second) return nullptr;
        if (const Component* found = among(c->scope.components, name)) return found;
        for (const ast::ComponentType& use : c->bases) {
            if (use.name == name) continue;
            const Component* base = find(enclosing(c), use.name, parameters);
            if (!base) continue;
            if (const Component* found = inherited(base, name, parameters, seen)) return found;
        }
        return nullptr;
    }
    void enclose(const Component* outer) {
        for (const Component* inner : outer->scope.components) {
            enclosing_[inner] = outer;
            enclose(inner);
        }
    }
    static const Component* among(const std::vector<Component*>& components, Name name) {
        for (const Component* c : components)
            if (c->type.name == name) return c;
        return nullptr;
    }

    const ast::Program& program_;
    std::unordered_map<const Component*, const Component*> enclosing_;
};

class Checker {
public:
    Checker(const ast::Program& program, const Lookup& lookup, Report& report)
        : program_(program), lookup_(lookup), report_(report) {}

    void run() {
        names();
        for (const Component* c : program_.components) component(c, {});
        for (const ast::Instantiation& i : program_.instantiations) reference(nullptr, i.component, {});
    }

private:
    // Components and instances share one space of names with types and relations.
    void names() {
        std::unordered_set<Name> seen;
        for (const auto& t : program_.types) seen.insert(t.name);
        for (const auto& r : program_.relations) seen.insert(r.name);
        for (const Component* c : program_.components)
            if (!seen.insert(c->type.name).second)
                report_.error(c->type.begin, "name clash on component " + quote(c->type.name));
        for (const ast::Instantiation& i : program_.instantiations)
            if (!seen.insert(i.name).second) report_.error(i.begin, "name clash on instance " + quote(i.name));
    }

    const Component* reference(const Component* scope, const ast::ComponentType& type, const Names& parameters) {
        if (parameters.count(type.name)) return nullptr;  // known only when the component is instantiated
        const Component* c = lookup_.find(scope, type.name, parameters);
        if (!c) {
            report_.error(type.begin, "referencing undefined component " + quote(type.name));
        } else if (c->type.arguments.size() != type.arguments.size()) {
            report_.error(type.begin, "invalid number of type parameters for component " + quote(type.name) + ": " +
                                          std::to_string(c->type.arguments.size()) + " expected, " +
                                          std::to_string(type.arguments.size()) + " given");
        }
        return c;
    }

    void component(const Component* c, Names parameters) {
        for (Name p : c->type.arguments) parameters[p] = p;
        const Component* around = lookup_.enclosing(c);
        for (const ast::ComponentType& base : c->bases) reference(around, base, parameters);
        overrides(c);
        for (const Component* inner : c->scope.components) component(inner, parameters);
        for (const ast::Instantiation& i : c->scope.instantiations) reference(c, i.component, parameters);
    }

    void overrides(const Component* c) {
        std::vector<const Component*> ancestors;
        std::unordered_set<const Component*> seen;
        std::vector<const Component*> open{c};
        while (!open.empty()) {
            const Component* at = open.back();
            open.pop_back();
            for (const ast::ComponentType& base : at->bases) {
                const Component* b = lookup_.find(lookup_.enclosing(at), base.name, {});
                if (b == c) {
                    report_.error(c->type.begin, "invalid cycle in the inheritance of component " + quote(c->type.name));
                    return;
                }
                if (b && seen.insert(b).second) {
                    ancestors.push_back(b);
                    open.push_back(b);
                }
            }
        }
        const auto declared = [](const Component* where, Name name) -> const ast::RelationDeclaration* {
            for (const auto& r : where->scope.relations)
                if (r.name == name) return &r;
            return nullptr;
        };
        for (const auto& [name, begin] : c->scope.overrides) {
            if (declared(c, name)) {
                report_.error(begin, "override of the non-inherited relation " + quote(name) + " in component " + quote(c->type.name));
                continue;
            }
            for (const Component* ancestor : ancestors)
                if (const ast::RelationDeclaration* r = declared(ancestor, name); r && !r->has(Tok::QOverridable))
                    report_.error(begin, "override of the non-overridable relation " + quote(name) + " in component " + quote(c->type.name),
                                  "declare it overridable in component " + std::string(ancestor->type.name));
        }
    }

    const ast::Program& program_;
    const Lookup& lookup_;
    Report& report_;
};

class Instantiation {
public:
    Instantiation(const Lookup& lookup, ast::Arena& arena, Report& report) : lookup_(lookup), arena_(arena), report_(report) {}

    // Everything that the instance contributes to the scope around it, under qualified names.
    ast::Scope instance(const ast::Instantiation& init, const Component* scope, const Names& outer, int depth) {
        ast::Scope content;
        if (depth > kMaxDepth) {
            report_.error(init.begin, "components are instantiated more than " + std::to_string(kMaxDepth) + " levels deep",
                          "does a component instantiate itself?");
            report_.throw_if_errors();
        }
        const Component* c = lookup_.find(scope, init.component.name, outer);
        if (!c) {
            report_.error(init.component.begin, "referencing undefined component " + quote(init.component.name));
            return content;
        }
        const Names parameters = bind(c, init.component, outer);
        for (const ast::Instantiation& nested : c->scope.instantiations)
            append(content, instance(nested, c, parameters, depth + 1));
        collect(c, parameters, {}, content, depth);
        qualify(init.name, content);
        return content;
    }

    // Clauses whose relation was found in no instance: they belong to relations outside.
    std::vector<ast::Clause*> take_orphans() { return std::move(orphans_); }

private:
    static Names bind(const Component* c, const ast::ComponentType& use, const Names& outer) {
        Names result = outer;
        for (std::size_t i = 0; i < c->type.arguments.size() && i < use.arguments.size(); ++i) {
            auto bound = outer.find(use.arguments[i]);
            result[c->type.arguments[i]] = bound == outer.end() ? use.arguments[i] : bound->second;
        }
        return result;
    }

    void append(ast::Scope& to, ast::Scope from) {
        const auto move = [](auto& a, auto& b) {
            a.insert(a.end(), std::make_move_iterator(b.begin()), std::make_move_iterator(b.end()));
        };
        move(to.types, from.types);
        move(to.relations, from.relations);
        move(to.clauses, from.clauses);
        move(to.directives, from.directives);
    }

    void collect(const Component* c, const Names& parameters, const std::unordered_set<Name>& overridden,
                 ast::Scope& content, int depth) {
        std::unordered_set<Name> hidden = overridden;
        for (const auto& [name, begin] : c->scope.overrides) hidden.insert(name);
        for (const ast::ComponentType& use : c->bases) {
            const Component* base = lookup_.find(lookup_.enclosing(c), use.name, parameters);
            if (!base) {
                report_.error(use.begin, "referencing undefined component " + quote(use.name));
                continue;
            }
            const Names inherited = bind(base, use, parameters);
            for (const ast::Instantiation& nested : base->scope.instantiations)
                append(content, instance(nested, base, inherited, depth + 1));
            collect(base, inherited, hidden, content, depth + 1);
        }

        const auto forward = [&](Name& name) {
            if (auto bound = parameters.find(name); bound != parameters.end()) name = bound->second;
        };
        for (ast::TypeDeclaration type : c->scope.types) {
            forward(type.name);
            for (Name& name : type.types) forward(name);
            for (ast::Attribute& field : type.fields) forward(field.type);
            for (ast::TypeDeclaration::Branch& branch : type.branches) {
                forward(branch.name);
                for (ast::Attribute& field : branch.fields) forward(field.type);
            }
            content.types.push_back(std::move(type));
        }
        for (ast::RelationDeclaration relation : c->scope.relations) {
            for (ast::Attribute& attribute : relation.attributes) forward(attribute.type);
            content.relations.push_back(std::move(relation));
        }
        content.directives.insert(content.directives.end(), c->scope.directives.begin(), c->scope.directives.end());

        std::unordered_set<Name> known;
        for (const auto& r : content.relations) known.insert(r.name);
        for (const ast::Clause* clause : c->scope.clauses) {
            if (overridden.count(first_part(clause->head->name))) continue;
            ast::Clause* copy = arena_.copy(clause);
            for_each_argument(copy, [&](ast::Argument* a) {
                if (a->kind == ast::Argument::Kind::Cast) forward(a->text);
            });
            (known.count(clause->head->name) ? content.clauses : orphans_).push_back(copy);
        }
        const auto found = std::stable_partition(orphans_.begin(), orphans_.end(),
                                                 [&](const ast::Clause* o) { return !known.count(o->head->name); });
        content.clauses.insert(content.clauses.end(), found, orphans_.end());
        orphans_.erase(found, orphans_.end());

        made_ += c->scope.clauses.size() + c->scope.relations.size() + 1;
        if (made_ > kMaxContent) {
            report_.error(c->type.begin, "the instances of components grow beyond " + std::to_string(kMaxContent) + " rules and relations");
            report_.throw_if_errors();
        }
    }

    template <class Visit>
    static void for_each_argument(ast::Clause* clause, Visit&& visit) {
        ast::for_each(clause->head, visit);
        for (ast::Literal* l : clause->body) ast::for_each(l, visit);
    }
    template <class Visit>
    static void for_each_atom(ast::Clause* clause, Visit&& visit) {
        visit(clause->head);
        const auto literals = [&](const ast::List<ast::Literal*>& list) {
            for (ast::Literal* l : list)
                if (l->atom) visit(l->atom);
        };
        literals(clause->body);
        for_each_argument(clause, [&](ast::Argument* a) { literals(a->body); });
    }

    // Puts the name of the instance before everything declared in it, and before its uses.
    void qualify(Name instance, ast::Scope& content) {
        Names types, relations;
        const auto declare = [&](Names& names, Name& name) {
            const Name qualified = arena_.keep(std::string(instance) + "." + std::string(name));
            names[name] = qualified;
            name = qualified;
        };
        for (ast::TypeDeclaration& type : content.types) {
            declare(types, type.name);
            for (ast::TypeDeclaration::Branch& branch : type.branches) declare(types, branch.name);
        }
        for (ast::RelationDeclaration& relation : content.relations) declare(relations, relation.name);

        const auto rename = [](const Names& names, Name& name) {
            if (auto found = names.find(name); found != names.end()) name = found->second;
        };
        for (ast::TypeDeclaration& type : content.types) {
            for (Name& name : type.types) rename(types, name);
            for (ast::Attribute& field : type.fields) rename(types, field.type);
            for (ast::TypeDeclaration::Branch& branch : type.branches)
                for (ast::Attribute& field : branch.fields) rename(types, field.type);
        }
        for (ast::RelationDeclaration& relation : content.relations)
            for (ast::Attribute& attribute : relation.attributes) rename(types, attribute.type);
        for (ast::DirectiveDeclaration& directive : content.directives) rename(relations, directive.relation);
        for (const std::vector<ast::Clause*>* clauses : {&content.clauses, &orphans_})
            for (ast::Clause* clause : *clauses) {
                for_each_atom(clause, [&](ast::Atom* atom) { rename(relations, atom->name); });
                for_each_argument(clause, [&](ast::Argument* a) {
                    if (a->kind == ast::Argument::Kind::Cast || a->kind == ast::Argument::Kind::Branch) rename(types, a->text);
                });
            }
    }

    const Lookup& lookup_;
    ast::Arena& arena_;
    Report& report_;
    std::vector<ast::Clause*> orphans_;
    std::size_t made_ = 0;
};

}  // namespace

void instantiate_components(ast::Program& program, ast::Arena& arena, Report& report) {
    if (program.components.empty() && program.instantiations.empty()) return;
    const Lookup lookup(program);
    const std::size_t errors = report.error_count();
    Checker(program, lookup, report).run();
    if (report.error_count() > errors) return;

    Instantiation instantiation(lookup, arena, report);
    for (const ast::Instantiation& init : program.instantiations) {
        ast::Scope content = instantiation.instance(init, nullptr, {}, 0);
        const auto move = [](auto& to, auto& from) {
            to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
        };
        move(program.types, content.types);
        move(program.relations, content.relations);
        move(program.clauses, content.clauses);
        move(program.directives, content.directives);
        std::vector<ast::Clause*> orphans = instantiation.take_orphans();
        move(program.clauses, orphans);
    }
}

}  // namespace dl
