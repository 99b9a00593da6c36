// What functors and comparisons compute, typed as in Soufflé 2.x.
#pragma once

#include <bit>
#include <string>

#include "database.hpp"

namespace dl {

inline double as_float(Value value) { return std::bit_cast<double>(value); }
inline Value from_float(double value) { return std::bit_cast<Value>(value); }
inline std::uint64_t as_unsigned(Value value) { return static_cast<std::uint64_t>(value); }

// A functor applied to `count` values, those of registers arguments[0…]. Throws EvaluationError: division by zero, text
// that is no number, overflow in checked arithmetic, a failing host functor. AutoInc and Range are not computed here.
Value apply(Op op, TypeKind type, TypeKind from, std::int32_t functor, const Value* registers,
            const std::int32_t* arguments, std::size_t count, Database& database);

// The same where `database.formulas` is there and an argument is a formula, or a text with one in it; else false.
bool apply_to_formulas(Op op, TypeKind type, TypeKind from, std::int32_t functor, const Value* registers,
                       const std::int32_t* arguments, std::size_t count, Database& database, Value& result);

bool compare(Compare how, TypeKind type, Value left, Value right, const Database& database);

// One step of an aggregate over Number, Unsigned or Float. Throws on overflow in checked arithmetic.
Value add(TypeKind type, Value left, Value right, const Arithmetic& arithmetic);

// "%.{9,17}g" as C++ streams print floats: what Soufflé writes to files.
std::string float_text(double value, int word_size);

}  // namespace dl
