// Judges the types that `ClauseTypes` found.
#include <algorithm>

#include "constants.hpp"
#include "patterns.hpp"
#include "typing.hpp"

namespace dl {

using ast::Argument;

namespace {

class Checker {
public:
    Checker(const std::vector<ClauseVariable>& variables, const ClauseTypes& types, Declarations& declarations, Report& report)
        : variables_(variables), found_(types), declarations_(declarations), types_(declarations.types), report_(report) {}

    void run(ast::Clause* clause) {
        for (std::size_t i = 0; i < variables_.size(); ++i)
            if (const ast::Name name = written_name(variables_[i].name); found_.of_variable(i) == kNoType && !name.empty())
                report_.error(variables_[i].begin, "unable to deduce a type for variable " + quote(name),
                              "its uses ask for different types");
        atom(clause->head, false);
        for (ast::Literal* l : clause->body) literal(l);
    }

private:
    bool of_kind(TypeSet set, TypeKind kind) const {
        const std::vector<TypeId>& members = types_.members(set);
        return !members.empty() && std::all_of(members.begin(), members.end(), [&](TypeId t) { return types_.kind(t) == kind; });
    }
    std::string name(TypeSet set) const {
        std::string result;
        for (TypeId t : types_.members(set)) result += (result.empty() ? "" : " or ") + std::string(types_.info(t).name);
        return result.empty() ? "no type" : result;
    }

    void atom(ast::Atom* atom, bool negated) {
        const RelationInfo* relation = declarations_.relation(atom);
        const bool known = relation && relation->arity() == atom->args.size();
        for (std::size_t i = 0; i < atom->args.size(); ++i) {
            Argument* a = atom->args[i];
            const std::size_t errors = report_.error_count();
            argument(a);
            if (known && relation->types[i] >= 0 && report_.error_count() == errors)
                attribute(a, relation->types[i], relation->declaration->attributes[i], negated);
        }
    }

    void attribute(Argument* a, TypeId declared, const ast::Attribute& attribute, bool negated) {
        const std::vector<TypeId>& members = types_.members(found_.of(a));
        const bool valid = std::all_of(members.begin(), members.end(), [&](TypeId t) {
            if (negated) return types_.kind(t) == types_.kind(declared) && (types_.kind(t) <= TypeKind::Symbol || t == declared);
            if (types_.subtype(t, declared)) return true;
            return t < 4 && types_.subtype(declared, t);
        });
        if (!valid)
            report_.error(a->begin,
                          "type mismatch: the argument is of type " + quote(name(found_.of(a))) +
                              ", which is not a subtype of the declared type " + quote(types_.info(declared).name) +
                              " of attribute " + quote(attribute.name),
                          types_.kind(members[0]) == types_.kind(declared) && types_.kind(declared) <= TypeKind::Symbol
                              ? "a cast may be meant: as(..., " + std::string(types_.info(declared).name) + ")"
                              : "");
    }

    void literal(ast::Literal* l) {
        if (l->atom) return atom(l->atom, l->kind == ast::Literal::Kind::Negation);
        if (!l->left) return;
        argument(l->left);
        argument(l->right);
        comparison(l);
    }

    void comparison(ast::Literal* l) {
        const bool pattern = l->compare == Compare::Match || l->compare == Compare::NotMatch;
        if (pattern && l->left->kind == Argument::Kind::String)
            if (std::string error = pattern_error(std::string(l->left->text)); !error.empty()) report_.warning(l->left->begin, std::move(error));
        const TypeSet left = found_.of(l->left), right = found_.of(l->right);
        if (types_.members(left).size() != 1 || types_.members(right).size() != 1) return;
        const TypeId a = types_.members(left)[0], b = types_.members(right)[0];
        const TypeKind kind = types_.kind(a);
        switch (l->compare) {
            case Compare::Equal: case Compare::NotEqual: break;
            case Compare::Match: case Compare::NotMatch: case Compare::Contains: case Compare::NotContains:
                for (Argument* side : {l->left, l->right})
                    if (!of_kind(found_.of(side), TypeKind::Symbol))
                        report_.error(side->begin, "type mismatch: a symbol is required here, this is " + name(found_.of(side)));
                break;
            default:
                if (!types_.equivalent(a, b))
                    report_.error(l->begin, "cannot compare different types: " + name(left) + " and " + name(right));
                else if (kind > TypeKind::Symbol)
                    report_.error(l->begin, "there is no order on " + std::string(kind == TypeKind::Record ? "records" : "ADTs"),
                                  "only = and != compare them");
        }
    }

    void parts(Argument* a) {
        for (Argument* part : a->args) argument(part);
    }

