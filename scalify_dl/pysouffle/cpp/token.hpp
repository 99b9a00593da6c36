// Tokens of the language.
#pragma once

#include <cstdint>
#include <string_view>

#include "source.hpp"

namespace dl {

enum class Tok : std::uint8_t {
    End, Identifier, String, Number, Unsigned, Float,
    // punctuation
    LParen, RParen, LBracket, RBracket, LBrace, RBrace, Comma, Colon, Semicolon, Dot, Equal, NotEqual, Less, LessEqual,
    Greater, GreaterEqual, If, SubType, MapsTo, Pipe, Exclamation, Dollar, At, Plus, Minus, Star, Slash, Caret, Percent,
    Underscore,
    // directives
    Decl, FunctorDecl, Input, Output, PrintSize, LimitSize, TypeDecl, Lattice, Comp, Init, NumberType, SymbolType,
    Override, Pragma, Plan,
    // keywords
    AutoInc, BAnd, BOr, BXor, BNot, BShl, BShr, BShru, LAnd, LOr, LXor, LNot, Match, Contains, Mean, Min, Max, Count, Sum,
    Cat, Ord, Range, StrLen, SubStr, ToFloat, ToNumber, ToString, ToUnsigned, As, Nil, True, False, Stateful,
    QInput, QOutput, QPrintSize, QOverridable, QEqrel, QInline, QNoInline, QMagic, QNoMagic, QBrie, QBTree, QBTreeDelete,
    ChoiceDomain, Iteration, DebugDelta,
};

struct Token {
    Tok kind = Tok::End;
    Offset begin = 0;
    std::uint32_t length = 0;
    std::uint32_t partner = 0;  // LParen: index of the matching RParen among the tokens, 0 if there is none
};

// How the token is written, for messages; empty for those with many spellings.
std::string_view spelling(Tok kind);

}  // namespace dl
