#include "normal_form.hpp"

namespace dl {

namespace {

constexpr std::size_t kMaxClauses = 20'000;
constexpr std::size_t kMaxLiterals = 2'000'000;

class NormalForm {
public:
    NormalForm(ast::Arena& arena, Report& report) : arena_(arena), report_(report) {}

    std::vector<Conjunction> of(ast::Literal* literal, bool negative) {
        using Kind = ast::Literal::Kind;
        switch (literal->kind) {
            case Kind::Not: return of(literal->parts[0], !negative);
            case Kind::And:
            case Kind::Or: {
                const bool product = (literal->kind == Kind::And) != negative;
                std::vector<Conjunction> result;
                if (product) result.emplace_back();
                for (ast::Literal* part : literal->parts) {
                    std::vector<Conjunction> options = of(part, negative);
                    if (product) result = multiply(std::move(result), options, literal->begin);
                    else result.insert(result.end(), options.begin(), options.end());
                }
                check(result, literal->begin);
                return result;
            }
            default: return {{negative ? negation(literal) : literal}};
        }
    }

private:
    std::vector<Conjunction> multiply(std::vector<Conjunction> left, const std::vector<Conjunction>& right, Offset begin) {
        if (right.size() == 1) {  // the usual case, without copies
            for (Conjunction& c : left) c.insert(c.end(), right[0].begin(), right[0].end());
            return left;
        }
        if (left.size() * right.size() > kMaxClauses) too_many(begin);
        std::vector<Conjunction> result;
        for (const Conjunction& a : left)
            for (const Conjunction& b : right) {
                result.push_back(a);
                result.back().insert(result.back().end(), b.begin(), b.end());
            }
        check(result, begin);
        return result;
    }

    void check(const std::vector<Conjunction>& result, Offset begin) {
        if (result.size() < 2) return;
        std::size_t literals = 0;
        for (const Conjunction& c : result) literals += c.size();
        if (result.size() > kMaxClauses || literals > kMaxLiterals) too_many(begin);
    }

    [[noreturn]] void too_many(Offset begin) {
        report_.error(begin, "this disjunction multiplies out to more than " + std::to_string(kMaxClauses) + " clauses",
                      "give the alternatives a relation of their own");
        report_.throw_if_errors();
        std::abort();
    }

    ast::Literal* negation(ast::Literal* literal) {
        using Kind = ast::Literal::Kind;
        ast::Literal* result = arena_.make<ast::Literal>();
        result->kind = literal->kind;
        result->begin = literal->begin;
        result->depth = literal->depth;
        result->atom = literal->atom;
        result->left = literal->left;
        result->right = literal->right;
        if (literal->kind == Kind::Atom) result->kind = Kind::Negation;
        else if (literal->kind == Kind::Negation) result->kind = Kind::Atom;
        else result->compare = negated(literal->compare);
        return result;
    }

    ast::Arena& arena_;
    Report& report_;
};

}  // namespace

std::vector<Conjunction> disjunctive_normal_form(ast::Literal* body, ast::Arena& arena, Report& report) {
    return NormalForm(arena, report).of(body, false);
}

Compare negated(Compare compare) {
    switch (compare) {
        case Compare::Equal: return Compare::NotEqual;
        case Compare::NotEqual: return Compare::Equal;
        case Compare::Less: return Compare::GreaterEqual;
        case Compare::LessEqual: return Compare::Greater;
        case Compare::Greater: return Compare::LessEqual;
        case Compare::GreaterEqual: return Compare::Less;
        case Compare::Match: return Compare::NotMatch;
        case Compare::NotMatch: return Compare::Match;
        case Compare::Contains: return Compare::NotContains;
        case Compare::NotContains: return Compare::Contains;
        case Compare::True: return Compare::False;
        case Compare::False: return Compare::True;
    }
    return compare;
}

}  // namespace dl
