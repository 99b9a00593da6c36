#include "symbolic.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "text.hpp"

namespace dl {

namespace {

constexpr int kQuotients = 4;   // integers known from the facts that are tried one after the other
constexpr Value kLargestPower = 64;
constexpr std::size_t kLongest = 1000;  // characters of what stands in a floor or mod: Euclid's algorithm nests them, each as long as two before it

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

// Every symbol in terms of parts that are not negative (its own part goes by its own number), in one of these ways, if it
// leads back to no symbol that is so written itself:
//     minimum + part          |  a + 1 + part, for a symbol a below it  |  m * (1 + part), where its quotient by m is
//                             |                                         |  an integer and both are positive
void SymbolicNumbers::find_bounds() {
    const std::size_t n = unknowns_.size();
    std::vector<Polynomial> factor(n), offset(n);  // symbol = offset + factor * part
    std::vector<char> simple(n, 1);
    const auto set = [&](Indeterminate symbol, Polynomial f, Polynomial o) {
        const auto at = static_cast<std::size_t>(symbol);
        std::swap(factor[at], f);
        std::swap(offset[at], o);
        if (!leads_back(symbol, factor, offset)) {
            simple[at] = 0;
            return;
        }
        std::swap(factor[at], f);
        std::swap(offset[at], o);
    };
    for (std::size_t i = 0; i < n; ++i) {
        factor[i] = Rational(1);
        offset[i] = unknowns_[i].minimum;
        unknowns_[i].positive = unknowns_[i].minimum.sign() > 0;
    }
    for (const auto& [small, large] : below_) {
        const Unknown& lower = unknowns_[static_cast<std::size_t>(small)];
        const Rational least = lower.minimum + Rational(1);
        if (!simple[static_cast<std::size_t>(large)] || (unknowns_[static_cast<std::size_t>(large)].minimum + -least).sign() > 0) continue;
        set(large, Rational(1), Polynomial::unknown(small) + Polynomial(Rational(1)));
        unknowns_[static_cast<std::size_t>(large)].positive = least.sign() > 0;
    }
    // those divided by most first
    for (auto known = integers_.rbegin(); known != integers_.rend(); ++known) {
        const auto& [monomial, multiple] = *known;
        const auto positive = [&](const auto& power) { return unknowns_[static_cast<std::size_t>(power.first)].positive; };
        const auto above = std::find_if(monomial.begin(), monomial.end(), [](const auto& power) { return power.second > 0; });
        const bool one = std::count_if(monomial.begin(), monomial.end(), [](const auto& power) { return power.second > 0; }) == 1;
        if (!one || above->second != 1 || !std::all_of(monomial.begin(), monomial.end(), positive)) continue;
        const auto symbol = static_cast<std::size_t>(above->first);
        if (!simple[symbol] || (unknowns_[symbol].minimum + Rational(-1)).sign() > 0) continue;
        const Polynomial divisor = Polynomial::term(dl::power(monomial, -1) * Monomial{{above->first, 1}}, Rational(1) / multiple);
        set(above->first, divisor, divisor);
    }
    for (std::size_t i = 0; i < n; ++i) unknowns_[i].shifted = Polynomial();
    for (std::size_t i = 0; i < n; ++i) shift(static_cast<Indeterminate>(i), factor, offset);
}

// Does a symbol occur in what it is written with, directly or not?
bool SymbolicNumbers::leads_back(Indeterminate symbol, const std::vector<Polynomial>& factor, const std::vector<Polynomial>& offset) {
    std::vector<char> seen(factor.size(), 0);
    std::vector<Indeterminate> open{symbol};
    for (std::size_t i = 0; i < open.size(); ++i)
        for (const Polynomial* p : {&factor[static_cast<std::size_t>(open[i])], &offset[static_cast<std::size_t>(open[i])]})
            for (const auto& term : p->terms())
                for (const auto& [other, exponent] : term.first) {
                    if (other == symbol) return true;
                    if (!std::exchange(seen[static_cast<std::size_t>(other)], 1)) open.push_back(other);
                }
    return false;
}

const Polynomial& SymbolicNumbers::shift(Indeterminate symbol, const std::vector<Polynomial>& factor, const std::vector<Polynomial>& offset) {
    Polynomial& shifted = unknowns_[static_cast<std::size_t>(symbol)].shifted;
    if (!shifted.zero()) return shifted;
    const auto in_parts = [&](const Polynomial& p) {
        Polynomial sum;
        for (const auto& [monomial, coefficient] : p.terms()) {
            Polynomial product = coefficient;
            for (const auto& [other, exponent] : monomial)
                for (int i = 0; i < exponent; ++i) product = product * shift(other, factor, offset);
            sum = sum + product;
        }
        return sum;
    };
    const auto at = static_cast<std::size_t>(symbol);
    shifted = in_parts(offset[at]) + in_parts(factor[at]) * Polynomial::unknown(symbol);
    return shifted;
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
    if (value.numerator() >= kFirstFormula || value.numerator() <= -kFirstFormula) throw EvaluationError("overflow: " + text(polynomial) + " needs more than 62 bits");
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

// ---------------------------------------------------------------- what holds for all admissible values

// With every unknown written as its minimum plus a part that is not negative, and positive denominators multiplied away:
// coefficients of one sign decide.
SymbolicNumbers::Sign SymbolicNumbers::sign(const Polynomial& polynomial) const {
    Monomial denominators;
    for (const auto& [unknown, exponent] : content(polynomial)) {
        if (exponent >= 0) continue;
        const bool positive = unknowns_[static_cast<std::size_t>(unknown)].positive;
        denominators.emplace_back(unknown, positive || exponent % 2 == 0 ? -exponent : 1 - exponent);
    }
    bool positive = false, negative = false;
    Rational constant;
    try {
        Polynomial sum;
        for (const auto& [monomial, coefficient] : polynomial.terms()) {
            Polynomial product = coefficient;
            for (const auto& [unknown, exponent] : monomial * denominators)
                for (int i = 0; i < exponent; ++i) product = product * unknowns_[static_cast<std::size_t>(unknown)].shifted;
            sum = sum + product;
        }
        for (const auto& [monomial, coefficient] : sum.terms()) (coefficient.sign() > 0 ? positive : negative) = true;
        constant = sum.constant_term();
    } catch (const EvaluationError&) {
        return {};  // too large to tell
    }
    Sign out;
    out.not_negative = !negative;
    out.not_positive = !positive;
    out.not_zero = constant.sign() != 0 && positive != negative;
    return out;
}

// Is a term an integer wherever the formulas that came with the facts are? By dividing by those, one after the other.
bool SymbolicNumbers::whole(const Rational& coefficient, const Monomial& monomial, int depth) const {
    if (coefficient.whole() && std::all_of(monomial.begin(), monomial.end(), [](const auto& factor) { return factor.second > 0; })) return true;
    if (depth == 0) return false;
    for (const auto& [known, multiple] : integers_) {
        const bool helps = (!coefficient.whole() && !multiple.whole()) || std::any_of(known.begin(), known.end(), [&](const auto& factor) {
            return factor.second < 0 && std::any_of(monomial.begin(), monomial.end(), [&](const auto& f) { return f.first == factor.first && f.second < 0; });
        });
        if (helps && whole(coefficient / multiple, monomial * dl::power(known, -1), depth - 1)) return true;
    }
    return false;
}

Polynomial SymbolicNumbers::not_whole(const Polynomial& polynomial) const {
    Polynomial out;
    for (const auto& [monomial, coefficient] : polynomial.terms())
        if (!whole(coefficient, monomial, kQuotients)) out.add(monomial, coefficient);
    return out;
}

bool SymbolicNumbers::whole(const Polynomial& polynomial) const {
    const Polynomial rest = not_whole(polynomial);
    if (rest.zero()) return true;
    return std::any_of(integer_sums_.begin(), integer_sums_.end(), [&](const Polynomial& known) {
        const auto quotient = exact_quotient(rest, known);
        return quotient && quotient->constant() && quotient->constant_term().whole();
    });
}

void SymbolicNumbers::given(const Polynomial& polynomial) {
    const Polynomial rest = not_whole(polynomial);
    if (rest.zero()) return;
    outcomes_.clear();  // more is known now
    if (rest.terms().size() > 1) {
        integer_sums_.push_back(rest);
        return;
    }
    const auto& [monomial, coefficient] = *rest.terms().begin();
    Rational& multiple = integers_[monomial];
    multiple = common_divisor(multiple, coefficient);
    find_bounds();
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
    if (times < 0 || times > kLargestPower) throw EvaluationError("the formula " + text(base) + " to the power " + std::to_string(times) + ": 0 to 64 is possible");
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
    if (text(left).size() + text(right).size() > kLongest) return remainder ? concrete(left) % concrete(right) : concrete(left) / concrete(right);
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
