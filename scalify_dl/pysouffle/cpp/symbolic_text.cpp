// Formulas as text: reading them, and texts that rules make from them.
#include <algorithm>
#include <cctype>

#include "symbolic.hpp"
#include "text.hpp"

namespace dl {

// sum: [-] product {(+|-) product}; product: power {(*|/) power}; power: operand [^ integer];
// operand: integer, symbol, (sum), floor(sum), floor((sum)/(sum)), mod(sum, sum)
class FormulaReader {
public:
    FormulaReader(SymbolicNumbers& numbers, std::string_view text, bool given) : numbers_(numbers), text_(text), given_(given) {}

    Polynomial read() {
        Polynomial out = sum();
        blanks();
        if (at_ != text_.size()) fail("expected an operator or the end of the formula");
        return out;
    }

private:
    [[noreturn]] void fail(const std::string& message) const {
        const std::string found = at_ < text_.size() ? "\"" + std::string(text_.substr(at_, 20)) + "\"" : "the end";
        throw TextError{message + ", found " + found, at_};
    }
    void blanks() {
        while (at_ < text_.size() && text_[at_] == ' ') ++at_;
    }
    bool take(char c) {
        blanks();
        if (at_ >= text_.size() || text_[at_] != c) return false;
        ++at_;
        return true;
    }
    void expect(char c) {
        if (!take(c)) fail(std::string("expected '") + c + "'");
    }

    Polynomial sum() {
        if (++depth_ > 100) fail("brackets nested more than 100 deep");
        Polynomial out = take('-') ? -product() : product();
        for (;;) {
            if (take('+')) out = out + product();
            else if (take('-')) out = out - product();
            else break;
        }
        --depth_;
        return out;
    }

    Polynomial product() {
        Polynomial out = power();
        for (;;) {
            if (take('*')) {
                out = out * power();
            } else if (take('/')) {
                const std::size_t begin = at_;
                const Polynomial divisor = power();
                if (divisor.zero()) at_ = begin, fail("expected a divisor that is not 0");
                const auto quotient = exact_quotient(out, divisor);
                if (!quotient) at_ = begin, fail("expected a divisor without + and - (elsewhere, write floor((a)/(b)))");
                out = *quotient;
            } else {
                return out;
            }
        }
    }

    Polynomial power() {
        const Polynomial base = operand();
        if (!take('^')) return base;
        const Wide exponent = integer();
        if (exponent > 64) fail("expected an exponent of at most 64");
        Polynomial out(Rational(1));
        for (Wide i = 0; i < exponent; ++i) out = out * base;
        return out;
    }

