// Laurent polynomials with exact rational coefficients: the algebra of symbolic numbers.
//
// An unknown is an indeterminate (a symbol, or a quotient or remainder that has no simpler form); unknowns are numbered. Everything
// here is exact: coefficients have 128 bits, and what does not fit ends the run with an EvaluationError.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "diagnostic.hpp"

namespace dl {

using Wide = __int128;

std::string wide_text(Wide value);

// A reduced fraction; the denominator is positive.
class Rational {
public:
    Rational(Wide numerator = 0, Wide denominator = 1);  // NOLINT: numbers are rationals
    Wide numerator() const { return numerator_; }
    Wide denominator() const { return denominator_; }
    bool whole() const { return denominator_ == 1; }
    int sign() const { return numerator_ > 0 ? 1 : numerator_ < 0 ? -1 : 0; }
    friend bool operator==(const Rational&, const Rational&) = default;

private:
    Wide numerator_, denominator_;
};

Rational operator+(const Rational& a, const Rational& b);
Rational operator*(const Rational& a, const Rational& b);
Rational operator/(const Rational& a, const Rational& b);  // b is not 0
Rational operator-(const Rational& a);
// The largest g of which both are whole multiples; that of 0 and a is |a|.
Rational common_divisor(const Rational& a, const Rational& b);

using Indeterminate = int;

// A product of powers: exponents by unknown, in order of the unknowns, none 0.
using Monomial = std::vector<std::pair<Indeterminate, int>>;

Monomial operator*(const Monomial& a, const Monomial& b);
Monomial power(const Monomial& a, int exponent);

// Total degree first, then exponents unknown by unknown. Multiplying keeps the order. The largest comes first.
struct LargerMonomial {
    bool operator()(const Monomial& a, const Monomial& b) const;
};

class Polynomial {
public:
    using Terms = std::map<Monomial, Rational, LargerMonomial>;

    Polynomial() = default;
    Polynomial(Rational constant) { add({}, constant); }  // NOLINT
    static Polynomial unknown(Indeterminate a) {
        Polynomial p;
        p.add({{a, 1}}, 1);
        return p;
    }
    static Polynomial term(const Monomial& monomial, const Rational& coefficient) {
        Polynomial p;
        p.add(monomial, coefficient);
        return p;
    }

    const Terms& terms() const { return terms_; }
    bool zero() const { return terms_.empty(); }
    bool constant() const { return terms_.empty() || (terms_.size() == 1 && terms_.begin()->first.empty()); }
    Rational constant_term() const {
        const auto at = terms_.find({});
        return at == terms_.end() ? Rational() : at->second;
    }
    void add(const Monomial& monomial, const Rational& coefficient);
    friend bool operator==(const Polynomial&, const Polynomial&) = default;

private:
    Terms terms_;  // no coefficient is 0
};

Polynomial operator+(const Polynomial& a, const Polynomial& b);
Polynomial operator-(const Polynomial& a, const Polynomial& b);
Polynomial operator-(const Polynomial& a);
Polynomial operator*(const Polynomial& a, const Polynomial& b);

// a / b where it is a Laurent polynomial. b is not 0.
std::optional<Polynomial> exact_quotient(const Polynomial& a, const Polynomial& b);

// The smallest exponent of every unknown (0 where a term lacks it), as a monomial: what can be factored out.
Monomial content(const Polynomial& a);

}  // namespace dl
