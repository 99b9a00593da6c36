// A rule in the shape that the planner wants: registers instead of variables and terms.
//
// Every variable, constant and intermediate result has a register. Arguments of atoms are registers only; what a
// nested term computes is a literal of its own (Compute, Pack). `x = y` between variables disappears: both get one
// register. `x = 5` makes x the constant's register.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core.hpp"
#include "symbols.hpp"

namespace dl {

using Register = std::int32_t;
inline constexpr Register kUnnamed = -1;

struct FlatLiteral {
    enum class Kind : std::uint8_t {
        Atom,       // relation(args)
        Negation,   // no row satisfies `body`
        Compare,    // left compare right
        Compute,    // result = op(args)
        Pack,       // result = [args]; read backwards it takes a record apart
        Range,      // result in range(args)
        Aggregate,  // result = aggregate target : { body }
    };
    Kind kind = Kind::Atom;
    TypeKind type = TypeKind::Number;
    TypeKind from = TypeKind::Number;
    TypeIndex type_index = 0;     // Compare: of both sides; Pack: of the record
    Op op = Op::Neg;
    Compare compare = Compare::True;
    Aggregate aggregate = Aggregate::Count;
    std::int32_t relation = -1;
    std::int32_t functor = -1;
    Register result = kUnnamed, target = kUnnamed, left = kUnnamed, right = kUnnamed;
    std::vector<Register> args;
    std::vector<FlatLiteral> body;
    std::vector<Register> outer;  // Negation, Aggregate: registers of the enclosing body that `body` needs
    int outer_count = 0;          // … of which are not constants
    std::int32_t source = -1;     // the literal of the core rule that this comes from; -1: the head
    bool for_head = false;        // computes something that only the head uses
};

struct FlatRule {
    std::int32_t relation = -1;  // of the head
    std::vector<Register> head;
    std::vector<FlatLiteral> body;
    std::int32_t registers = 0;
    std::vector<std::pair<Register, Value>> constants;
    std::vector<Register> of_variable;  // register of each Rule::variables entry
};

FlatRule flatten(const CoreProgram& program, const Rule& rule, Symbols& symbols);

// Visit every register that a literal reads or binds, those in nested bodies too.
template <class Visit>
void for_each_register(const FlatLiteral& literal, Visit&& visit) {
    for (const Register r : literal.args)
        if (r != kUnnamed) visit(r);
    for (const Register r : {literal.result, literal.target, literal.left, literal.right})
        if (r != kUnnamed) visit(r);
    for (const FlatLiteral& inner : literal.body) for_each_register(inner, visit);
}

}  // namespace dl
