#include "souffle_text.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>

#include "functors.hpp"

namespace dl {

namespace {

bool generated(const std::string& name) { return name.find('@') != std::string::npos; }

// Names with other characters replaced, kept apart from each other.
std::vector<std::string> plain(const std::vector<std::string>& names) {
    std::set<std::string> taken(names.begin(), names.end());
    std::vector<std::string> out;
    for (const std::string& name : names) {
        std::string text;
        for (const char c : name) text += std::isalnum(static_cast<unsigned char>(c)) || c == '_' ? c : '_';
        if (text != name) {
            if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) text = "n" + text;
            std::string unique = text;
            for (int i = 1; !taken.insert(unique).second; ++i) unique = text + "_" + std::to_string(i);
            text = unique;
        }
        out.push_back(text);
    }
    return out;
}

class Printer {
public:
    Printer(Engine& engine, const std::vector<char>& given)
        : engine_(engine), program_(engine.program()), given_(given), relations_(souffle_names(program_)) {
        std::vector<std::string> types;
        for (const Type& type : program_.types) types.push_back(type.name);
        types_ = plain(types);
    }

    std::string run() {
        for (std::size_t i = 4; i < program_.types.size(); ++i) type(i);
        for (const Functor& functor : program_.functors) declare(functor);
        for (std::size_t i = 0; i < program_.relations.size(); ++i) declare(static_cast<int>(i));
        for (const Directive& d : program_.directives)
            if (d.kind == Directive::Kind::LimitSize)
                for (const auto& [key, value] : d.parameters)
                    if (key == "n") out_ += ".limitsize " + name(d.relation) + "(n=" + value + ")\n";
        std::vector<int> stratum_of(program_.relations.size(), -1);
        for (std::size_t s = 0; s < engine_.strata().size(); ++s)
            for (const int r : engine_.strata()[s].relations) stratum_of[static_cast<std::size_t>(r)] = static_cast<int>(s);
        for (std::size_t i = 0; i < program_.rules.size(); ++i) {
            rule_ = &program_.rules[i];
            rule();
            plans(static_cast<int>(i), stratum_of);
        }
        return std::move(out_);
    }

private:
    const std::string& name(int relation) const { return relations_[static_cast<std::size_t>(relation)]; }
    const std::string& type_name(TypeIndex type) const { return types_[static_cast<std::size_t>(type)]; }

    std::string fields(const std::vector<Field>& fields) const {
        std::string out;
        for (std::size_t i = 0; i < fields.size(); ++i) out += (i ? ", " : "") + fields[i].name + ": " + type_name(fields[i].type);
        return out;
    }

    void type(std::size_t index) {
        const Type& t = program_.types[index];
        out_ += ".type " + types_[index];
        switch (t.kind) {
            case TypeKind::Record: out_ += " = [" + fields(t.fields) + "]\n"; return;
            case TypeKind::Adt:
                for (std::size_t i = 0; i < t.branches.size(); ++i)
                    out_ += (i ? " | " : " = ") + t.branches[i].name + " {" + fields(t.branches[i].fields) + "}";
                out_ += "\n";
                return;
            default: out_ += " <: " + types_[static_cast<std::size_t>(t.kind)] + "\n";
        }
    }

    void declare(const Functor& functor) {
        out_ += ".functor " + functor.name + "(";
        for (std::size_t i = 0; i < functor.parameters.size(); ++i)
            out_ += (i ? ", a" : "a") + std::to_string(i) + ": " + type_name(functor.parameters[i]);
        out_ += "): " + type_name(functor.result) + (functor.stateful ? " stateful\n" : "\n");
    }

    void declare(int index) {
        const Relation& relation = program_.relations[static_cast<std::size_t>(index)];
        std::vector<std::string> columns;
        for (const Attribute& a : relation.attributes) columns.push_back(a.name);
        columns = plain(columns);
        out_ += ".decl " + name(index) + "(";
        for (std::size_t i = 0; i < columns.size(); ++i)
            out_ += (i ? ", " : "") + columns[i] + ": " + type_name(relation.attributes[i].type);
        out_ += ")";
        if (relation.eqrel) out_ += " eqrel";
        for (std::size_t k = 0; k < relation.choice.size(); ++k) {
            out_ += k ? ", (" : " choice-domain (";
            for (std::size_t i = 0; i < relation.choice[k].size(); ++i) out_ += (i ? ", " : "") + columns[static_cast<std::size_t>(relation.choice[k][i])];
            out_ += ")";
        }
        out_ += "\n";
        if (given_[static_cast<std::size_t>(index)]) out_ += ".input " + name(index) + "\n";
        if (!generated(relation.name)) out_ += ".output " + name(index) + "\n";
    }

