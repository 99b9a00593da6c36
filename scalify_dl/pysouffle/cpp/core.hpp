// The core program: what the language front end hands to the evaluator.
//
// Everything that is only notation is gone here: includes, macros, components, type aliases, subtypes,
// unions, inline relations, disjunction, several heads. Names are qualified ("inst.rel"), variables are
// numbers, every functor and comparison carries the type it works on.
//
// Invariants that the front end guarantees:
//  - every relation index, type index and variable index is valid, every atom has the arity of its relation;
//  - every rule is grounded, and negation and aggregation are stratified;
//  - a variable that is local to an aggregate has an index of its own, used nowhere outside that aggregate;
//    a variable that occurs outside an aggregate too is bound outside it (in Soufflé's terms: injected or outer);
//  - `_` is Term::Unnamed, never a variable, and occurs only as an argument of an atom or a pattern;
//  - generators (`range`) occur only as one side of an Equal comparison whose other side is a variable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "diagnostic.hpp"
#include "rules.hpp"

namespace dl {

using Value = std::int64_t;  // number; unsigned and float by bits; symbol, record and ADT values by identity

struct Position {
    std::int32_t file = -1;  // index in CoreProgram::files
    std::int32_t line = 0;   // 1-based
    std::int32_t column = 0;
};

// ---------------------------------------------------------------- types

using TypeIndex = std::int32_t;

enum class TypeKind : std::uint8_t { Number, Unsigned, Float, Symbol, Record, Adt };

struct Field {
    std::string name;
    TypeIndex type = 0;
};

struct Branch {
    std::string name;
    std::vector<Field> fields;
};

struct Type {
    TypeKind kind = TypeKind::Number;
    std::string name;              // qualified name as written; the four base types come first, under their own names
    std::vector<Field> fields;     // Record
    std::vector<Branch> branches;  // Adt, sorted by branch name (Soufflé numbers them that way)
    std::string text;              // the declaration in Soufflé's notation if it is neither a base type, record nor ADT
};

// The first four entries of CoreProgram::types, always. Subtypes and unions of base types may be given their
// own entries (kind of the base, own name) or be reported as the base type itself.
inline constexpr TypeIndex kNumber = 0, kUnsigned = 1, kFloat = 2, kSymbol = 3;

// ---------------------------------------------------------------- terms

enum class Op : std::uint8_t {
    // arithmetic: `type` is Number, Unsigned or Float
    Neg, Add, Sub, Mul, Div, Mod, Exp,
    Max, Min,                                   // n-ary; Symbol too (compares the texts)
    // bits and logic: `type` is Number or Unsigned
    BitNot, BitAnd, BitOr, BitXor, ShiftLeft, ShiftRight, ShiftRightUnsigned,
    LogicNot, LogicAnd, LogicOr, LogicXor,
    // text
    Cat,                                        // n-ary
    StrLen, SubStr, Ord,                        // ord(any) gives the identity as a number
    Convert,                                    // from `from` to `type`, base kinds, Symbol included (to_string, itou, …)
    // others
    Cast,                                       // as(x, T): same bits
    AutoInc,                                    // no arguments
    Range,                                      // range(from, to[, step]); `type`: see the invariants above
    User,                                       // CoreProgram::functors[functor]
};

struct Term {
    enum class Kind : std::uint8_t {
        Variable,   // variable
        Unnamed,    // _
        Constant,   // number (as bits) if type is not Symbol, else text
        Nil,        // the empty record, of type `type_index`
        Record,     // [args] of type `type_index`
        Branch,     // $branch(args) of type `type_index`
        Functor,    // op(args)
    };
    Kind kind = Kind::Unnamed;
    TypeKind type = TypeKind::Number;  // of the value that the term stands for
    TypeKind from = TypeKind::Number;  // Op::Convert: type of the argument
    Op op = Op::Neg;                   // Functor
    TypeIndex type_index = 0;          // Record, Branch, Nil
    std::int32_t variable = -1;        // Variable: index in Rule::variables
    std::int32_t branch = -1;          // Branch: index in Type::branches
    std::int32_t functor = -1;         // Op::User
    Value number = 0;                  // Constant: number; unsigned and double by their bits
    std::string text;                  // Constant of type Symbol
    std::vector<Term> args;            // Record, Branch, Functor
    Position position;
};

// ---------------------------------------------------------------- literals

struct Atom {
    std::int32_t relation = -1;
    std::vector<Term> args;
    Position position;
};

enum class Compare : std::uint8_t {
    Equal, NotEqual, Less, LessEqual, Greater, GreaterEqual,  // `type` says how; Symbol order compares the texts
    Match, NotMatch, Contains, NotContains,                   // left is the pattern / the part
    True, False,
};

enum class Aggregate : std::uint8_t { Count, Sum, Min, Max, Mean };

struct Literal {
    enum class Kind : std::uint8_t { Atom, Negation, Comparison, Aggregate };
    Kind kind = Kind::Atom;

