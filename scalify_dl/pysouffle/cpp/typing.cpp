#include "typing.hpp"

#include <algorithm>

namespace dl {

using ast::Argument;

namespace {

using enum TypeKind;

constexpr TypeKind kNumbers[] = {Number, Number, Number};
constexpr TypeKind kUnsigneds[] = {Unsigned, Unsigned, Unsigned};
constexpr TypeKind kFloats[] = {Float, Float, Float};
constexpr TypeKind kSymbols[] = {Symbol, Symbol, Symbol};
constexpr TypeKind kSubStr[] = {Symbol, Number, Number};

std::span<const TypeKind> repeated(TypeKind kind, std::size_t count) {
    const TypeKind* kinds = kind == Number ? kNumbers : kind == Unsigned ? kUnsigneds : kind == Float ? kFloats : kSymbols;
    return {kinds, std::min<std::size_t>(count, 3)};
}

bool is_infix(Op op) {
    switch (op) {
        case Op::Neg: case Op::BitNot: case Op::LogicNot: case Op::Cat: case Op::StrLen: case Op::SubStr: case Op::Ord:
        case Op::Convert: case Op::Range: case Op::Max: case Op::Min: return false;
        default: return true;
    }
}

}  // namespace

std::vector<Overload> overloads(const Argument* functor) {
    std::vector<Overload> result;
    const auto same = [&](std::initializer_list<TypeKind> kinds, bool variadic = false) {
        for (TypeKind kind : kinds)
            result.push_back({repeated(kind, variadic ? 1 : functor->args.size()), kind, variadic, false});
    };
    switch (functor->op) {
        case Op::Neg: same({Number, Float}); break;
        case Op::Add: same({Number, Unsigned, Float, Symbol}); break;  // of symbols: cat
        case Op::Sub: case Op::Mul: case Op::Div: case Op::Exp: case Op::Range:
            same({Number, Unsigned, Float});
            break;
        case Op::Max: case Op::Min: same({Number, Unsigned, Float, Symbol}, true); break;
        case Op::Cat: same({Symbol}, true); break;
        case Op::StrLen: result.push_back({repeated(Symbol, 1), Number}); break;
        case Op::SubStr: result.push_back({kSubStr, Symbol}); break;
        case Op::Ord: result.push_back({repeated(Number, 1), Number, false, true}); break;
        case Op::Convert:
            for (TypeKind from : {Number, Unsigned, Float, Symbol})
                if (!functor->from_fixed || functor->from == from) result.push_back({repeated(from, 1), functor->to});
            break;
        default: same({Number, Unsigned}); break;  // bits, logic, remainder
    }
    return result;
}

ClauseTypes::ClauseTypes(ast::Clause* clause, const std::vector<ClauseVariable>& variables, Declarations& declarations,
                         bool kinds_only)
    : declarations_(&declarations), types_(&declarations.types), kinds_only_(kinds_only) {
    slots_.assign(variables.size(), kAnyType);
    atom(clause->head, true);
    for (ast::Literal* l : clause->body) literal(l);
    solve();
    while (settle_one()) solve();
}

std::int32_t ClauseTypes::slot(Argument* argument) {
    if (argument->kind != Argument::Kind::Variable) {
        argument->id = static_cast<std::int32_t>(slots_.size());
        slots_.push_back(kAnyType);
        this->argument(argument);
    }
    return argument->id;
}

TypeSet ClauseTypes::declared(TypeId type) {
    const TypeKind kind = types_->kind(type);
    return types_->set_of(kinds_only_ && kind <= Symbol ? TypeSystem::literal(kind) : type);
}

void ClauseTypes::both_ways(std::int32_t a, std::int32_t b) {
    constraints_.push_back({Form::Sub, a, b});
    constraints_.push_back({Form::Sub, b, a});
}

// A sink takes values (heads, negated atoms): only the kind of an attribute's type is asked for. Elsewhere the
// attribute says what the argument is.
void ClauseTypes::atom(ast::Atom* atom, bool sink) {
    const RelationInfo* relation = declarations_->relation(atom);
    const bool known = relation && relation->arity() == atom->args.size();
    for (std::size_t i = 0; i < atom->args.size(); ++i) {
        const std::int32_t at = slot(atom->args[i]);
        const TypeId type = known ? relation->types[i] : -1;
        if (type < 0) continue;
        const TypeKind kind = types_->kind(type);
        if (!sink || kind == Record) limit(at, declared(type));
        else if (kind != Adt) limit(at, types_->set_of(TypeSystem::literal(kind)));
    }
}

void ClauseTypes::literal(ast::Literal* literal) {
    if (literal->atom) {
        atom(literal->atom, literal->kind == ast::Literal::Kind::Negation);
    } else if (literal->left) {
        const std::int32_t left = slot(literal->left);
        both_ways(left, slot(literal->right));
    }
}

void ClauseTypes::argument(Argument* a) {
    const std::int32_t at = a->id;
    const auto one = [&](TypeKind kind) { limit(at, types_->set_of(TypeSystem::literal(kind))); };
    const auto numeric = [&] { limit(at, types_->set_of({kNumberLiteral, kUnsignedLiteral, kFloatLiteral})); };
    using Kind = Argument::Kind;
    switch (a->kind) {
        case Kind::String: one(Symbol); break;
        case Kind::Number: numeric(); break;
        case Kind::Unsigned: case Kind::Iteration: one(Unsigned); break;
        case Kind::Float: one(Float); break;
        case Kind::Counter: one(Number); break;
        case Kind::Variable: case Kind::Unnamed: case Kind::Nil: break;
        case Kind::Record:
            records_.push_back(at);
            for (std::size_t i = 0; i < a->args.size(); ++i)
                constraints_.push_back({Form::Field, slot(a->args[i]), at, static_cast<std::int32_t>(i)});
            break;
        case Kind::Branch: {
            const TypeSystem::BranchRef ref = types_->find_branch(a->text);
            if (ref.type >= 0) limit(at, types_->set_of(ref.type));
            for (std::size_t i = 0; i < a->args.size(); ++i) {
                const std::int32_t part = slot(a->args[i]);
                if (ref.type < 0) continue;
                const std::vector<TypeId>& fields = types_->info(ref.type).branches[ref.branch].fields;
                if (fields.size() == a->args.size() && fields[i] >= 0) limit(part, declared(fields[i]));
            }
            break;
        }
        case Kind::Cast: {
            const TypeId type = types_->find(a->text);
            const std::int32_t value = slot(a->args[0]);
            if (type < 0) break;
            limit(at, declared(type));
            switch (a->args[0]->kind) {  // a literal takes its type from the cast
                case Kind::String: case Kind::Number: case Kind::Unsigned: case Kind::Float: case Kind::Nil:
                case Kind::Record:
                    limit(value, declared(type));
                    break;
                default: break;
            }
            break;
        }
        case Kind::Functor: functor(a); break;
        case Kind::User: {
            const std::int32_t index = declarations_->functor(a->text);
            const FunctorInfo* info = index < 0 ? nullptr : &declarations_->functors[index];
            for (std::size_t i = 0; i < a->args.size(); ++i) {
                const std::int32_t part = slot(a->args[i]);
                if (info && info->parameters.size() == a->args.size() && info->parameters[i] >= 0)
                    limit(part, declared(info->parameters[i]));
            }
            if (info && info->result >= 0) limit(at, declared(info->result));
            break;
        }
        case Kind::Aggregate:
            if (a->aggregate == dl::Aggregate::Count) one(Number);
            else if (a->aggregate == dl::Aggregate::Mean) one(Float);
            else numeric();
            if (!a->args.empty()) both_ways(slot(a->args[0]), at);
            for (ast::Literal* l : a->body) literal(l);
            break;
    }
}

void ClauseTypes::functor(Argument* a) {
    const std::int32_t at = a->id;
    for (Argument* part : a->args) {
        const std::int32_t p = slot(part);
        if (is_infix(a->op)) constraints_.push_back({Form::SameBase, p, at});
    }
    Constraint c{Form::Overload, at};
    c.functor = a;
    constraints_.push_back(c);
}

// ---------------------------------------------------------------- solving

void ClauseTypes::solve() {
    // A few rounds over all constraints settle nearly every clause.
    bool changed = true;
    for (int round = 0; changed && round < 4; ++round) {
        changed = false;
        for (const Constraint& c : constraints_) changed |= update(c);
    }
    if (!changed) return;

    // Long chains: look again only at the constraints on slots that changed.
    std::vector<std::vector<std::size_t>> uses(slots_.size());
    const auto slots_of = [](const Constraint& c, auto&& visit) {
        visit(c.a);
        if (c.b >= 0) visit(c.b);
        if (c.functor)
            for (const Argument* part : c.functor->args) visit(part->id);
    };
    std::vector<std::size_t> open;
    for (std::size_t i = constraints_.size(); i-- > 0;) {
        slots_of(constraints_[i], [&](std::int32_t slot) { uses[slot].push_back(i); });
        open.push_back(i);
    }
    while (!open.empty()) {
        const Constraint& c = constraints_[open.back()];
        open.pop_back();
        if (!update(c)) continue;
        slots_of(c, [&](std::int32_t slot) { open.insert(open.end(), uses[slot].begin(), uses[slot].end()); });
    }
}

// What is still open between several kinds of literals gets the first of them: 1 is a number unless something says
// otherwise. Returns whether there was anything to settle.
bool ClauseTypes::settle_one() {
    for (TypeSet& set : slots_) {
        const std::vector<TypeId>& members = types_->members(set);
        if (members.size() < 2 || members.back() > kSymbolLiteral) continue;
        set = types_->set_of(members.front());
        return true;
    }
    return false;
}

bool ClauseTypes::update(const Constraint& c) {
    switch (c.form) {
        case Form::Sub: {
            const TypeSet met = types_->meet(slots_[c.a], slots_[c.b]);
            const bool changed = met != slots_[c.a];
            slots_[c.a] = met;
            return changed;
        }
        case Form::SameBase: return update_same_base(c.a, c.b);
        case Form::Field: return update_field(c);
        case Form::Overload: return update_overload(c);
    }
    return false;
}

// The literal types above the members that are no records or ADTs.
TypeSet ClauseTypes::literals_of(TypeSet set) const {
    std::vector<TypeId> result;
    for (TypeId t : types_->members(set))
        if (types_->kind(t) <= Symbol) result.push_back(TypeSystem::literal(types_->kind(t)));
    return types_->set_of(std::move(result));
}

bool ClauseTypes::update_same_base(std::int32_t a, std::int32_t b) {
    const TypeSet left = slots_[a], right = slots_[b];
    if (left == kAnyType && right == kAnyType) return false;
    if (left == kAnyType) {
        slots_[a] = literals_of(right);
    } else if (right == kAnyType) {
        slots_[b] = literals_of(left);
    } else {
        const TypeSet common = types_->meet(literals_of(left), literals_of(right));
        slots_[a] = types_->meet(left, common);
        slots_[b] = types_->meet(right, common);
    }
    return slots_[a] != left || slots_[b] != right;
}

bool ClauseTypes::update_field(const Constraint& c) {
    const TypeSet records = slots_[c.b];
    if (records == kAnyType) return false;
    std::vector<TypeId> kept, fields;
    for (TypeId t : types_->members(records)) {
        if (types_->kind(t) != Record) continue;
        const std::vector<TypeId>& of_record = types_->info(t).fields;
        if (of_record.size() <= static_cast<std::size_t>(c.field)) continue;
        kept.push_back(t);
        if (of_record[c.field] < 0) return false;
        fields.push_back(types_->members(declared(of_record[c.field])).front());
    }
    const TypeSet element = types_->meet(slots_[c.a], types_->set_of(std::move(fields)));
    const TypeSet record = types_->set_of(std::move(kept));
    const bool changed = element != slots_[c.a] || record != records;
    slots_[c.a] = element;
    slots_[c.b] = record;
    return changed;
}

bool ClauseTypes::update_overload(const Constraint& c) {
    const Argument* f = c.functor;
    const auto possible = [&](TypeKind kind, std::int32_t slot) {
        const TypeSet set = slots_[slot];
        if (set == kAnyType) return true;
        const std::vector<TypeId>& members = types_->members(set);
        return std::any_of(members.begin(), members.end(), [&](TypeId t) { return types_->kind(t) == kind; });
    };
    const Overload* only = nullptr;
    std::size_t count = 0;
    const std::vector<Overload> all = overloads(f);
    for (const Overload& o : all) {
        bool fits = possible(o.result, c.a);
        for (std::size_t i = 0; fits && !o.any_argument && i < f->args.size(); ++i)
            fits = possible(o.parameters[o.variadic ? 0 : i], f->args[i]->id);
        if (fits && count++ == 0) only = &o;
    }
    if (count > 1) {
        // The result may tell already what it can be.
        std::vector<TypeId> results;
        for (const Overload& o : all) results.push_back(TypeSystem::literal(o.result));
        const TypeSet before = slots_[c.a];
        limit(c.a, types_->set_of(std::move(results)));
        return slots_[c.a] != before;
    }
    bool changed = false;
    const auto narrow = [&](std::int32_t slot, TypeSet set) {
        const TypeSet before = slots_[slot];
        limit(slot, set);
        changed |= slots_[slot] != before;
    };
    if (count == 0) {
        narrow(c.a, kNoType);
        return changed;
    }
    for (std::size_t i = 0; !only->any_argument && i < f->args.size(); ++i)
        narrow(f->args[i]->id, types_->set_of(TypeSystem::literal(only->parameters[only->variadic ? 0 : i])));
    narrow(c.a, types_->set_of(TypeSystem::literal(only->result)));
    return changed;
}

// ---------------------------------------------------------------- results

TypeKind ClauseTypes::kind_of(TypeSet set) const {
    const std::vector<TypeId>& members = types_->members(set);
    return members.empty() ? Number : types_->kind(members.front());
}

TypeId ClauseTypes::type_of(TypeSet set) const {
    const std::vector<TypeId>& members = types_->members(set);
    if (members.size() == 1) return members.front() < 4 ? members.front() + 4 : members.front();
    const TypeKind kind = kind_of(set);
    if (kind > Symbol) return members.front();
    return TypeSystem::literal(kind) + 4;
}

bool ClauseTypes::has_untyped_record() const {
    return std::any_of(records_.begin(), records_.end(), [&](std::int32_t slot) { return slots_[slot] == kAnyType; });
}

TypeKind ClauseTypes::kind(const Argument* argument) const { return kind_of(slots_[argument->id]); }

}  // namespace dl
