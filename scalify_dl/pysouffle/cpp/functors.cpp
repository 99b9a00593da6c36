#include "functors.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

namespace dl {

namespace {

[[noreturn]] void overflow(const char* operation) {
    throw EvaluationError(std::string("overflow in ") + operation);
}

// Bring an exact result into the word: wrap, or refuse.
Value fit_number(Wide exact, const Arithmetic& a, const char* operation) {
    const Value wrapped = a.word_size == 32 ? static_cast<Value>(static_cast<std::int32_t>(exact)) : static_cast<Value>(exact);
    if (a.checked && static_cast<Wide>(wrapped) != exact) overflow(operation);
    return wrapped;
}

Value fit_unsigned(Wide exact, const Arithmetic& a, const char* operation) {
    const std::uint64_t wrapped =
        a.word_size == 32 ? static_cast<std::uint32_t>(exact) : static_cast<std::uint64_t>(exact);
    if (a.checked && (exact < 0 || static_cast<Wide>(wrapped) != exact)) overflow(operation);
    return static_cast<Value>(wrapped);
}

Value fit_float(double value, const Arithmetic& a) {
    return from_float(a.word_size == 32 ? static_cast<double>(static_cast<float>(value)) : value);
}

Value power(TypeKind type, Value base, Value exponent, const Arithmetic& a) {
    const bool is_signed = type == TypeKind::Number;
    if (is_signed && exponent < 0) {  // the fraction is cut off
        if (base == 0) throw EvaluationError("0 to a negative power");
        return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
    }
    const char* name = "^";
    Value result = 1;
    for (std::uint64_t left = as_unsigned(exponent);;) {
        const auto times = [&](Value x, Value y) {
            return is_signed ? fit_number(static_cast<Wide>(x) * y, a, name)
                             : fit_unsigned(static_cast<Wide>(static_cast<unsigned __int128>(as_unsigned(x)) * as_unsigned(y)), a, name);
        };
        if (left & 1) result = times(result, base);
        left >>= 1;
        if (left == 0) return result;
        base = times(base, base);
    }
}

Value whole(Op op, TypeKind type, Value l, Value r, const Arithmetic& a) {
    const bool is_signed = type == TypeKind::Number;
    const int mask = a.word_size - 1;
    const Wide x = is_signed ? static_cast<Wide>(l) : static_cast<Wide>(as_unsigned(l));
    const Wide y = is_signed ? static_cast<Wide>(r) : static_cast<Wide>(as_unsigned(r));
    const auto fit = [&](Wide exact, const char* name) {
        return is_signed ? fit_number(exact, a, name) : fit_unsigned(exact, a, name);
    };
    Arithmetic wrap = a;
    wrap.checked = false;  // bits are bits
    const auto bits = [&](Wide exact) { return is_signed ? fit_number(exact, wrap, "") : fit_unsigned(exact, wrap, ""); };
    switch (op) {
        case Op::Add: return fit(x + y, "+");
        case Op::Sub: return fit(x - y, "-");
        case Op::Mul:
            return is_signed ? fit(x * y, "*")
                             : fit_unsigned(static_cast<Wide>(static_cast<unsigned __int128>(as_unsigned(l)) * as_unsigned(r)), a, "*");
        case Op::Div:
            if (r == 0) throw EvaluationError("division by zero");
            return fit(x / y, "/");
        case Op::Mod:
            if (r == 0) throw EvaluationError("division by zero (in %)");
            return fit(x % y, "%");
        case Op::Exp: return power(type, l, r, a);
        case Op::BitAnd: return l & r;
        case Op::BitOr: return l | r;
        case Op::BitXor: return l ^ r;
        case Op::ShiftLeft: return bits(static_cast<Wide>(static_cast<Value>(as_unsigned(l) << (r & mask))));
        case Op::ShiftRight: return bits(is_signed ? static_cast<Wide>(l >> (r & mask)) : static_cast<Wide>(as_unsigned(l) >> (r & mask)));
        case Op::ShiftRightUnsigned:
            return a.word_size == 32 ? bits(static_cast<Wide>(static_cast<std::uint32_t>(l) >> (r & mask)))
                                     : static_cast<Value>(as_unsigned(l) >> (r & mask));
        case Op::LogicAnd: return l != 0 && r != 0;
        case Op::LogicOr: return l != 0 || r != 0;
        case Op::LogicXor: return (l != 0) != (r != 0);
        case Op::Max: return x >= y ? l : r;
        case Op::Min: return x <= y ? l : r;
        default: throw EvaluationError("this operation is not defined on whole numbers");
    }
}

Value real(Op op, Value l, Value r, const Arithmetic& a) {
    const double x = as_float(l), y = as_float(r);
    switch (op) {
        case Op::Add: return fit_float(x + y, a);
        case Op::Sub: return fit_float(x - y, a);
        case Op::Mul: return fit_float(x * y, a);
        case Op::Div: return fit_float(x / y, a);
        case Op::Mod: return fit_float(std::fmod(x, y), a);
        case Op::Exp: return fit_float(std::pow(x, y), a);
        case Op::Max: return x < y ? r : l;  // of NaN, the first: as std::max and std::min
        case Op::Min: return y < x ? r : l;
        default: throw EvaluationError("this operation is not defined on floats");
    }
}

// As std::stoll and its kin: leading blanks, a sign, the longest prefix that is a number.
Value parse_prefix(std::string_view text, TypeKind type, const Arithmetic& a) {
    const std::string copy(text);
    const auto fail = [&]() { throw EvaluationError("\"" + copy.substr(0, 80) + "\" is not a " +
        (type == TypeKind::Float ? "float" : type == TypeKind::Unsigned ? "unsigned number" : "number")); };
    try {
        if (type == TypeKind::Float) return fit_float(a.word_size == 32 ? static_cast<double>(std::stof(copy)) : std::stod(copy), a);
        // "0x1F", "-0b101": as in program text
        const std::size_t digits = copy.compare(0, 1, "-") == 0 ? 1 : 0;
        const bool prefixed = copy.compare(digits, 2, "0x") == 0 || copy.compare(digits, 2, "0b") == 0;
        const int base = !prefixed ? 10 : copy[digits + 1] == 'x' ? 16 : 2;
        const std::string number = prefixed ? copy.substr(0, digits) + copy.substr(digits + 2) : copy;
        if (type == TypeKind::Unsigned) {
            if (digits == 1) fail();  // std::stoull would wrap around
            const unsigned long long value = std::stoull(number, nullptr, base);
            if (a.word_size == 32 && value > std::numeric_limits<std::uint32_t>::max()) fail();
            return static_cast<Value>(value);
        }
        const long long value = std::stoll(number, nullptr, base);
        if (a.word_size == 32 && value != static_cast<std::int32_t>(value)) fail();
        return value;
    } catch (const std::logic_error&) {
        fail();
    }
    return 0;
}

Value float_to_whole(double value, TypeKind type, const Arithmetic& a) {
    const bool is_signed = type == TypeKind::Number;
    const double low = is_signed ? -9223372036854775808.0 : 0.0, high = is_signed ? 9223372036854775808.0 : 18446744073709551616.0;
    const double cut = std::trunc(value);
    if (!(cut >= low && cut < high)) {
        if (a.checked) overflow("a conversion from float");
        if (!is_signed && cut < 0 && cut >= -9223372036854775808.0) return fit_unsigned(static_cast<Wide>(cut), {a.word_size, false}, "");
        return a.word_size == 32 ? static_cast<Value>(std::numeric_limits<std::int32_t>::min())
                                 : std::numeric_limits<Value>::min();
    }
    return is_signed ? fit_number(static_cast<Wide>(cut), a, "a conversion from float")
                     : fit_unsigned(static_cast<Wide>(cut), a, "a conversion from float");
}

Value convert(TypeKind to, TypeKind from, Value value, Database& db) {
    const Arithmetic& a = db.arithmetic;
    if (from == TypeKind::Symbol) {
        if (to == TypeKind::Symbol) return value;
        return parse_prefix(db.symbols.text(value), to, a);
    }
    switch (to) {
        case TypeKind::Symbol:
            if (from == TypeKind::Float) return db.symbols.intern(std::to_string(as_float(value)));
            if (from == TypeKind::Unsigned) return db.symbols.intern(std::to_string(as_unsigned(value)));
            return db.symbols.intern(std::to_string(value));
        case TypeKind::Float:
            if (from == TypeKind::Float) return value;
            return fit_float(from == TypeKind::Unsigned ? static_cast<double>(as_unsigned(value)) : static_cast<double>(value), a);
        case TypeKind::Number:
            if (from == TypeKind::Float) return float_to_whole(as_float(value), to, a);
            return fit_number(from == TypeKind::Unsigned ? static_cast<Wide>(as_unsigned(value)) : static_cast<Wide>(value), a, "itou/utoi");
        case TypeKind::Unsigned:
            if (from == TypeKind::Float) return float_to_whole(as_float(value), to, a);
            return fit_unsigned(from == TypeKind::Number ? static_cast<Wide>(value) : static_cast<Wide>(as_unsigned(value)), a, "itou");
        default: return value;
    }
}

template <class T>
bool ordered(Compare how, T left, T right) {
    switch (how) {
        case Compare::Equal: return left == right;
        case Compare::NotEqual: return left != right;
        case Compare::Less: return left < right;
        case Compare::LessEqual: return left <= right;
        case Compare::Greater: return left > right;
        case Compare::GreaterEqual: return left >= right;
        default: return false;
    }
}

bool compare_texts(Compare how, std::string_view left, std::string_view right, const Database& db) {
    switch (how) {
        case Compare::Match: return db.patterns.matches(left, right) == true;
        case Compare::NotMatch: return db.patterns.matches(left, right) == false;
        case Compare::Contains: return right.find(left) != std::string_view::npos;
        case Compare::NotContains: return right.find(left) == std::string_view::npos;
        default: return ordered(how, left, right);
    }
}

Value apply_plain(Op op, TypeKind type, TypeKind from, std::int32_t functor, const Value* registers,
                  const std::int32_t* arguments, std::size_t count, Database& db) {
    const auto arg = [&](std::size_t i) { return registers[arguments[i]]; };
    const Arithmetic& a = db.arithmetic;
    switch (op) {
        case Op::Neg:
            if (type == TypeKind::Float) return fit_float(-as_float(arg(0)), a);
            if (type == TypeKind::Unsigned) return fit_unsigned(-static_cast<Wide>(as_unsigned(arg(0))), {a.word_size, false}, "-");
            return fit_number(-static_cast<Wide>(arg(0)), a, "-");
        case Op::BitNot:
            if (type == TypeKind::Unsigned) return fit_unsigned(static_cast<Wide>(static_cast<std::uint64_t>(~arg(0))), {a.word_size, false}, "");
            return ~arg(0);
        case Op::LogicNot: return arg(0) == 0;
        case Op::Cast: return arg(0);
        case Op::Ord: return arg(0);
        case Op::Convert: return convert(type, from, arg(0), db);
        case Op::StrLen: return static_cast<Value>(db.symbols.text(arg(0)).size());
        case Op::Cat: {
            std::string text;
            for (std::size_t i = 0; i < count; ++i) text += db.symbols.text(arg(i));
            return db.symbols.intern(text);
        }
        case Op::SubStr: {
            const std::string_view text = db.symbols.text(arg(0));
            const std::uint64_t begin = as_unsigned(arg(1)), length = as_unsigned(arg(2));
            if (begin > text.size()) return db.symbols.intern("");  // Soufflé warns and goes on with ""
            return db.symbols.intern(std::string(text.substr(begin, length)));
        }
        case Op::User: {
            const HostFunctor& host = db.functors[static_cast<std::size_t>(functor)];
            if (!host) throw EvaluationError("a functor is called that the host did not register");
            Value values[64];
            if (count > 64) throw EvaluationError("a functor with more than 64 arguments");
            for (std::size_t i = 0; i < count; ++i) values[i] = arg(i);
            return host(values);
        }
        case Op::Max:
        case Op::Min: {
            Value best = arg(0);
            for (std::size_t i = 1; i < count; ++i) {
                const Value next = arg(i);
                if (type == TypeKind::Symbol) {
                    const bool less = db.symbols.text(next) < db.symbols.text(best);
                    if (next != best && less == (op == Op::Min)) best = next;
                } else {
                    best = type == TypeKind::Float ? real(op, best, next, a) : whole(op, type, best, next, a);
                }
            }
            return best;
        }
        default: {
            Value result = arg(0);
            for (std::size_t i = 1; i < count; ++i)
                result = type == TypeKind::Float ? real(op, result, arg(i), a) : whole(op, type, result, arg(i), a);
            return result;
        }
    }
}

}  // namespace

Value apply(Op op, TypeKind type, TypeKind from, std::int32_t functor, const Value* registers,
            const std::int32_t* arguments, std::size_t count, Database& db) {
    if (!db.formulas) return apply_plain(op, type, from, functor, registers, arguments, count, db);
    Value result;
    if (apply_to_formulas(op, type, from, functor, registers, arguments, count, db, result)) return result;
    result = apply_plain(op, type, from, functor, registers, arguments, count, db);
    if (type == TypeKind::Number && op != Op::Cast && op != Op::User) SymbolicNumbers::check_plain(result);
    return result;
}

bool compare(Compare how, TypeKind type, Value left, Value right, const Database& db) {
    if (db.formulas) {
        if (type == TypeKind::Number && (is_formula(left) || is_formula(right))) return db.formulas->compare(how, left, right);
        const bool texts = type == TypeKind::Symbol && how != Compare::Equal && how != Compare::NotEqual;
        if (texts && (db.formulas->has_formula(left) || db.formulas->has_formula(right)))
            return compare_texts(how, db.formulas->concrete_text(left, db.symbols), db.formulas->concrete_text(right, db.symbols), db);
    }
    switch (how) {
        case Compare::True: return true;
        case Compare::False: return false;
        case Compare::Match: case Compare::NotMatch: case Compare::Contains: case Compare::NotContains:
            return compare_texts(how, db.symbols.text(left), db.symbols.text(right), db);
        default: break;
    }
    switch (type) {
        case TypeKind::Unsigned: return ordered(how, as_unsigned(left), as_unsigned(right));
        case TypeKind::Float: return ordered(how, as_float(left), as_float(right));
        case TypeKind::Symbol:
            if (how == Compare::Equal || how == Compare::NotEqual) return ordered(how, left, right);
            return compare_texts(how, db.symbols.text(left), db.symbols.text(right), db);
        default: return ordered(how, left, right);
    }
}

Value add(TypeKind type, Value left, Value right, const Arithmetic& a) {
    return type == TypeKind::Float ? real(Op::Add, left, right, a) : whole(Op::Add, type, left, right, a);
}

std::string float_text(double value, int word_size) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.*g", word_size == 32 ? 9 : 17, value);
    return buffer;
}

}  // namespace dl
