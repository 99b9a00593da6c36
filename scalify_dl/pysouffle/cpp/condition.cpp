// `#if` expressions: integer arithmetic as in C.
#include <cstdlib>
#include <stdexcept>
#include <string>

#include "preprocessor.hpp"

namespace dl {

namespace {

class IfLine {
public:
    explicit IfLine(std::string_view text) : text_(text) {}

    long long value() {
        const long long result = ternary();
        skip();
        if (at_ != text_.size()) fail("unexpected '" + std::string(1, text_[at_]) + "'");
        return result;
    }

private:
    [[noreturn]] static void fail(const std::string& why) { throw std::runtime_error("bad #if expression: " + why); }

    void skip() {
        while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '\n')) ++at_;
    }
    bool take(std::string_view token) {
        skip();
        if (text_.substr(at_, token.size()) != token) return false;
        at_ += token.size();
        return true;
    }

    long long ternary() {
        if (++depth_ > 200) fail("nested too deeply");
        const long long condition = binary(0);
        long long result = condition;
        if (take("?")) {
            const long long yes = ternary();
            if (!take(":")) fail("':' is missing");
            const long long no = ternary();
            result = condition ? yes : no;
        }
        --depth_;
        return result;
    }

    struct Operator {
        const char* token;
        int level;
    };
    // Longer tokens first where one is the beginning of another.
    static constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"==", 6}, {"!=", 6}, {"<<", 8}, {">>", 8},
                                              {"<=", 7}, {">=", 7}, {"|", 3},  {"^", 4},  {"&", 5},  {"<", 7},
                                              {">", 7},  {"+", 9},  {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

    const Operator* next_operator() {
        skip();
        for (const Operator& op : kOperators)
            if (text_.substr(at_, std::string_view(op.token).size()) == op.token) return &op;
        return nullptr;
    }

    long long binary(int level) {
        long long left = unary();
        for (const Operator* op; (op = next_operator()) && op->level > level;) {
            at_ += std::string_view(op->token).size();
            left = apply(op->token, left, binary(op->level));
        }
        return left;
    }

    static long long apply(std::string_view op, long long a, long long b) {
        using U = unsigned long long;
        if (op == "||") return a || b;
        if (op == "&&") return a && b;
        if (op == "==") return a == b;
        if (op == "!=") return a != b;
        if (op == "<=") return a <= b;
        if (op == ">=") return a >= b;
        if (op == "<") return a < b;
        if (op == ">") return a > b;
        if (op == "|") return a | b;
        if (op == "^") return a ^ b;
        if (op == "&") return a & b;
        if (op == "<<") return static_cast<long long>(static_cast<U>(a) << (b & 63));
        if (op == ">>") return a >> (b & 63);
        if (op == "+") return static_cast<long long>(static_cast<U>(a) + static_cast<U>(b));
        if (op == "-") return static_cast<long long>(static_cast<U>(a) - static_cast<U>(b));
        if (op == "*") return static_cast<long long>(static_cast<U>(a) * static_cast<U>(b));
        if (b == 0) fail("division by zero");
        if (b == -1) return op == "/" ? static_cast<long long>(-static_cast<U>(a)) : 0;
        return op == "/" ? a / b : a % b;
    }

    long long unary() {
        if (++depth_ > 200) fail("nested too deeply");
        const long long result = operand();
        --depth_;
        return result;
    }

    long long operand() {
        skip();
        if (at_ == text_.size()) fail("an operand is missing");
        const char c = text_[at_];
        if (c == '!') return ++at_, !unary();
        if (c == '~') return ++at_, ~unary();
        if (c == '-') return ++at_, static_cast<long long>(-static_cast<unsigned long long>(unary()));
        if (c == '+') return ++at_, unary();
        if (c == '(') {
            ++at_;
            const long long result = ternary();
            if (!take(")")) fail("')' is missing");
            return result;
        }
        const std::size_t end = token_end(text_, at_);
        const std::string token(text_.substr(at_, end - at_));
        at_ = end;
        if (is_digit(c)) return static_cast<long long>(std::strtoull(token.c_str(), nullptr, 0));
        if (is_identifier_start(c)) return token == "true";
        fail("unexpected '" + token + "'");
    }

    std::string_view text_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

}  // namespace

bool is_defined(std::string_view name, const Macros& macros) {
    return macros.defined(name) || name == "__FILE__" || name == "__LINE__";
}

bool evaluate_condition(std::string_view expression, const Macros& macros) {
    // `defined X` goes first: X must not be expanded.
    std::string replaced;
    for (std::size_t i = 0; i < expression.size();) {
        std::size_t end = token_end(expression, i);
        if (expression.substr(i, end - i) != "defined") {
            replaced += expression.substr(i, end - i);
            i = end;
            continue;
        }
        std::size_t name = end;
        while (name < expression.size() && (is_blank(expression[name]) || expression[name] == '(')) ++name;
        if (name == expression.size() || !is_identifier_start(expression[name]))
            throw std::runtime_error("'defined' needs a name");
        const bool parenthesis = expression.substr(end, name - end).find('(') != std::string_view::npos;
        end = token_end(expression, name);
        replaced += is_defined(expression.substr(name, end - name), macros) ? " 1 " : " 0 ";
        if (parenthesis) {
            end = expression.find(')', end);
            if (end == std::string_view::npos) throw std::runtime_error("')' is missing after 'defined('");
            ++end;
        }
        i = end;
    }
    const std::string expanded = macros.expand(replaced);
    return IfLine(expanded).value() != 0;
}

}  // namespace dl
