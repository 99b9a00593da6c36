// The types of a program: declarations, subtyping, and sets of types as the inference of types.hpp's users needs them.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ast.hpp"
#include "core.hpp"
#include "source.hpp"

namespace dl {

using TypeId = std::int32_t;

// The types of literals: every number type is a subtype of the type of number literals, and so on. A literal may
// thus be used wherever its kind fits, while a `number` may not be passed off as a subtype of `number`.
inline constexpr TypeId kNumberLiteral = 0, kUnsignedLiteral = 1, kFloatLiteral = 2, kSymbolLiteral = 3;

// A set of types, interned: equal sets have equal ids.
using TypeSet = std::int32_t;
inline constexpr TypeSet kAnyType = 0;  // not constrained yet
inline constexpr TypeSet kNoType = 1;   // constraints that contradict each other

class TypeSystem {
public:
    struct Info {
        enum class Form : std::uint8_t { Literal, Subset, Union, Record, Adt };
        struct Branch {
            ast::Name name;
            std::vector<TypeId> fields;
        };
        ast::Name name;
        Form form = Form::Subset;
        TypeKind kind = TypeKind::Number;
        TypeId base = -1;                // Subset
        std::vector<TypeId> members;     // Union: all subset types in it, unions within it flattened; sorted
        std::vector<TypeId> fields;      // Record; -1: not a type (reported)
        std::vector<Branch> branches;    // Adt, sorted by name
        const ast::TypeDeclaration* declaration = nullptr;
        bool valid = true;
    };

    // Checks the declarations; errors go to `report`.
    TypeSystem(const ast::Program& program, Report& report);

    TypeId find(ast::Name name) const;  // aliases resolved; -1 if there is no such type
    bool is_declared(ast::Name name) const;  // by the program
    const Info& info(TypeId type) const { return infos_[type]; }
    TypeKind kind(TypeId type) const { return infos_[type].kind; }
    static TypeId literal(TypeKind kind) { return static_cast<TypeId>(kind); }
    bool subtype(TypeId a, TypeId b) const;
    bool equivalent(TypeId a, TypeId b) const { return a == b || (subtype(a, b) && subtype(b, a)); }

    struct BranchRef {
        TypeId type = -1;
        std::int32_t branch = -1;
    };
    BranchRef find_branch(ast::Name name) const;

    // Sets.
    TypeSet set_of(std::vector<TypeId> members);
    TypeSet set_of(TypeId type) { return single_[type]; }
    const std::vector<TypeId>& members(TypeSet set) const { return sets_[set]; }
    TypeSet meet(TypeSet a, TypeSet b);  // greatest common subtypes, pairwise

    // The table for the evaluator, and where a type stands in it.
    std::vector<Type> core_types() const;
    static TypeIndex core_index(TypeId type) { return type < 4 ? type : type - 4; }

private:
    void declare(const ast::Program& program, Report& report);
    void resolve_structure(Report& report);
    void resolve_fields(Report& report);
    void common_subtypes(TypeId a, TypeId b, std::vector<TypeId>& out) const;

    std::vector<Info> infos_;
    std::unordered_map<ast::Name, TypeId> names_;
    std::unordered_map<ast::Name, BranchRef> branches_;
    std::vector<std::vector<TypeId>> sets_;
    std::vector<TypeSet> single_;
    std::unordered_map<std::string, TypeSet> set_ids_;  // by the bytes of the members
    std::unordered_map<std::uint64_t, TypeSet> meets_;
};

std::string_view kind_name(TypeKind kind);

}  // namespace dl
