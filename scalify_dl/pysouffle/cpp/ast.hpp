// The syntax tree. Nodes live in an arena and are never freed one by one, so trees can share parts and be copied
// cheaply, and destroying a deep tree needs no recursion. Names are views into the source text or the arena.
#pragma once

#include <memory>
#include <memory_resource>
#include <string_view>
#include <utility>
#include <vector>

#include "core.hpp"
#include "source.hpp"
#include "token.hpp"

namespace dl::ast {

using Name = std::string_view;
template <class T>
using List = std::pmr::vector<T>;

// Bounds every recursion over the tree; programs of people stay far below.
inline constexpr int kMaxDepth = 1000;

struct Atom;
struct Literal;

struct Argument {
    enum class Kind : std::uint8_t {
        Variable,   // text
        Unnamed,
        String,     // text: the value
        Number,     // text: as written, perhaps with '-' before it; no type of its own
        Unsigned,   // text without the suffix
        Float,
        Nil,
        Counter,    // autoinc()
        Iteration,  // __ITERATION__()
        Record,     // args
        Branch,     // text(args)
        Cast,       // as(args[0], text)
        Functor,    // op(args)
        User,       // @text(args)
        Aggregate,  // aggregate args[0] (if any) : { body }
    };
    explicit Argument(std::pmr::memory_resource* memory) : args(memory), body(memory) {}

    Kind kind = Kind::Unnamed;
    Op op = Op::Neg;
    dl::Aggregate aggregate = dl::Aggregate::Count;
    TypeKind to = TypeKind::Number;    // Op::Convert
    TypeKind from = TypeKind::Number;  // Op::Convert with `from_fixed` (itou and its kin): the type of the argument
    bool from_fixed = false;
    std::uint16_t depth = 1;                                // height of the tree below
    std::int32_t id = -1;                                   // used by the pass at hand
    Offset begin = 0;
    Name text;
    List<Argument*> args;
    List<Literal*> body;
};

struct Atom {
    explicit Atom(std::pmr::memory_resource* memory) : args(memory) {}

    Name name;
    Offset begin = 0;
    std::uint16_t depth = 1;
    mutable std::int32_t relation = -2;  // its place among the declarations (-1: none), kept by them once it was asked for
    List<Argument*> args;
};

struct Literal {
    enum class Kind : std::uint8_t {
        Atom, Negation,  // atom
        Comparison,      // compare: left, right (none for True and False)
        And, Or, Not,    // parts; only before `disjunctive_normal_form`
    };
    explicit Literal(std::pmr::memory_resource* memory) : parts(memory) {}

    Kind kind = Kind::Atom;
    Compare compare = Compare::True;
    std::uint16_t depth = 1;
    Offset begin = 0;
    Atom* atom = nullptr;
    Argument* left = nullptr;
    Argument* right = nullptr;
    List<Literal*> parts;
};

struct Clause {
    enum class Kind : std::uint8_t { Fact, Rule, Subsumption };
    explicit Clause(std::pmr::memory_resource* memory) : body(memory) {}

    Kind kind = Kind::Fact;
    bool generated = false;      // a further clause of a rule with several heads or a disjunction
    Offset begin = 0, end = 0;   // where it is written
    Name plan;                   // text of `.plan`
    Atom* head = nullptr;
    List<Literal*> body;         // Subsumption: the dominated atom, the dominating atom, then what was written
};

struct Attribute {
    Name name, type;
    Offset begin = 0;  // of the type
};

struct TypeDeclaration {
    enum class Kind : std::uint8_t { Subset, Union, Alias, Record, Adt };
    struct Branch {
        Name name;
        Offset begin = 0;
        std::vector<Attribute> fields;
    };

    Kind kind = Kind::Subset;
    Name name;
    Offset begin = 0;
    std::vector<Name> types;  // Subset, Alias: one; Union: all
    std::vector<Attribute> fields;
    std::vector<Branch> branches;
};

struct RelationDeclaration {
    struct Key {
        std::vector<Name> names;
        Offset begin = 0;
    };

    Name name;
    Offset begin = 0;
    std::vector<Attribute> attributes;
    std::vector<Tok> qualifiers;
    std::vector<Key> choice;

    bool has(Tok qualifier) const;
};

struct DirectiveDeclaration {
    dl::Directive::Kind kind = dl::Directive::Kind::Input;
    Name relation;
    Offset begin = 0;
    std::vector<std::pair<std::string, std::string>> parameters;
};

struct FunctorDeclaration {
    Name name;
    Offset begin = 0;
    std::vector<Attribute> parameters;
    Attribute result;
    bool stateful = false;
};

struct ComponentType {
    Name name;
    Offset begin = 0;
    std::vector<Name> arguments;
};

struct Instantiation {
    Name name;
    Offset begin = 0;
    ComponentType component;
};

struct Component;

// What a program, or the body of a component, declares.
struct Scope {
    std::vector<TypeDeclaration> types;
    std::vector<RelationDeclaration> relations;
    std::vector<Clause*> clauses;
    std::vector<DirectiveDeclaration> directives;
    std::vector<Instantiation> instantiations;
    std::vector<Component*> components;
    std::vector<std::pair<Name, Offset>> overrides;
};

struct Component {
    ComponentType type;
    std::vector<ComponentType> bases;
    Scope scope;
};

struct Program : Scope {
    std::vector<FunctorDeclaration> functors;
    std::vector<std::pair<std::string, std::string>> pragmas;
};

// Owns every node.
class Arena {
public:
    template <class T>
    T* make() {
        void* place = memory_.allocate(sizeof(T), alignof(T));
        return new (place) T(&memory_);
    }
    Component* make_component();
    Name keep(std::string_view text);  // a copy that lives as long as the arena
    Argument* variable(Name name, Offset begin);

    Argument* copy(const Argument* argument);
    Atom* copy(const Atom* atom);
    Literal* copy(const Literal* literal);
    Clause* copy(const Clause* clause);

private:
    std::pmr::monotonic_buffer_resource memory_{1 << 16};
    std::vector<std::unique_ptr<Component>> components_;
};

// Calls `visit(argument)` for every argument in the tree, an argument before its parts, aggregate bodies included.
template <class Visit>
void for_each(Literal* literal, Visit&& visit);

template <class Visit>
void for_each(Argument* argument, Visit&& visit) {
    visit(argument);
    for (Argument* part : argument->args) for_each(part, visit);
    for (Literal* literal : argument->body) for_each(literal, visit);
}

template <class Visit>
void for_each(Atom* atom, Visit&& visit) {
    for (Argument* argument : atom->args) for_each(argument, visit);
}

template <class Visit>
void for_each(Literal* literal, Visit&& visit) {
    if (literal->atom) for_each(literal->atom, visit);
    if (literal->left) for_each(literal->left, visit);
    if (literal->right) for_each(literal->right, visit);
    for (Literal* part : literal->parts) for_each(part, visit);
}

}  // namespace dl::ast
