// Numbers that are formulas over symbols ("batch*seq", "8/tp"): the same rules, run for many sizes at once.
//
// A Value of type number from kFirstFormula on stands for a canonical formula that also knows its value at one concrete
// point, the point of the run. Arithmetic is exact on formulas; equality is identity of the canonical form. A comparison
// that comes out alike for all admissible values of the symbols is decided outright; any other is decided by the concrete
// point, and what it came to is a *condition* of all that is derived through it. The same holds for divisions that come
// out even only at some points. What cannot work on formulas at all (bits, range bounds, lengths of texts, floats) works
// on the value at the point, under the condition that the formula equals it.
//
// Formulas are exact integers. At another point a run of the ordinary engine does the same as long as nothing wraps.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core.hpp"
#include "polynomial.hpp"
#include "symbols.hpp"

namespace dl {

inline constexpr Value kFirstFormula = Value{1} << 62;
inline bool is_formula(Value number) { return number >= kFirstFormula; }

struct SymbolDeclaration {
    std::string name;
    Value value = 0;    // at the point of the run
    Value minimum = 0;  // of all admissible values
    std::string below;  // another symbol that is always larger, or ""
};

struct Condition {
    enum class Kind : std::uint8_t {
        Less, LessEqual, NotEqual,  // of left and right
        Equal,                      // they are here; or a formula was replaced by its value at the point
        Integer,                    // left / right is an integer
    };
    Kind kind = Kind::Less;
    std::string left, right;
};

// A condition, and the rule whose evaluation asked (-1: unknown).
struct Decision {
    int condition = -1;
    int rule = -1;
};

class SymbolicNumbers {
public:
    // Throws EvaluationError: names that are no names or not different, a point outside the bounds.
    explicit SymbolicNumbers(std::vector<SymbolDeclaration> symbols);

    // ---- formulas and text
    // A number or formula as text. Throws TextError. `given`: it comes with the facts, so it is an integer at all points.
    Value read(std::string_view text, bool given);
    std::string text(Value number) const;
    // Numbers from 2^62 on are not available. Throws EvaluationError.
    static void check_plain(Value number) {
        if (number >= kFirstFormula || number <= -kFirstFormula) throw EvaluationError("overflow: with symbols, numbers have 62 bits");
    }
    Value value(Value number) const { return is_formula(number) ? formula(number).value : number; }

    // ---- what rules compute. At least one argument is a formula.
    Value apply(Op op, const Value* arguments, std::size_t count);
    bool compare(Compare how, Value left, Value right);
    // The value at the point, under that condition.
    Value concrete(Value number);

    // ---- texts with formulas in them, as to_string and cat make them
    bool has_formula(Value symbol) const { return made_.count(symbol) != 0; }
    Value to_text(Value formula, Symbols& symbols);
    Value cat(const std::vector<Value>& parts, Symbols& symbols);
    Value to_number(Value symbol) const;  // the formula that a text is, or -1
    std::string concrete_text(Value symbol, const Symbols& symbols);

    // ---- what may be equal at another point
    // Texts without their numbers: those of two texts that are equal at some point are the same.
    std::string mask(Value symbol, const Symbols& symbols) const;
    template <class Visit>
    void for_each_text(Visit&& visit) const {
        for (const auto& made : made_) visit(made.first);
    }
    std::size_t texts() const { return made_.size(); }
    // Pairs of numbers of which one has to differ for two texts to differ. False: they differ in any case.
    bool text_pairs(Value left, Value right, const Symbols& symbols, std::vector<std::pair<Value, Value>>& pairs);
    bool surely_differ(const std::vector<std::pair<Value, Value>>& pairs) const;  // one of them, at all points
    // Note that one of these pairs differs, unless one does at all points.
    void one_differs(const std::vector<std::pair<Value, Value>>& pairs);

    // ---- conditions
    const std::vector<Condition>& conditions() const { return conditions_; }
    std::vector<Decision>* trail = nullptr;  // where undecided comparisons and divisions are noted, if anywhere
    int rule = -1;                           // … as asked for by this rule

private:
    friend class FormulaReader;

    struct Unknown {  // an unknown
        std::string text;
        Rational value, minimum;
        Polynomial shifted;  // itself, in parts that are not negative
        bool positive = false;
    };
    struct Formula {
        Polynomial polynomial;
        std::string text;
        Value value;
    };
    struct Sign {
        bool not_negative = false, not_positive = false, not_zero = false;
    };
    struct Outcome {
        Value result = 0;
        std::vector<int> conditions;
    };
    struct Question {
        int what;
        Value left, right;
        bool operator==(const Question&) const = default;
    };
    struct QuestionHash {
        std::size_t operator()(const Question& q) const {
            return static_cast<std::size_t>(mix(mix(static_cast<std::uint64_t>(q.left), static_cast<std::uint64_t>(q.right)), static_cast<std::uint64_t>(q.what)));
        }
    };
    struct Piece {  // of a text: letters, then a number
        std::string letters;
        Value number;
        bool has_number;
    };

    std::vector<Piece> tokens(Value symbol, const Symbols& symbols) const;

    const Formula& formula(Value number) const { return formulas_[static_cast<std::size_t>(number - kFirstFormula)]; }
    Polynomial polynomial(Value number) const { return is_formula(number) ? formula(number).polynomial : Polynomial(Rational(number)); }
    Value intern(const Polynomial& polynomial);
    std::string text(const Polynomial& polynomial) const;
    Rational evaluate(const Polynomial& polynomial) const;
    Sign sign(const Polynomial& polynomial) const;
    bool whole(const Rational& coefficient, const Monomial& monomial, int depth) const;
    Polynomial not_whole(const Polynomial& polynomial) const;  // without the terms that are integers everywhere
    bool whole(const Polynomial& polynomial) const;
    void given(const Polynomial& polynomial);
    void find_bounds();
    static bool leads_back(Indeterminate symbol, const std::vector<Polynomial>& factor, const std::vector<Polynomial>& offset);
    const Polynomial& shift(Indeterminate symbol, const std::vector<Polynomial>& factor, const std::vector<Polynomial>& offset);

    template <class Compute>
    Value remember(const Question& question, Compute&& compute);
    Value binary(Op op, Value left, Value right);
    Value divide(Value left, Value right, bool remainder);
    Value power(Value base, Value exponent);
    Polynomial opaque(const std::string& text, const Rational& value);
    Polynomial floor_of(const Polynomial& quotient);
    Polynomial floor_of(const Polynomial& left, const Polynomial& right);
    Polynomial remainder_of(const Polynomial& left, const Polynomial& right);
    bool decide(Compare how, Value left, Value right);
    void assume(Condition::Kind kind, std::string left, std::string right);
    void note(int condition);

    std::vector<Unknown> unknowns_;  // the symbols, by name, then what has no simpler form
    std::unordered_map<std::string, Indeterminate> unknown_of_;
    std::vector<std::pair<Indeterminate, Indeterminate>> below_;
    std::vector<Formula> formulas_;
    std::unordered_map<std::string, Value> formula_of_;       // by text
    std::map<Monomial, Rational, LargerMonomial> integers_;   // monomials of which these multiples are integers
    std::vector<Polynomial> integer_sums_;
    std::unordered_map<Question, Outcome, QuestionHash> outcomes_;
    std::vector<Condition> conditions_;
    std::unordered_map<std::string, int> condition_of_;
    std::vector<int>* pending_ = nullptr;  // conditions of the outcome that is being computed
    std::unordered_map<Value, std::vector<Piece>> made_;  // by symbol
};

}  // namespace dl
