// The declared relations, functors and types of a program whose components are instantiated.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ast.hpp"
#include "core.hpp"
#include "types.hpp"

namespace dl {

struct RelationInfo {
    const ast::RelationDeclaration* declaration = nullptr;
    std::vector<TypeId> types;  // of the attributes; -1: unknown (reported)
    bool is_inline = false;
    bool has_subsumption = false;
    std::int32_t core_index = -1;  // -1 for inline relations

    std::size_t arity() const { return types.size(); }
};

struct FunctorInfo {
    const ast::FunctorDeclaration* declaration = nullptr;
    std::vector<TypeId> parameters;
    TypeId result = -1;
};

class Declarations {
public:
    // Checks all declarations and directives.
    Declarations(const ast::Program& program, Report& report);

    TypeSystem types;
    std::vector<RelationInfo> relations;
    std::vector<FunctorInfo> functors;
    int word_size = 64;

    const RelationInfo* relation(ast::Name name) const;
    RelationInfo* relation(ast::Name name);
    const RelationInfo* relation(const ast::Atom* atom) const;  // of the atom's name, which must not change any more
    std::int32_t functor(ast::Name name) const;  // -1: undefined
    // A declared name that is likely meant by `name`, as a hint; empty if there is none.
    std::string similar_relation(ast::Name name) const;

private:
    void exclude_from_inlining(std::string_view names);
    void declare_relation(const ast::RelationDeclaration& declaration, Report& report);
    void declare_functor(const ast::FunctorDeclaration& declaration, Report& report);
    void check_directives(const ast::Program& program, Report& report);

    std::unordered_map<ast::Name, std::int32_t> relation_names_, functor_names_;
    std::unordered_set<ast::Name> not_inline_;
};

}  // namespace dl
