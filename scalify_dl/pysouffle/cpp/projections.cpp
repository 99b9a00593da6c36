#include "projections.hpp"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace dl {

using ast::Argument;

namespace {

bool is_unnamed(const Argument* a) { return a->kind == Argument::Kind::Unnamed; }

class Projections {
public:
    Projections(ast::Program& program, ast::Arena& arena) : program_(program), arena_(arena) {
        for (std::size_t i = 0; i < program.relations.size(); ++i) relations_.emplace(program.relations[i].name, i);
    }

    void run() {
        const auto visit = [&](Argument* a) {
            if (a->kind != Argument::Kind::Aggregate) return;
            const bool tells_tuples_apart = a->aggregate != dl::Aggregate::Min && a->aggregate != dl::Aggregate::Max;
            if (tells_tuples_apart && by_names(a)) body(a);
        };
        const std::vector<ast::Clause*> clauses = program_.clauses;  // grows meanwhile
        for (ast::Clause* clause : clauses) {
            ast::for_each(clause->head, visit);
            for (ast::Literal* l : clause->body) ast::for_each(l, visit);
        }
    }

private:
    static bool by_names(Argument* aggregate) {
        std::size_t atoms = 0;
        bool nested = false, repeated = false;
        for (ast::Literal* l : aggregate->body) {
            atoms += l->kind == ast::Literal::Kind::Atom;
            ast::for_each(l, [&](Argument* a) { nested |= a->kind == Argument::Kind::Aggregate; });
            if (l->kind != ast::Literal::Kind::Atom) continue;
            std::unordered_set<ast::Name> seen;
            ast::for_each(l, [&](Argument* a) {
                repeated |= a->kind == Argument::Kind::Variable && !seen.insert(a->text).second;
            });
        }
        return atoms > 1 || nested || (atoms == 1 && repeated);
    }

    void body(Argument* aggregate) {
        for (ast::Literal* l : aggregate->body) {
            if (l->kind != ast::Literal::Kind::Atom) continue;
            const ast::List<Argument*>& args = l->atom->args;
            auto found = relations_.find(l->atom->name);
            if (found == relations_.end() || std::none_of(args.begin(), args.end(), is_unnamed)) continue;
            if (program_.relations[found->second].attributes.size() != args.size()) continue;  // reported later
            l->atom = use(l->atom, found->second);
        }
    }

    ast::Atom* use(const ast::Atom* atom, std::size_t relation) {
        ast::Atom* result = arena_.make<ast::Atom>();
        result->name = projection(atom, relation);
        result->begin = atom->begin;
        result->depth = atom->depth;
        for (Argument* a : atom->args)
            if (!is_unnamed(a)) result->args.push_back(a);
        return result;
    }

    // The relation without the columns where the atom has `_`, made on first use.
    ast::Name projection(const ast::Atom* atom, std::size_t relation) {
        std::string name = "@" + std::string(atom->name) + ":";
        for (const Argument* a : atom->args) name += is_unnamed(a) ? '_' : 'x';
        if (auto found = made_.find(name); found != made_.end()) return found->second;

        ast::RelationDeclaration d;
        d.name = arena_.keep(name);
        d.begin = program_.relations[relation].begin;
        ast::Clause* rule = arena_.make<ast::Clause>();
        rule->kind = ast::Clause::Kind::Rule;
        rule->generated = true;
        rule->begin = atom->begin;
        rule->end = atom->begin;
        rule->head = arena_.make<ast::Atom>();
        rule->head->name = d.name;
        rule->head->begin = atom->begin;
        ast::Literal* source = arena_.make<ast::Literal>();
        source->begin = atom->begin;
        source->atom = arena_.make<ast::Atom>();
        source->atom->name = atom->name;
        source->atom->begin = atom->begin;
        for (std::size_t i = 0; i < atom->args.size(); ++i) {
            const ast::Attribute& attribute = program_.relations[relation].attributes[i];
            if (is_unnamed(atom->args[i])) {
                source->atom->args.push_back(arena_.copy(atom->args[i]));
                continue;
            }
            d.attributes.push_back(attribute);
            source->atom->args.push_back(arena_.variable(attribute.name, atom->begin));
            rule->head->args.push_back(arena_.variable(attribute.name, atom->begin));
        }
        rule->body.push_back(source);
        program_.clauses.push_back(rule);
        program_.relations.push_back(d);
        made_.emplace(name, d.name);
        return d.name;
    }

    ast::Program& program_;
    ast::Arena& arena_;
    std::unordered_map<ast::Name, std::size_t> relations_;
    std::unordered_map<std::string, ast::Name> made_;
};

}  // namespace

void project_unnamed_columns(ast::Program& program, ast::Arena& arena) { Projections(program, arena).run(); }

}  // namespace dl
