// The binary operators of arguments, and the functors whose names are no keywords.
#pragma once

#include <optional>
#include <string_view>

#include "core.hpp"
#include "token.hpp"

namespace dl {

struct Binary {
    Tok token;
    Op op;
    int level;
};

// From loose to tight; all group to the left. Unary operators bind tighter, `^` tighter still.
inline constexpr Binary kBinary[] = {
    {Tok::LOr, Op::LogicOr, 1},   {Tok::LXor, Op::LogicXor, 2},   {Tok::LAnd, Op::LogicAnd, 3},
    {Tok::BOr, Op::BitOr, 4},     {Tok::BXor, Op::BitXor, 5},     {Tok::BAnd, Op::BitAnd, 6},
    {Tok::BShl, Op::ShiftLeft, 7}, {Tok::BShr, Op::ShiftRight, 7}, {Tok::BShru, Op::ShiftRightUnsigned, 7},
    {Tok::Plus, Op::Add, 8},      {Tok::Minus, Op::Sub, 8},       {Tok::Star, Op::Mul, 9},
    {Tok::Slash, Op::Div, 9},     {Tok::Percent, Op::Mod, 9},
};

inline const Binary* binary(Tok token) {
    for (const Binary& b : kBinary)
        if (b.token == token) return &b;
    return nullptr;
}

inline std::optional<Compare> comparison_operator(Tok token) {
    switch (token) {
        case Tok::Equal: return Compare::Equal;
        case Tok::NotEqual: return Compare::NotEqual;
        case Tok::Less: return Compare::Less;
        case Tok::LessEqual: return Compare::LessEqual;
        case Tok::Greater: return Compare::Greater;
        case Tok::GreaterEqual: return Compare::GreaterEqual;
        default: return {};
    }
}

struct Conversion {
    std::string_view name;
    TypeKind from, to;
};

// These are no keywords: the names are free for variables and relations as long as no argument list follows.
inline constexpr Conversion kConversions[] = {
    {"itou", TypeKind::Number, TypeKind::Unsigned}, {"itof", TypeKind::Number, TypeKind::Float},
    {"utoi", TypeKind::Unsigned, TypeKind::Number}, {"utof", TypeKind::Unsigned, TypeKind::Float},
    {"ftoi", TypeKind::Float, TypeKind::Number},    {"ftou", TypeKind::Float, TypeKind::Unsigned},
};

inline const Conversion* conversion_named(std::string_view name) {
    if (name.size() != 4) return nullptr;
    for (const Conversion& c : kConversions)
        if (c.name == name) return &c;
    return nullptr;
}

}  // namespace dl