    Wide integer() {
        blanks();
        const std::size_t begin = at_;
        Wide value = 0;
        for (; at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_])); ++at_) {
            value = value * 10 + (text_[at_] - '0');
            if (value >= kFirstFormula) at_ = begin, fail("expected a number below 2^62");
        }
        if (at_ == begin) fail("expected a number");
        return value;
    }

    Polynomial operand() {
        blanks();
        if (at_ < text_.size() && std::isdigit(static_cast<unsigned char>(text_[at_]))) return Polynomial(Rational(integer()));
        if (take('(')) {
            Polynomial out = sum();
            expect(')');
            return out;
        }
        const std::size_t begin = at_;
        while (at_ < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_')) ++at_;
        const std::string name(text_.substr(begin, at_ - begin));
        if (name.empty()) fail("expected a number or a formula");
        if (name == "floor") return floor();
        if (name == "mod") return mod();
        const auto known = numbers_.unknown_of_.find(name);
        if (known == numbers_.unknown_of_.end()) {
            std::string names;
            for (const auto& unknown : numbers_.unknowns_)
                if (unknown.text.find('(') == std::string::npos) names += (names.empty() ? "" : ", ") + unknown.text;
            at_ = begin;
            fail(names.empty() ? "expected a number (there are no symbols)" : "expected a symbol (there are " + names + ")");
        }
        return Polynomial::unknown(known->second);
    }

    Polynomial floor() {
        expect('(');
        const std::size_t begin = at_;
        blanks();
        if (at_ < text_.size() && text_[at_] == '(') {  // floor((a)/(b)), or just a sum that begins with a bracket
            expect('(');
            const Polynomial above = sum();
            expect(')');
            if (take('/') && take('(')) {
                const Polynomial below = sum();
                if (take(')') && take(')') && below.terms().size() > 1) {
                    if (!exact_quotient(above, below)) {
                        check(above, false, begin);
                        check(below, true, begin);
                        return numbers_.floor_of(above, below);
                    }
                }
            }
            at_ = begin;
        }
        const Polynomial inside = sum();
        expect(')');
        check(inside, false, begin);
        return numbers_.floor_of(inside);
    }

    Polynomial mod() {
        expect('(');
        const std::size_t begin = at_;
        const Polynomial left = sum();
        expect(',');
        const Polynomial right = sum();
        expect(')');
        check(left, false, begin);
        check(right, true, begin);
        const auto quotient = exact_quotient(left, right);
        if (quotient && numbers_.whole(*quotient)) return {};
        return numbers_.remainder_of(left, right);
    }

    // What rules have made, on conditions, may be asked about.
    void check(const Polynomial& p, bool positive, std::size_t begin) {
        if (!given_ && numbers_.evaluate(p).sign() >= positive) return;
        const auto sign = numbers_.sign(p);
        if (sign.not_negative && (!positive || sign.not_zero)) return;
        at_ = begin;
        fail("expected floor and mod of what is " + std::string(positive ? "positive" : "not negative") + " for all values of the symbols");
    }

    SymbolicNumbers& numbers_;
    std::string_view text_;
    bool given_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

Value SymbolicNumbers::read(std::string_view text, bool given) {
    try {
        const Polynomial formula = FormulaReader(*this, text, given).read();
        const Value value = intern(formula);
        if (given) this->given(formula);
        return value;
    } catch (const EvaluationError& error) {
        throw TextError{error.what(), 0};
    }
}

// ---------------------------------------------------------------- texts made from formulas

Value SymbolicNumbers::to_text(Value number, Symbols& symbols) {
    const Value symbol = symbols.intern(text(number));
    if (is_formula(number)) made_.try_emplace(symbol, std::vector<Piece>{{"", number, true}});
    return symbol;
}

Value SymbolicNumbers::cat(const std::vector<Value>& parts, Symbols& symbols) {
    std::string text;
    std::vector<Piece> pieces;
    bool made = false;
    for (const Value part : parts) {
        text += symbols.text(part);
        const auto known = made_.find(part);
        std::vector<Piece> more{{std::string(symbols.text(part)), 0, false}};
        if (known != made_.end()) more = known->second, made = true;
        for (Piece& piece : more) {
            if (!pieces.empty() && !pieces.back().has_number) {
                pieces.back().letters += piece.letters;
                pieces.back().number = piece.number;
                pieces.back().has_number = piece.has_number;
            } else {
                pieces.push_back(std::move(piece));
            }
        }
    }
    const Value symbol = symbols.intern(text);
    if (made) made_.try_emplace(symbol, std::move(pieces));
    return symbol;
}

Value SymbolicNumbers::to_number(Value symbol) const {
    const auto known = made_.find(symbol);
    const bool alone = known != made_.end() && known->second.size() == 1 && known->second[0].letters.empty();
    return alone ? known->second[0].number : -1;
}

std::string SymbolicNumbers::concrete_text(Value symbol, const Symbols& symbols) {
    const auto known = made_.find(symbol);
    if (known == made_.end()) return std::string(symbols.text(symbol));
    std::string out;
    for (const Piece& piece : known->second) {
        out += piece.letters;
        if (piece.has_number) out += std::to_string(concrete(piece.number));
    }
    return out;
}

// ---------------------------------------------------------------- texts that may be equal elsewhere

namespace {

bool digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Letters with every number in them (and its sign) replaced by #; numbers side by side are one.
void append_masked(const std::string& letters, std::string& out) {
    for (const char c : letters) {
        if (!digit(c)) {
            out += c;
            continue;
        }
        if (!out.empty() && out.back() == '-') out.pop_back();
        if (out.empty() || out.back() != '#') out += '#';
    }
}

}  // namespace

std::string SymbolicNumbers::mask(Value symbol, const Symbols& symbols) const {
    std::string out;
    const auto known = made_.find(symbol);
    if (known == made_.end()) {
        append_masked(std::string(symbols.text(symbol)), out);
        return out;
    }
    for (const Piece& piece : known->second) {
        append_masked(piece.letters, out);
        if (piece.has_number) append_masked("0", out);
    }
    return out;
}

// Letters and numbers in turn; numbers written out in the letters are taken apart too.
std::vector<SymbolicNumbers::Piece> SymbolicNumbers::tokens(Value symbol, const Symbols& symbols) const {
    const auto known = made_.find(symbol);
    const std::vector<Piece> pieces = known != made_.end() ? known->second : std::vector<Piece>{{std::string(symbols.text(symbol)), 0, false}};
    std::vector<Piece> out{{"", 0, false}};
    for (const Piece& piece : pieces) {
        for (std::size_t at = 0; at < piece.letters.size();) {
            std::size_t end = at;
            while (end < piece.letters.size() && digit(piece.letters[end])) ++end;
            if (end == at) {
                out.back().letters += piece.letters[at++];
                continue;
            }
            // too long, or not as to_string writes it: part of the letters
            if (end - at > 18 || (end - at > 1 && piece.letters[at] == '0')) {
                out.back().letters += piece.letters.substr(at, end - at);
            } else {
                out.back().number = std::stoll(piece.letters.substr(at, end - at));
                out.back().has_number = true;
                out.push_back({"", 0, false});
            }
            at = end;
        }
        if (!piece.has_number) continue;
        out.back().number = piece.number;
        out.back().has_number = true;
        out.push_back({"", 0, false});
    }
    return out;
}

bool SymbolicNumbers::text_pairs(Value left, Value right, const Symbols& symbols, std::vector<std::pair<Value, Value>>& pairs) {
    if (mask(left, symbols) != mask(right, symbols)) return false;
    const std::vector<Piece> a = tokens(left, symbols), b = tokens(right, symbols);
    // where a number touches digits or a sign, or may have a sign itself, there are several ways to read a text
    const auto clear = [&](const std::vector<Piece>& pieces) {
        for (std::size_t i = 0; i < pieces.size(); ++i) {
            if (i > 0 && i + 1 < pieces.size() && pieces[i].letters.empty()) return false;
            if (pieces[i].has_number && !pieces[i].letters.empty() && pieces[i].letters.back() == '-') return false;
            if (pieces[i].has_number && is_formula(pieces[i].number) && !sign(polynomial(pieces[i].number)).not_negative) return false;
            if (!pieces[i].letters.empty() && digit(pieces[i].letters.back())) return false;
        }
        return true;
    };
    bool aligned = a.size() == b.size() && clear(a) && clear(b);
    for (std::size_t i = 0; aligned && i < a.size(); ++i) aligned = a[i].letters == b[i].letters && a[i].has_number == b[i].has_number;
    if (aligned) {
        for (std::size_t i = 0; i < a.size(); ++i)
            if (a[i].has_number && a[i].number != b[i].number) pairs.emplace_back(a[i].number, b[i].number);
        return true;
    }
    return concrete_text(left, symbols) == concrete_text(right, symbols);  // on the condition that all numbers are as here
}

bool SymbolicNumbers::surely_differ(const std::vector<std::pair<Value, Value>>& pairs) const {
    return std::any_of(pairs.begin(), pairs.end(), [&](const auto& pair) { return sign(polynomial(pair.first) - polynomial(pair.second)).not_zero; });
}

void SymbolicNumbers::one_differs(const std::vector<std::pair<Value, Value>>& pairs) {
    if (surely_differ(pairs)) return;
    if (pairs.empty()) assume(Condition::Kind::NotEqual, "0", "0");  // equal everywhere: nothing can be relied on
    else assume(Condition::Kind::NotEqual, text(pairs.front().first), text(pairs.front().second));
}

}  // namespace dl