    void rule() {
        const bool subsumes = rule_->kind == Rule::Kind::Subsume;
        out_ += atom(subsumes ? rule_->body[0].atom : rule_->head);
        if (subsumes) out_ += " <= " + atom(rule_->body[1].atom);
        std::string body;
        for (std::size_t i = subsumes ? 2 : 0; i < rule_->body.size(); ++i) body += (body.empty() ? "" : ", ") + literal(rule_->body[i]);
        if (subsumes && body.empty()) body = "true";
        out_ += body.empty() ? ".\n" : " :- " + body + ".\n";
    }

    // Where a rule reads its own stratum, the order of atoms for each such atom ranging over the delta.
    void plans(int index, const std::vector<int>& stratum_of) {
        if (rule_->kind == Rule::Kind::Subsume) return;
        std::vector<int> atoms;  // position in the body
        for (std::size_t i = 0; i < rule_->body.size(); ++i) {
            if (rule_->body[i].kind == Literal::Kind::Aggregate) return;  // Soufflé may add its atoms to the ones that it counts
            if (rule_->body[i].kind == Literal::Kind::Atom) atoms.push_back(static_cast<int>(i));
        }
        if (atoms.size() < 2) return;
        std::string plan;
        int version = 0;
        const int own = stratum_of[static_cast<std::size_t>(rule_->head.relation)];
        for (std::size_t k = 0; k < atoms.size(); ++k) {
            const int relation = rule_->body[static_cast<std::size_t>(atoms[k])].atom.relation;
            if (stratum_of[static_cast<std::size_t>(relation)] != own) continue;
            plan += (version ? ", " : "") + std::to_string(version) + ":(";
            ++version;
            const std::vector<int> order = engine_.join_order(index, static_cast<int>(k));
            for (std::size_t i = 0; i < order.size(); ++i) plan += (i ? "," : "") + std::to_string(order[i] + 1);
            plan += ")";
        }
        if (version > 0) out_ += ".plan " + plan + "\n";
    }

    std::string atom(const Atom& a) const { return name(a.relation) + "(" + list(a.args) + ")"; }

    std::string literal(const Literal& l) const {
        switch (l.kind) {
            case Literal::Kind::Atom: return atom(l.atom);
            case Literal::Kind::Negation: return "!" + atom(l.atom);
            case Literal::Kind::Comparison: {
                constexpr const char* names[] = {"=", "!=", "<", "<=", ">", ">=", "match", "!match", "contains", "!contains", "true", "false"};
                const std::string sign = names[static_cast<int>(l.compare)];
                if (l.compare >= Compare::True) return sign;
                if (l.compare >= Compare::Match) return sign + "(" + term(l.left) + ", " + term(l.right) + ")";
                return term(l.left) + " " + sign + " " + term(l.right);
            }
            case Literal::Kind::Aggregate: {
                constexpr const char* names[] = {"count", "sum", "min", "max", "mean"};
                std::string out = variable(l.result) + " = " + names[static_cast<int>(l.aggregate)];
                if (l.aggregate != Aggregate::Count) out += " " + term(l.target);
                out += " : { ";
                for (std::size_t i = 0; i < l.body.size(); ++i) out += (i ? ", " : "") + literal(l.body[i]);
                return out + " }";
            }
        }
        return "";
    }