    void argument(Argument* a) {
        using Kind = Argument::Kind;
        const TypeSet set = found_.of(a);
        switch (a->kind) {
            case Kind::Variable: case Kind::Unnamed: case Kind::Counter: case Kind::Iteration: return;
            case Kind::String:
                if (!of_kind(set, TypeKind::Symbol)) report_.error(a->begin, "type mismatch: a symbol cannot be used here");
                return;
            case Kind::Number: case Kind::Unsigned: case Kind::Float: return number(a, set);
            case Kind::Nil:
                if (!of_kind(set, TypeKind::Record))
                    report_.error(a->begin, set == kAnyType ? "ambiguous: the type of this nil is not known"
                                                            : "nil is used where no record is expected");
                return;
            case Kind::Record: return record(a, set);
            case Kind::Branch: return branch(a, set);
            case Kind::Cast:
                parts(a);
                if (types_.find(a->text) < 0) report_.error(a->begin, "cast to the undeclared type " + quote(a->text));
                else if (types_.members(set).size() != 1) report_.error(a->begin, "type mismatch: a " + std::string(a->text) + " cannot be used here");
                return;
            case Kind::Functor: return functor(a, set);
            case Kind::User: return user(a, set);
            case Kind::Aggregate:
                parts(a);
                for (ast::Literal* l : a->body) literal(l);
                if (types_.members(set).empty() || types_.kind(types_.members(set)[0]) > TypeKind::Float)
                    report_.error(a->begin, "type mismatch: the value of this aggregate is a number that does not fit here");
        }
    }

    void number(Argument* a, TypeSet set) {
        const TypeKind kind = types_.members(set).empty() ? TypeKind::Symbol : types_.kind(types_.members(set)[0]);
        const char* what = a->kind == Argument::Kind::Float      ? "a float"
                           : a->kind == Argument::Kind::Unsigned ? "an unsigned number"
                                                                 : "a number";
        if (kind > TypeKind::Float) {
            report_.error(a->begin, std::string("type mismatch: ") + what + " cannot be used here");
            return;
        }
        if (!parse_constant(a->text, kind, declarations_.word_size))
            report_.error(a->begin, std::string(a->text) + " is out of range for the type " + std::string(kind_name(kind)) +
                                        (kind == TypeKind::Float ? "" : " of " + std::to_string(declarations_.word_size) + " bits"));
    }

    // The fields of a record of unknown or wrong type have no types either: one message is enough.
    void record(Argument* a, TypeSet set) {
        if (set != kAnyType && !of_kind(set, TypeKind::Record)) {
            report_.error(a->begin, "type mismatch: a record with " + std::to_string(a->args.size()) + " fields cannot be used here");
            return;
        }
        if (types_.members(set).size() != 1) {
            report_.error(a->begin, "ambiguous record: its type is not known", "as([...], Type) says it");
            return;
        }
        const TypeId type = types_.members(set)[0];
        const std::size_t wanted = types_.info(type).fields.size();
        if (wanted != a->args.size()) {
            report_.error(a->begin, "wrong number of arguments given to a record: " + quote(types_.info(type).name) + " has " +
                                        std::to_string(wanted) + " fields, " + std::to_string(a->args.size()) + " given");
            return;
        }
        parts(a);
    }

    void branch(Argument* a, TypeSet set) {
        parts(a);
        const TypeSystem::BranchRef ref = types_.find_branch(a->text);
        if (ref.type < 0) {
            report_.error(a->begin, "undeclared branch " + quote(a->text));
        } else if (types_.members(set).size() != 1) {
            report_.error(a->begin, "type mismatch: branch " + quote(a->text) + " of type " +
                                        quote(types_.info(ref.type).name) + " cannot be used here");
        } else {
            const std::vector<TypeId>& fields = types_.info(ref.type).branches[ref.branch].fields;
            if (fields.size() != a->args.size())
                report_.error(a->begin, "invalid arity: branch " + quote(a->text) + " has " + std::to_string(fields.size()) +
                                            " fields, " + std::to_string(a->args.size()) + " given");
        }
    }

    void functor(Argument* a, TypeSet set) {
        const std::size_t errors = report_.error_count();
        parts(a);
        const bool contradiction = set == kNoType || std::any_of(a->args.begin(), a->args.end(), [&](Argument* part) {
                                       return a->op != Op::Ord && found_.of(part) == kNoType;
                                   });
        if (contradiction && report_.error_count() == errors)
            report_.error(a->begin, "type mismatch: this functor has no version for the types of its arguments and result",
                          "no valid overloads");
    }

    void user(Argument* a, TypeSet set) {
        parts(a);
        const std::int32_t index = declarations_.functor(a->text);
        if (index < 0) return;  // reported with the other undeclared names
        const FunctorInfo& info = declarations_.functors[index];
        if (info.parameters.size() != a->args.size()) {
            report_.error(a->begin, "functor arity mismatch: " + quote(a->text) + " takes " + std::to_string(info.parameters.size()) +
                                        " arguments, " + std::to_string(a->args.size()) + " given");
            return;
        }
        if (types_.members(set).size() != 1) report_.error(a->begin, "type mismatch: the result of functor " + quote(a->text) + " cannot be used here");
        for (Argument* part : a->args)
            if (found_.of(part) == kNoType) report_.error(part->begin, "type mismatch: this argument does not fit functor " + quote(a->text));
    }

    const std::vector<ClauseVariable>& variables_;
    const ClauseTypes& found_;
    Declarations& declarations_;
    TypeSystem& types_;
    Report& report_;
};

}  // namespace

void check_types(ast::Clause* clause, const std::vector<ClauseVariable>& variables, const ClauseTypes& types,
                 Declarations& declarations, Report& report) {
    Checker(variables, types, declarations, report).run(clause);
}

}  // namespace dl
