// Literals with their variables' values filled in, for explanations.
#include "provenance.hpp"
#include "text.hpp"

namespace dl {

namespace {

const char* symbol_of(Op op) {
    switch (op) {
        case Op::Add: return "+";
        case Op::Sub: return "-";
        case Op::Mul: return "*";
        case Op::Div: return "/";
        case Op::Mod: return "%";
        case Op::Exp: return "^";
        case Op::BitAnd: return "band";
        case Op::BitOr: return "bor";
        case Op::BitXor: return "bxor";
        case Op::ShiftLeft: return "bshl";
        case Op::ShiftRight: return "bshr";
        case Op::ShiftRightUnsigned: return "bshru";
        case Op::LogicAnd: return "land";
        case Op::LogicOr: return "lor";
        case Op::LogicXor: return "lxor";
        default: return nullptr;
    }
}

const char* name_of(Op op) {
    switch (op) {
        case Op::Neg: return "-";
        case Op::BitNot: return "bnot ";
        case Op::LogicNot: return "lnot ";
        case Op::Max: return "max";
        case Op::Min: return "min";
        case Op::Cat: return "cat";
        case Op::StrLen: return "strlen";
        case Op::SubStr: return "substr";
        case Op::Ord: return "ord";
        case Op::Convert: return "to";
        case Op::Cast: return "as";
        case Op::AutoInc: return "autoinc";
        case Op::Range: return "range";
        default: return "@";
    }
}

constexpr int kShown = 200;  // parts of a value that is written out; records share parts, so a small one may be a huge text

class RuleText {
public:
    RuleText(const Engine& engine, const Rule& rule, const std::vector<Value>& variables, const std::vector<char>& known)
        : engine_(engine), rule_(rule), variables_(variables), known_(known),
          text_(engine.program(), const_cast<Engine&>(engine).database()) {}

    std::string term(const Term& t) const {
        std::string out;
        switch (t.kind) {
            case Term::Kind::Unnamed: return "_";
            case Term::Kind::Nil: return "nil";
            case Term::Kind::Variable: {
                const auto v = static_cast<std::size_t>(t.variable);
                int room = kShown;
                if (!known_[v] || !fits(rule_.variables[v].type, variables_[v], room)) return rule_.variables[v].name;
                text_.write(rule_.variables[v].type, variables_[v], out, true);
                return out;
            }
            case Term::Kind::Constant:
                if (t.type == TypeKind::Symbol) return '"' + t.text + '"';
                text_.write(t.type == TypeKind::Unsigned ? kUnsigned : t.type == TypeKind::Float ? kFloat : kNumber, t.number, out);
                return out;
            case Term::Kind::Record: return "[" + list(t.args) + "]";
            case Term::Kind::Branch: {
                const Type& type = engine_.program().types[static_cast<std::size_t>(t.type_index)];
                return "$" + type.branches[static_cast<std::size_t>(t.branch)].name + (t.args.empty() ? "" : "(" + list(t.args) + ")");
            }
            case Term::Kind::Functor: break;
        }
        if (const char* infix = symbol_of(t.op); infix && t.args.size() == 2) return "(" + term(t.args[0]) + " " + infix + " " + term(t.args[1]) + ")";
        const std::string name = t.op == Op::User ? "@" + engine_.program().functors[static_cast<std::size_t>(t.functor)].name : name_of(t.op);
        return name + "(" + list(t.args) + ")";
    }

    std::string atom(const Atom& a) const { return engine_.declaration(a.relation).name + "(" + list(a.args) + ")"; }

    std::string literal(const Literal& l) const {
        constexpr const char* compares[] = {"=", "!=", "<", "<=", ">", ">=", "match", "!match", "contains", "!contains", "true", "false"};
        constexpr const char* aggregates[] = {"count", "sum", "min", "max", "mean"};
        switch (l.kind) {
            case Literal::Kind::Atom: return atom(l.atom);
            case Literal::Kind::Negation: return "!" + atom(l.atom);
            case Literal::Kind::Comparison: {
                const char* name = compares[static_cast<int>(l.compare)];
                if (l.compare >= Compare::True) return name;
                if (l.compare >= Compare::Match) return std::string(name) + "(" + term(l.left) + ", " + term(l.right) + ")";
                return term(l.left) + " " + name + " " + term(l.right);
            }
            case Literal::Kind::Aggregate: {
                Term result;
                result.kind = Term::Kind::Variable;
                result.variable = l.result;
                std::string out = term(result) + " = " + aggregates[static_cast<int>(l.aggregate)];
                if (l.aggregate != Aggregate::Count) out += " " + term(l.target);
                out += " : { ";
                for (std::size_t i = 0; i < l.body.size(); ++i) out += (i ? ", " : "") + literal(l.body[i]);
                return out + " }";
            }
        }
        return "";
    }

private:
    // Whether a value has no more parts than there is room for.
    bool fits(TypeIndex index, Value value, int& room) const {
        const Type& type = engine_.program().types[static_cast<std::size_t>(index)];
        if (--room < 0) return false;
        if (type.kind != TypeKind::Record && (type.kind != TypeKind::Adt || Text::is_enumeration(type))) return true;
        const auto parts = const_cast<Engine&>(engine_).database().records.fields(value);
        if (parts.empty()) return true;
        const bool branch = type.kind == TypeKind::Adt;
        const std::vector<Field>& fields = branch ? type.branches[static_cast<std::size_t>(parts[0])].fields : type.fields;
        for (std::size_t i = 0; i < fields.size(); ++i)
            if (!fits(fields[i].type, parts[i + (branch ? 1 : 0)], room)) return false;
        return true;
    }

    std::string list(const std::vector<Term>& terms) const {
        std::string out;
        for (std::size_t i = 0; i < terms.size(); ++i) out += (i ? ", " : "") + term(terms[i]);
        return out;
    }

    const Engine& engine_;
    const Rule& rule_;
    const std::vector<Value>& variables_;
    const std::vector<char>& known_;
    Text text_;
};

void note_variables(const Term& term, std::vector<char>& known) {
    if (term.kind == Term::Kind::Variable) known[static_cast<std::size_t>(term.variable)] = 1;
    for (const Term& arg : term.args) note_variables(arg, known);
}

}  // namespace

std::vector<char> global_variables(const Rule& rule) {
    std::vector<char> known(rule.variables.size(), 0);
    for (const Term& term : rule.head.args) note_variables(term, known);
    for (const Literal& literal : rule.body) {
        for (const Term& term : literal.atom.args) note_variables(term, known);
        note_variables(literal.left, known);
        note_variables(literal.right, known);
        if (literal.result >= 0) known[static_cast<std::size_t>(literal.result)] = 1;
    }
    return known;
}

std::string instantiate(const Engine& engine, const Rule& rule, const Literal& literal, const std::vector<Value>& variables,
                        const std::vector<char>& known) {
    return RuleText(engine, rule, variables, known).literal(literal);
}

std::string instantiate(const Engine& engine, const Rule& rule, const Atom& atom, const std::vector<Value>& variables,
                        const std::vector<char>& known) {
    return RuleText(engine, rule, variables, known).atom(atom);
}

}  // namespace dl
