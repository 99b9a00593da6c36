// A C-like preprocessor, as far as Soufflé programs use mcpp: #include, #define (object- and function-like, #, ##,
// variadic), #undef, #ifdef, #ifndef, #if, #elif, #else, #endif, #error, #warning, #line, #pragma once, __FILE__,
// __LINE__, and Soufflé's own `.include "file"`.
#pragma once

#include "core.hpp"
#include "source.hpp"

namespace dl {

// Throws SourceError. Comments stay in the text (the lexer skips them); lines keep their numbers.
Source preprocess(const SourceOptions& options);

// The value of an `#if` expression after macro expansion; unknown identifiers are 0.
// Throws std::runtime_error with a message.
long long evaluate_condition(std::string_view expression);

}  // namespace dl