    Atom atom;  // Atom, Negation

    Compare compare = Compare::True;    // Comparison
    TypeKind type = TypeKind::Number;   // Comparison: of both sides (Record and Adt: Equal and NotEqual only)
                                        // Aggregate: of the target, hence of the result (mean: Float)
    Term left, right;                   // Comparison

    // Aggregate: variable `result` = aggregate target : { body }
    Aggregate aggregate = Aggregate::Count;
    std::int32_t result = -1;
    Term target;                 // unused for Count
    std::vector<Literal> body;   // conjunction; may hold aggregates again

    Position position;
};

// ---------------------------------------------------------------- rules

struct Variable {
    std::string name;     // as written; generated ones start with '@'
    TypeIndex type = 0;
};

struct Rule {
    enum class Kind : std::uint8_t {
        Derive,
        Subsume,  // head(a) <= head(b) :- body. `head` is the dominated atom; body[0] is the dominated atom again and
                  // body[1] the dominating one, both positive; what was written as body follows.
    };
    Kind kind = Kind::Derive;
    Atom head;                        // its arguments may be any terms but Unnamed
    std::vector<Literal> body;        // empty: a fact
    std::vector<Variable> variables;
    std::string plan;                 // the text of `.plan`, if any
    std::string text;                 // the clause as written, white space collapsed, at most some 500 characters
    Position position;
};

// ---------------------------------------------------------------- relations and the program

struct Attribute {
    std::string name;
    TypeIndex type = 0;
};

struct Relation {
    std::string name;  // qualified: "component.relation"
    std::vector<Attribute> attributes;
    bool eqrel = false;
    std::vector<std::vector<std::int32_t>> choice;  // choice-domain: each is a set of columns that is a key
    std::vector<std::string> qualifiers;            // others, as written (btree, brie, no_inline, magic …)
    Position position;
};

struct Directive {
    enum class Kind : std::uint8_t { Input, Output, PrintSize, LimitSize };
    Kind kind = Kind::Input;
    std::int32_t relation = -1;
    std::vector<std::pair<std::string, std::string>> parameters;  // strings without their quotes
    Position position;
};

struct Functor {
    std::string name;
    std::vector<TypeIndex> parameters;
    TypeIndex result = 0;
    bool stateful = false;
    Position position;
};

struct CoreProgram {
    std::vector<std::string> files;
    std::vector<Type> types;  // [0..3] are number, unsigned, float, symbol
    std::vector<Relation> relations;
    std::vector<Functor> functors;
    Rules rules;
    std::vector<Directive> directives;
    std::vector<std::pair<std::string, std::string>> pragmas;
    std::vector<Diagnostic> warnings;
};

// ---------------------------------------------------------------- the front end

struct SourceOptions {
    std::string name = "<program>";  // used in messages; its folder is searched first for #include
    std::string text;
    std::vector<std::string> include_dirs;
    std::vector<std::pair<std::string, std::string>> defines;
    int word_size = 64;              // 32: integer constants outside 32 bits are errors
};

// A file that an #include looked for.
struct FileLookup {
    std::string path;
    bool found = false;
    bool read = false;    // not if `#pragma once` has it
    std::string content;  // if read
};

// Preprocess, parse, check and lower. Throws SourceError with every error found. Implemented in frontend.cpp.
// `lookups` takes what was asked of the file system, in order: the program depends on that and the options alone.
CoreProgram compile_source(const SourceOptions& options, std::vector<FileLookup>* lookups = nullptr);

}  // namespace dl
