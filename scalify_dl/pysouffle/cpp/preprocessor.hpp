// A C-like preprocessor, as far as Soufflé programs use mcpp: #include, #define (object- and function-like, #, ##,
// variadic), #undef, #ifdef, #ifndef, #if, #elif, #else, #endif, #error, #warning, #line, #pragma once, __FILE__,
// __LINE__, and Soufflé's own `.include "file"`.
#pragma once

#include "core.hpp"
#include "macros.hpp"
#include "source.hpp"

namespace dl {

// Throws SourceError. Comments stay in the text (the lexer skips them); lines keep their numbers.
// `lookups`: see compile_source().
Source preprocess(const SourceOptions& options, std::vector<FileLookup>* lookups = nullptr);

// Does the expression of an `#if` hold? Macros are expanded, unknown identifiers are 0.
// Throws std::runtime_error with a message.
bool evaluate_condition(std::string_view expression, const Macros& macros);

// As `defined(name)` sees it.
bool is_defined(std::string_view name, const Macros& macros);

}  // namespace dl