    // Variables of nested aggregates may share names: the number keeps them apart.
    std::string variable(int index) const {
        std::string out = "v";
        for (const char c : rule_->variables[static_cast<std::size_t>(index)].name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
        return out + "_" + std::to_string(index);
    }

    std::string list(const std::vector<Term>& terms, const char* separator = ", ") const {
        std::string out;
        for (std::size_t i = 0; i < terms.size(); ++i) out += (i ? separator : "") + term(terms[i]);
        return out;
    }

    std::string term(const Term& t) const {
        switch (t.kind) {
            case Term::Kind::Variable: return variable(t.variable);
            case Term::Kind::Unnamed: return "_";
            case Term::Kind::Nil: return "nil";
            case Term::Kind::Record: return "[" + list(t.args) + "]";
            case Term::Kind::Branch: {
                const Type& type = program_.types[static_cast<std::size_t>(t.type_index)];
                return "$" + type.branches[static_cast<std::size_t>(t.branch)].name + "(" + list(t.args) + ")";
            }
            case Term::Kind::Constant: return constant(t);
            case Term::Kind::Functor: return functor(t);
        }
        return "";
    }

    std::string constant(const Term& t) const {
        switch (t.type) {
            case TypeKind::Symbol: {
                std::string out = "\"";
                for (const char c : t.text) {
                    if (c == '"' || c == '\\') out += '\\';
                    if (c == '\n') out += "\\n";
                    else if (c == '\t') out += "\\t";
                    else if (c == '\r') out += "\\r";
                    else out += c;
                }
                return out + "\"";
            }
            case TypeKind::Unsigned: return std::to_string(as_unsigned(t.number)) + "u";
            case TypeKind::Float: {
                const double value = as_float(t.number);
                if (!std::isfinite(value)) return std::isnan(value) ? "(0.0 / 0.0)" : value > 0 ? "(1.0 / 0.0)" : "(-1.0 / 0.0)";
                char text[512];
                std::snprintf(text, sizeof text, "%.17f", std::fabs(value));
                // the notation has no exponent: digits that %.17f loses are multiplied back
                if (std::strtod(text, nullptr) != std::fabs(value)) std::snprintf(text, sizeof text, "%.400f", std::fabs(value));
                return value < 0 || std::signbit(value) ? "(-" + std::string(text) + ")" : text;
            }
            default:
                if (t.number == std::numeric_limits<Value>::min()) return "(-9223372036854775807 - 1)";
                return t.number < 0 ? "(" + std::to_string(t.number) + ")" : std::to_string(t.number);
        }
    }

    std::string functor(const Term& t) const {
        const auto call = [&](const std::string& f) { return f + "(" + list(t.args) + ")"; };
        const auto infix = [&](const char* sign) { return "(" + list(t.args, (std::string(" ") + sign + " ").c_str()) + ")"; };
        const auto prefix = [&](const char* sign) { return "(" + std::string(sign) + " " + term(t.args[0]) + ")"; };
        switch (t.op) {
            case Op::Neg: return prefix("-");
            case Op::BitNot: return prefix("bnot");
            case Op::LogicNot: return prefix("lnot");
            case Op::Add: return infix("+");
            case Op::Sub: return infix("-");
            case Op::Mul: return infix("*");
            case Op::Div: return infix("/");
            case Op::Mod: return infix("%");
            case Op::Exp: return infix("^");
            case Op::BitAnd: return infix("band");
            case Op::BitOr: return infix("bor");
            case Op::BitXor: return infix("bxor");
            case Op::ShiftLeft: return infix("bshl");
            case Op::ShiftRight: return infix("bshr");
            case Op::ShiftRightUnsigned: return infix("bshru");
            case Op::LogicAnd: return infix("land");
            case Op::LogicOr: return infix("lor");
            case Op::LogicXor: return infix("lxor");
            case Op::Max: return call("max");
            case Op::Min: return call("min");
            case Op::Cat: return call("cat");
            case Op::StrLen: return call("strlen");
            case Op::SubStr: return call("substr");
            case Op::Ord: return call("ord");
            case Op::AutoInc: return "autoinc()";
            case Op::Range: return call("range");
            case Op::User: return call("@" + program_.functors[static_cast<std::size_t>(t.functor)].name);
            case Op::Cast: {
                const TypeIndex to = t.type_index > 0 ? t.type_index : static_cast<TypeIndex>(t.type);
                return "as(" + term(t.args[0]) + ", " + type_name(to) + ")";
            }
            case Op::Convert: {
                constexpr const char* names[] = {"to_number", "to_unsigned", "to_float", "to_string"};
                return call(names[static_cast<int>(t.type)]);
            }
        }
        return "";
    }

    Engine& engine_;
    const CoreProgram& program_;
    const std::vector<char>& given_;
    std::vector<std::string> relations_, types_;
    const Rule* rule_ = nullptr;
    std::string out_;
};

}  // namespace

std::vector<std::string> souffle_names(const CoreProgram& program) {
    std::vector<std::string> names;
    for (const Relation& relation : program.relations) names.push_back(relation.name);
    return plain(names);
}

std::string souffle_text(Engine& engine, const std::vector<char>& given) { return Printer(engine, given).run(); }

}  // namespace dl
