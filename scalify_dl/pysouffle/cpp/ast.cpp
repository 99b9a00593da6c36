#include "ast.hpp"

#include <algorithm>
#include <cstring>

namespace dl::ast {

bool RelationDeclaration::has(Tok qualifier) const {
    return std::find(qualifiers.begin(), qualifiers.end(), qualifier) != qualifiers.end();
}

Component* Arena::make_component() {
    components_.push_back(std::make_unique<Component>());
    return components_.back().get();
}

Name Arena::keep(std::string_view text) {
    if (text.empty()) return {};
    char* place = static_cast<char*>(memory_.allocate(text.size(), 1));
    std::memcpy(place, text.data(), text.size());
    return {place, text.size()};
}

Argument* Arena::variable(Name name, Offset begin) {
    Argument* result = make<Argument>();
    result->kind = Argument::Kind::Variable;
    result->text = name;
    result->begin = begin;
    return result;
}

// Copying an object copies its lists to the default memory resource, so the lists are moved into the arena by hand.
Argument* Arena::copy(const Argument* argument) {
    Argument* result = make<Argument>();
    result->kind = argument->kind;
    result->op = argument->op;
    result->aggregate = argument->aggregate;
    result->to = argument->to;
    result->from = argument->from;
    result->from_fixed = argument->from_fixed;
    result->depth = argument->depth;
    result->begin = argument->begin;
    result->text = argument->text;
    for (const Argument* part : argument->args) result->args.push_back(copy(part));
    for (const Literal* literal : argument->body) result->body.push_back(copy(literal));
    return result;
}

Atom* Arena::copy(const Atom* atom) {
    Atom* result = make<Atom>();
    result->name = atom->name;
    result->begin = atom->begin;
    result->depth = atom->depth;
    for (const Argument* argument : atom->args) result->args.push_back(copy(argument));
    return result;
}

Literal* Arena::copy(const Literal* literal) {
    Literal* result = make<Literal>();
    result->kind = literal->kind;
    result->compare = literal->compare;
    result->depth = literal->depth;
    result->begin = literal->begin;
    if (literal->atom) result->atom = copy(literal->atom);
    if (literal->left) result->left = copy(literal->left);
    if (literal->right) result->right = copy(literal->right);
    for (const Literal* part : literal->parts) result->parts.push_back(copy(part));
    return result;
}

Clause* Arena::copy(const Clause* clause) {
    Clause* result = make<Clause>();
    result->kind = clause->kind;
    result->generated = clause->generated;
    result->begin = clause->begin;
    result->end = clause->end;
    result->plan = clause->plan;
    result->head = copy(clause->head);
    for (const Literal* literal : clause->body) result->body.push_back(copy(literal));
    return result;
}

}  // namespace dl::ast
