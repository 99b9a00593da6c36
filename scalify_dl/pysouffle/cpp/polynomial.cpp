#include "polynomial.hpp"

#include <algorithm>

namespace dl {

namespace {

[[noreturn]] void too_large() { throw EvaluationError("symbols: a formula has coefficients of more than 128 bits"); }

Wide times(Wide a, Wide b) {
    Wide out;
    if (__builtin_mul_overflow(a, b, &out)) too_large();
    return out;
}

Wide plus(Wide a, Wide b) {
    Wide out;
    if (__builtin_add_overflow(a, b, &out)) too_large();
    return out;
}

Wide greatest_divisor(Wide a, Wide b) {
    if (a < 0) a = -a;
    if (b < 0) b = -b;
    while (b != 0) std::swap(a %= b, b);
    return a;
}

}  // namespace

std::string wide_text(Wide value) {
    if (value == 0) return "0";
    std::string out;
    for (unsigned __int128 left = value < 0 ? -static_cast<unsigned __int128>(value) : static_cast<unsigned __int128>(value); left > 0; left /= 10)
        out += static_cast<char>('0' + static_cast<int>(left % 10));
    if (value < 0) out += '-';
    std::reverse(out.begin(), out.end());
    return out;
}

// ---------------------------------------------------------------- fractions

Rational::Rational(Wide numerator, Wide denominator) : numerator_(numerator), denominator_(denominator) {
    if (denominator_ < 0) {
        numerator_ = times(numerator_, -1);
        denominator_ = times(denominator_, -1);
    }
    const Wide divisor = greatest_divisor(numerator_, denominator_);
    numerator_ /= divisor;
    denominator_ /= divisor;
}

Rational operator+(const Rational& a, const Rational& b) {
    return {plus(times(a.numerator(), b.denominator()), times(b.numerator(), a.denominator())), times(a.denominator(), b.denominator())};
}
Rational operator*(const Rational& a, const Rational& b) { return {times(a.numerator(), b.numerator()), times(a.denominator(), b.denominator())}; }
Rational operator/(const Rational& a, const Rational& b) { return {times(a.numerator(), b.denominator()), times(a.denominator(), b.numerator())}; }
Rational operator-(const Rational& a) { return {times(a.numerator(), -1), a.denominator()}; }

Rational common_divisor(const Rational& a, const Rational& b) {
    return {greatest_divisor(times(a.numerator(), b.denominator()), times(b.numerator(), a.denominator())), times(a.denominator(), b.denominator())};
}

// ---------------------------------------------------------------- monomials

Monomial operator*(const Monomial& a, const Monomial& b) {
    Monomial out;
    auto x = a.begin(), y = b.begin();
    while (x != a.end() || y != b.end()) {
        if (y == b.end() || (x != a.end() && x->first < y->first)) {
            out.push_back(*x++);
        } else if (x == a.end() || y->first < x->first) {
            out.push_back(*y++);
        } else {
            if (x->second + y->second != 0) out.emplace_back(x->first, x->second + y->second);
            ++x, ++y;
        }
    }
    return out;
}

Monomial power(const Monomial& a, int exponent) {
    if (exponent == 0) return {};
    Monomial out = a;
    for (auto& factor : out) factor.second *= exponent;
    return out;
}

bool LargerMonomial::operator()(const Monomial& a, const Monomial& b) const {
    int degree = 0;
    for (const auto& factor : a) degree += factor.second;
    for (const auto& factor : b) degree -= factor.second;
    if (degree != 0) return degree > 0;
    for (auto x = a.begin(), y = b.begin(); x != a.end() || y != b.end(); ++x, ++y) {
        // the first unknown in which they differ decides
        if (y == b.end() || (x != a.end() && x->first < y->first)) return x->second > 0;
        if (x == a.end() || y->first < x->first) return y->second < 0;
        if (x->second != y->second) return x->second > y->second;
    }
    return false;
}

// ---------------------------------------------------------------- polynomials

void Polynomial::add(const Monomial& monomial, const Rational& coefficient) {
    if (coefficient.sign() == 0) return;
    const auto [at, added] = terms_.try_emplace(monomial, coefficient);
    if (added) return;
    at->second = at->second + coefficient;
    if (at->second.sign() == 0) terms_.erase(at);
}

Polynomial operator+(const Polynomial& a, const Polynomial& b) {
    Polynomial out = a;
    for (const auto& [monomial, coefficient] : b.terms()) out.add(monomial, coefficient);
    return out;
}
Polynomial operator-(const Polynomial& a, const Polynomial& b) {
    Polynomial out = a;
    for (const auto& [monomial, coefficient] : b.terms()) out.add(monomial, -coefficient);
    return out;
}
Polynomial operator-(const Polynomial& a) { return Polynomial() - a; }

Polynomial operator*(const Polynomial& a, const Polynomial& b) {
    Polynomial out;
    for (const auto& [m, c] : a.terms())
        for (const auto& [n, d] : b.terms()) out.add(m * n, c * d);
    return out;
}

Monomial content(const Polynomial& a) {
    std::map<Indeterminate, std::pair<int, std::size_t>> least;  // exponent, terms that have the unknown
    for (const auto& [monomial, coefficient] : a.terms())
        for (const auto& [unknown, exponent] : monomial) {
            const auto [at, added] = least.try_emplace(unknown, exponent, 1);
            if (!added) at->second = {std::min(at->second.first, exponent), at->second.second + 1};
        }
    Monomial out;
    for (const auto& [unknown, known] : least) {
        const int exponent = known.second < a.terms().size() ? std::min(known.first, 0) : known.first;
        if (exponent != 0) out.emplace_back(unknown, exponent);
    }
    return out;
}

std::optional<Polynomial> exact_quotient(const Polynomial& a, const Polynomial& b) {
    const auto scaled = [](const Polynomial& p, const Monomial& monomial, const Rational& coefficient) {
        return p * Polynomial::term(monomial, coefficient);
    };
    if (b.terms().size() == 1) return scaled(a, power(b.terms().begin()->first, -1), Rational(1) / b.terms().begin()->second);
    if (a.zero()) return a;
    // Without their contents both are ordinary polynomials, and division by leading terms comes to an end.
    const Monomial unit = content(a) * power(content(b), -1);
    Polynomial rest = scaled(a, power(content(a), -1), 1), divisor = scaled(b, power(content(b), -1), 1), quotient;
    const auto& [lead, lead_coefficient] = *divisor.terms().begin();
    while (!rest.zero()) {
        const Monomial monomial = rest.terms().begin()->first * power(lead, -1);
        if (std::any_of(monomial.begin(), monomial.end(), [](const auto& factor) { return factor.second < 0; })) return {};
        const Polynomial step = Polynomial::term(monomial, rest.terms().begin()->second / lead_coefficient);
        quotient = quotient + step;
        rest = rest - step * divisor;
    }
    return scaled(quotient, unit, 1);
}

}  // namespace dl
