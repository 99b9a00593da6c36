// What holds for all admissible values: signs, bounds, and what is an integer.
#include <algorithm>
#include <utility>

#include "symbolic.hpp"

namespace dl {

namespace {

constexpr int kQuotients = 4;  // integers known from the facts that are tried one after the other

}  // namespace

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

}  // namespace dl
