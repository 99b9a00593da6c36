#include "symbolic.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "text.hpp"

namespace dl {

namespace {

constexpr Value kLargestPower = 64;
constexpr std::size_t kLongestFormula = 1000;  // characters of what stands in a floor or mod: Euclid's algorithm nests them, each as long as two before it

bool is_name(const std::string& text) {
    return !text.empty() && !std::isdigit(static_cast<unsigned char>(text[0])) &&
           std::all_of(text.begin(), text.end(), [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; });
}

Wide floor_value(const Rational& r) {
    const Wide cut = r.numerator() / r.denominator();
    return r.numerator() < 0 && !r.whole() ? cut - 1 : cut;
}

}  // namespace

SymbolicNumbers::SymbolicNumbers(std::vector<SymbolDeclaration> symbols) {
    std::sort(symbols.begin(), symbols.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    for (const SymbolDeclaration& symbol : symbols) {
        if (!is_name(symbol.name) || symbol.name == "floor" || symbol.name == "mod")
            throw EvaluationError("\"" + symbol.name + "\" cannot be the name of a symbol: letters, digits and _ are");
        if (!unknown_of_.emplace(symbol.name, static_cast<Indeterminate>(unknowns_.size())).second)
            throw EvaluationError("symbol \"" + symbol.name + "\" is given twice");
        if (symbol.value < symbol.minimum || symbol.value >= kFirstFormula || symbol.minimum <= -kFirstFormula)
            throw EvaluationError("symbol " + symbol.name + " = " + std::to_string(symbol.value) + " is not at least " + std::to_string(symbol.minimum) + " and below 2^62");
        unknowns_.push_back({symbol.name, symbol.value, symbol.minimum, {}, false});
    }
    for (const SymbolDeclaration& symbol : symbols) {
        if (symbol.below.empty()) continue;
        const auto above = unknown_of_.find(symbol.below);
        if (above == unknown_of_.end()) throw EvaluationError("symbol " + symbol.name + " is below \"" + symbol.below + "\", which is no symbol");
        const Indeterminate small = unknown_of_.at(symbol.name), large = above->second;
        const Rational &lower = unknowns_[static_cast<std::size_t>(small)].value, &upper = unknowns_[static_cast<std::size_t>(large)].value;
        if (lower.numerator() >= upper.numerator())
            throw EvaluationError("symbol " + symbol.name + " = " + wide_text(lower.numerator()) + " is not below " + symbol.below + " = " + wide_text(upper.numerator()));
        below_.emplace_back(small, large);
    }
    find_bounds();
}
// ---------------------------------------------------------------- formulas

Rational SymbolicNumbers::evaluate(const Polynomial& polynomial) const {
    Rational sum;
    for (const auto& [monomial, coefficient] : polynomial.terms()) {
        Rational product = coefficient;
        for (const auto& [unknown, exponent] : monomial) {
            const Rational& value = unknowns_[static_cast<std::size_t>(unknown)].value;
            if (exponent < 0 && value.sign() == 0) throw EvaluationError("division by zero: " + unknowns_[static_cast<std::size_t>(unknown)].text + " is 0");
            for (int i = 0; i < std::abs(exponent); ++i) product = exponent > 0 ? product * value : product / value;
        }
        sum = sum + product;
    }
    return sum;
}

Value SymbolicNumbers::intern(const Polynomial& polynomial) {
    const Rational value = evaluate(polynomial);
    if (!value.whole()) throw EvaluationError(text(polynomial) + " is no integer here, but " + wide_text(value.numerator()) + "/" + wide_text(value.denominator()));
    if (value.numerator() >= kFirstFormula || value.numerator() <= -kFirstFormula) throw EvaluationError("symbols: overflow: " + text(polynomial) + " needs more than 62 bits");
    if (polynomial.constant()) return static_cast<Value>(value.numerator());
    std::string name = text(polynomial);
    const auto [at, added] = formula_of_.try_emplace(name, kFirstFormula + static_cast<Value>(formulas_.size()));
    if (added) formulas_.push_back({polynomial, std::move(name), static_cast<Value>(value.numerator())});
    return at->second;
}

std::string SymbolicNumbers::text(Value number) const { return is_formula(number) ? formula(number).text : std::to_string(number); }

std::string SymbolicNumbers::text(const Polynomial& polynomial) const {
    std::string out;
    for (const auto& [monomial, coefficient] : polynomial.terms()) {
        const bool negative = coefficient.sign() < 0;
        out += out.empty() ? (negative ? "-" : "") : negative ? " - " : " + ";
        std::vector<std::string> above, below;
        const std::string numerator = wide_text(negative ? -coefficient.numerator() : coefficient.numerator());
        if (numerator != "1") above.push_back(numerator);
        if (!coefficient.whole()) below.push_back(wide_text(coefficient.denominator()));
        for (const auto& [unknown, exponent] : monomial) {
            const std::string& name = unknowns_[static_cast<std::size_t>(unknown)].text;
            (exponent > 0 ? above : below).push_back(std::abs(exponent) == 1 ? name : name + "^" + std::to_string(std::abs(exponent)));
        }
        if (above.empty()) above.push_back("1");
        for (std::size_t i = 0; i < above.size(); ++i) out += (i > 0 ? "*" : "") + above[i];
        if (!below.empty()) out += below.size() > 1 ? "/(" : "/";
        for (std::size_t i = 0; i < below.size(); ++i) out += (i > 0 ? "*" : "") + below[i];
        if (below.size() > 1) out += ")";
    }
    return out.empty() ? "0" : out;
}

// ---------------------------------------------------------------- conditions

void SymbolicNumbers::assume(Condition::Kind kind, std::string left, std::string right) {
    if (kind == Condition::Kind::NotEqual && right < left) std::swap(left, right);
    const auto [at, added] = condition_of_.try_emplace(static_cast<char>('0' + static_cast<int>(kind)) + left + ' ' + right, static_cast<int>(conditions_.size()));
    if (added) conditions_.push_back({kind, std::move(left), std::move(right)});
    note(at->second);
}

void SymbolicNumbers::note(int condition) {
    if (pending_) pending_->push_back(condition);
    else if (trail) trail->push_back({condition, rule});
}

// The outcome of a question, with its conditions, is computed once.
template <class Compute>
Value SymbolicNumbers::remember(const Question& question, Compute&& compute) {
    auto known = outcomes_.find(question);
    if (known == outcomes_.end()) {
        struct Restore {
            std::vector<int>*& pending;
            std::vector<int>* outer;
            ~Restore() { pending = outer; }
        };
        Outcome outcome;
        {
            const Restore restore{pending_, pending_};
            pending_ = &outcome.conditions;
            outcome.result = compute();
        }
        known = outcomes_.emplace(question, std::move(outcome)).first;
    }
    const Value result = known->second.result;
    for (const int condition : known->second.conditions) note(condition);
    return result;
}

Value SymbolicNumbers::concrete(Value number) {
    if (is_formula(number)) assume(Condition::Kind::Equal, text(number), std::to_string(value(number)));
    return value(number);
}

// ---------------------------------------------------------------- comparison

bool SymbolicNumbers::compare(Compare how, Value left, Value right) {
    switch (how) {
        case Compare::NotEqual: return !compare(Compare::Equal, left, right);
        case Compare::Greater: return compare(Compare::Less, right, left);
        case Compare::GreaterEqual: return !compare(Compare::Less, left, right);
        case Compare::LessEqual: return !compare(Compare::Less, right, left);
        default: break;
    }
    if (!is_formula(left) && !is_formula(right)) return how == Compare::Equal ? left == right : left < right;
    if (left == right) return how == Compare::Equal;
    if (how == Compare::Equal && right < left) std::swap(left, right);
    return remember({static_cast<int>(how) + 1000, left, right}, [&] { return static_cast<Value>(decide(how, left, right)); }) != 0;
}

bool SymbolicNumbers::decide(Compare how, Value left, Value right) {
    const Sign difference = sign(polynomial(right) - polynomial(left));
    if (how == Compare::Equal) {
        if (difference.not_zero) return false;
        const bool equal = value(left) == value(right);
        assume(equal ? Condition::Kind::Equal : Condition::Kind::NotEqual, text(left), text(right));
        return equal;
    }
    if (difference.not_negative && difference.not_zero) return true;
    if (difference.not_positive) return false;
    if (value(left) < value(right)) {
        assume(Condition::Kind::Less, text(left), text(right));
        return true;
    }
    assume(Condition::Kind::LessEqual, text(right), text(left));
    return false;
}

// ---------------------------------------------------------------- arithmetic

Value SymbolicNumbers::apply(Op op, const Value* arguments, std::size_t count) {
    switch (op) {
        case Op::Neg: return intern(-polynomial(arguments[0]));
        case Op::Add: case Op::Sub: case Op::Mul: case Op::Div: case Op::Mod: case Op::Max: case Op::Min: case Op::Exp: break;
        default: throw EvaluationError("this operation is not defined on formulas");
    }
    Value result = arguments[0];
    for (std::size_t i = 1; i < count; ++i) result = binary(op, result, arguments[i]);
    return result;
}

Value SymbolicNumbers::binary(Op op, Value left, Value right) {
    if (op == Op::Max || op == Op::Min) return compare(Compare::Less, left, right) == (op == Op::Max) ? right : left;
    return remember({static_cast<int>(op), left, right}, [&]() -> Value {
        switch (op) {
            case Op::Add: return intern(polynomial(left) + polynomial(right));
            case Op::Sub: return intern(polynomial(left) - polynomial(right));
            case Op::Mul: return intern(polynomial(left) * polynomial(right));
            case Op::Exp: return power(left, right);
            default: return divide(left, right, op == Op::Mod);
        }
    });
}

Value SymbolicNumbers::power(Value base, Value exponent) {
    const Value times = concrete(exponent);
    if (times < 0 || times > kLargestPower) throw EvaluationError("symbols: the formula " + text(base) + " to the power " + std::to_string(times) + ": 0 to 64 is possible");
    Polynomial product(Rational(1));
    for (Value i = 0; i < times; ++i) product = product * polynomial(base);
    return intern(product);
}

// Truncating division, as the engine divides integers.
Value SymbolicNumbers::divide(Value left, Value right, bool remainder) {
    const Value a = value(left), b = value(right);
    if (b == 0) throw EvaluationError("division by zero" + (is_formula(right) ? ": " + text(right) + " is 0" : std::string()));
    compare(Compare::Equal, right, 0);
    const auto quotient = exact_quotient(polynomial(left), polynomial(right));
    if (quotient && whole(*quotient)) return remainder ? 0 : intern(*quotient);
    if (a % b == 0 && (quotient || remainder)) {
        if (quotient) assume(Condition::Kind::Integer, text(*quotient), "1");
        else assume(Condition::Kind::Integer, text(left), text(right));
        return remainder ? 0 : intern(*quotient);
    }
    const auto negated = [&](Value number) { return intern(-polynomial(number)); };
    if (b < 0) {
        compare(Compare::Less, right, 0);
        const Value result = divide(left, negated(right), remainder);
        return remainder ? result : negated(result);
    }
    if (a < 0) {
        compare(Compare::Less, left, 0);
        return negated(divide(negated(left), right, remainder));
    }
    compare(Compare::Less, left, 0);
    compare(Compare::Less, 0, right);
    if (a < b) {
        compare(Compare::Less, left, right);
        return remainder ? left : 0;
    }
    if (text(left).size() + text(right).size() > kLongestFormula) return remainder ? concrete(left) % concrete(right) : concrete(left) / concrete(right);
    if (remainder) return intern(remainder_of(polynomial(left), polynomial(right)));
    return intern(quotient ? floor_of(*quotient) : floor_of(polynomial(left), polynomial(right)));
}

// An unknown that is what its text says, and not negative.
Polynomial SymbolicNumbers::opaque(const std::string& text, const Rational& value) {
    const auto [at, added] = unknown_of_.try_emplace(text, static_cast<Indeterminate>(unknowns_.size()));
    if (added) unknowns_.push_back({text, value, 0, Polynomial::unknown(at->second), false});
    return Polynomial::unknown(at->second);
}

// Of a quotient that is not negative. Terms that are integers stay outside where the others are not negative either.
Polynomial SymbolicNumbers::floor_of(const Polynomial& quotient) {
    Polynomial inside = not_whole(quotient);
    if (!sign(inside).not_negative) inside = quotient;
    const Polynomial outside = quotient - inside;
    const Wide value = floor_value(evaluate(inside));
    if (inside.constant()) return outside + Polynomial(Rational(value));
    return outside + opaque("floor(" + text(inside) + ")", value);
}

Polynomial SymbolicNumbers::floor_of(const Polynomial& left, const Polynomial& right) {
    const Polynomial unit = Polynomial::term(dl::power(content(right), -1), 1);
    const Polynomial above = left * unit, below = right * unit;
    return opaque("floor((" + text(above) + ")/(" + text(below) + "))", floor_value(evaluate(above) / evaluate(below)));
}

Polynomial SymbolicNumbers::remainder_of(const Polynomial& left, const Polynomial& right) {
    Polynomial inside;
    for (const auto& [monomial, coefficient] : left.terms()) {
        const Polynomial term = Polynomial::term(monomial, coefficient);
        const auto multiple = exact_quotient(term, right);
        if (!multiple || !whole(*multiple)) inside = inside + term;
    }
    if (!sign(inside).not_negative) inside = left;
    const Rational a = evaluate(inside), b = evaluate(right);
    return opaque("mod(" + text(inside) + ", " + text(right) + ")", a.numerator() % b.numerator());
}

}  // namespace dl
