#include "anonymous_records.hpp"

#include <algorithm>

namespace dl {

using ast::Argument;

namespace {

constexpr std::size_t kMaxNodes = 5'000;  // r1 = [r0, r0], r2 = [r1, r1], ... doubles at every step

bool is_equation(const ast::Literal* l) {
    return l->kind == ast::Literal::Kind::Comparison && l->compare == Compare::Equal;
}

bool splits(const ast::Literal* l) {
    return is_equation(l) && l->left->kind == Argument::Kind::Record && l->right->kind == Argument::Kind::Record &&
           l->left->args.size() == l->right->args.size();
}

void split(ast::List<ast::Literal*>& body, ast::Arena& arena) {
    if (std::none_of(body.begin(), body.end(), splits)) return;
    std::vector<ast::Literal*> open(body.rbegin(), body.rend()), done;
    while (!open.empty()) {
        ast::Literal* l = open.back();
        open.pop_back();
        if (!splits(l)) {
            done.push_back(l);
            continue;
        }
        for (std::size_t i = l->left->args.size(); i-- > 0;) {
            Argument *left = l->left->args[i], *right = l->right->args[i];
            if (left->kind == Argument::Kind::Unnamed || right->kind == Argument::Kind::Unnamed) continue;
            ast::Literal* part = arena.make<ast::Literal>();
            part->kind = ast::Literal::Kind::Comparison;
            part->compare = Compare::Equal;
            part->begin = l->begin;
            part->depth = l->depth;
            part->left = left;
            part->right = right;
            open.push_back(part);
        }
    }
    body.assign(done.begin(), done.end());
}

std::size_t replace(Argument*& a, ast::Name name, const Argument* record, ast::Arena& arena) {
    if (a->kind == Argument::Kind::Variable && a->text == name) a = arena.copy(record);
    std::size_t nodes = 1;
    for (Argument*& part : a->args) nodes += replace(part, name, record, arena);
    for (ast::Literal* l : a->body) {
        if (l->atom)
            for (Argument*& part : l->atom->args) nodes += replace(part, name, record, arena);
        if (l->left) nodes += replace(l->left, name, record, arena) + replace(l->right, name, record, arena);
    }
    return nodes;
}

bool mentions(Argument* a, ast::Name name) {
    bool result = false;
    ast::for_each(a, [&](Argument* part) { result |= part->kind == Argument::Kind::Variable && part->text == name; });
    return result;
}

}  // namespace

void split_record_equations(ast::Clause* clause, ast::Arena& arena) {
    split(clause->body, arena);
    for (ast::Literal* l : clause->body)
        ast::for_each(l, [&](Argument* a) {
            if (!a->body.empty()) split(a->body, arena);
        });
}

bool substitute_records(ast::Clause* clause, ast::Arena& arena) {
    bool changed = false;
    for (std::size_t i = 0; i < clause->body.size(); ++i) {
        ast::Literal* l = clause->body[i];
        if (!is_equation(l)) continue;
        Argument *variable = l->left, *record = l->right;
        if (variable->kind != Argument::Kind::Variable) std::swap(variable, record);
        if (variable->kind != Argument::Kind::Variable || record->kind != Argument::Kind::Record) continue;
        const ast::Name name = variable->text;
        if (mentions(record, name)) continue;
        clause->body.erase(clause->body.begin() + static_cast<std::ptrdiff_t>(i));
        std::size_t nodes = 0;
        for (Argument*& a : clause->head->args) nodes += replace(a, name, record, arena);
        for (ast::Literal* other : clause->body) {
            if (other->atom)
                for (Argument*& a : other->atom->args) nodes += replace(a, name, record, arena);
            if (other->left) nodes += replace(other->left, name, record, arena) + replace(other->right, name, record, arena);
        }
        changed = true;
        if (nodes > kMaxNodes) break;
        split_record_equations(clause, arena);
        i = static_cast<std::size_t>(-1);  // splitting may have made new equations
    }
    return changed;
}

}  // namespace dl
