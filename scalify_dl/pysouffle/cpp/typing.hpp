// Types of everything in a clause, by constraints on sets of types.
#pragma once

#include <span>

#include "ast.hpp"
#include "declarations.hpp"
#include "scopes.hpp"
#include "types.hpp"

namespace dl {

// After `infer`, every argument of the clause has a slot (Argument::id; that of a variable is its index), and every
// slot a set of types.
class ClauseTypes {
public:
    // `kinds_only`: take every subtype for its base type, in clauses whose subtypes were checked before inlining.
    ClauseTypes(ast::Clause* clause, const std::vector<ClauseVariable>& variables, Declarations& declarations,
                bool kinds_only = false);

    // Is there a record of which nothing says what type it is?
    bool has_untyped_record() const;

    TypeSet of(const ast::Argument* argument) const { return slots_[argument->id]; }
    TypeSet of_variable(std::size_t index) const { return slots_[index]; }
    // The kind of value, once the clause passed `check_types`. What is not determined is a number.
    TypeKind kind(const ast::Argument* argument) const;
    TypeKind variable_kind(std::size_t index) const { return kind_of(slots_[index]); }
    // A type to name: the only one of the set, else the base type of its kind.
    TypeId type(const ast::Argument* argument) const { return type_of(slots_[argument->id]); }
    TypeId variable_type(std::size_t index) const { return type_of(slots_[index]); }

private:
    enum class Form : std::uint8_t { Sub, SameBase, Field, Overload };
    struct Constraint {
        Form form;
        std::int32_t a = -1, b = -1;        // slots
        std::int32_t field = 0;
        const ast::Argument* functor = nullptr;
    };

    std::int32_t slot(ast::Argument* argument);
    void limit(std::int32_t slot, TypeSet set) { slots_[slot] = types_->meet(slots_[slot], set); }
    TypeSet declared(TypeId type);
    void both_ways(std::int32_t a, std::int32_t b);
    void atom(ast::Atom* atom, bool sink);
    void literal(ast::Literal* literal);
    void argument(ast::Argument* argument);
    void functor(ast::Argument* argument);
    void solve();
    bool settle_one();
    bool update(const Constraint& constraint);
    bool update_same_base(std::int32_t a, std::int32_t b);
    bool update_field(const Constraint& constraint);
    bool update_overload(const Constraint& constraint);
    TypeSet literals_of(TypeSet set) const;
    TypeKind kind_of(TypeSet set) const;
    TypeId type_of(TypeSet set) const;

    Declarations* declarations_;
    TypeSystem* types_;
    bool kinds_only_;
    std::vector<TypeSet> slots_;
    std::vector<Constraint> constraints_;
    std::vector<std::int32_t> records_;  // slots of the record nodes
};

// One signature of a built-in functor.
struct Overload {
    std::span<const TypeKind> parameters;  // variadic: one for all
    TypeKind result;
    bool variadic = false;
    bool any_argument = false;             // ord
};

// All signatures of a functor node, in the order of preference.
std::vector<Overload> overloads(const ast::Argument* functor);

// Reports every type error of the clause.
void check_types(ast::Clause* clause, const std::vector<ClauseVariable>& variables, const ClauseTypes& types,
                 Declarations& declarations, Report& report);

}  // namespace dl
