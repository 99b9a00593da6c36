// What functors and comparisons compute where formulas are among the arguments.
#include "functors.hpp"

namespace dl {

bool apply_to_formulas(Op op, TypeKind type, TypeKind from, std::int32_t functor, const Value* registers,
                       const std::int32_t* arguments, std::size_t count, Database& db, Value& result) {
    SymbolicNumbers& formulas = *db.formulas;
    std::vector<Value> values;
    for (std::size_t i = 0; i < count; ++i) values.push_back(registers[arguments[i]]);
    const auto is_text = [&](std::size_t i) {
        switch (op) {
            case Op::Cat: case Op::StrLen: return true;
            case Op::SubStr: return i == 0;
            case Op::Max: case Op::Min: return type == TypeKind::Symbol;
            case Op::Convert: case Op::Cast: return from == TypeKind::Symbol;
            default: return false;
        }
    };
    const auto is_number = [&](std::size_t i) {
        switch (op) {
            case Op::SubStr: return i > 0;
            case Op::Convert: case Op::Cast: return from == TypeKind::Number;
            case Op::Ord: case Op::User: case Op::AutoInc: case Op::Range: case Op::Cat: case Op::StrLen: return false;
            default: return type == TypeKind::Number;
        }
    };
    bool any = false;
    for (std::size_t i = 0; i < count; ++i) any = any || (is_number(i) && is_formula(values[i])) || (is_text(i) && formulas.has_formula(values[i]));
    if (!any) return false;
    switch (op) {
        case Op::Neg: case Op::Add: case Op::Sub: case Op::Mul: case Op::Div: case Op::Mod: case Op::Exp:
            result = formulas.apply(op, values.data(), count);
            return true;
        case Op::Max: case Op::Min:
            if (type == TypeKind::Symbol) break;
            result = formulas.apply(op, values.data(), count);
            return true;
        case Op::Cat: result = formulas.cat(values, db.symbols); return true;
        case Op::Convert: case Op::Cast:
            if (from == type) {
                result = values[0];
                return true;
            }
            if (op == Op::Cast) break;
            if (type == TypeKind::Symbol) {
                result = formulas.to_text(values[0], db.symbols);
                return true;
            }
            if (type == TypeKind::Number && from == TypeKind::Symbol) {
                result = formulas.to_number(values[0]);
                if (result >= 0) return true;
            }
            break;
        default: break;
    }
    // the rest works on what the arguments are at the point
    for (std::size_t i = 0; i < count; ++i) {
        if (is_number(i)) values[i] = formulas.concrete(values[i]);
        else if (is_text(i) && formulas.has_formula(values[i])) values[i] = db.symbols.intern(formulas.concrete_text(values[i], db.symbols));
    }
    std::vector<std::int32_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = static_cast<std::int32_t>(i);
    result = apply(op, type, from, functor, values.data(), order.data(), count, db);
    return true;
}

}  // namespace dl
