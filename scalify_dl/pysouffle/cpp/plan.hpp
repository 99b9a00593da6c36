// A rule body in execution order: a list of steps, each of which either fails, or succeeds and goes on to the next one,
// once or many times. The last step does what the body is for.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "database.hpp"
#include "flat.hpp"

namespace dl {

enum class View : std::uint8_t { All, Delta, Old };

struct ColumnRegister {
    int column;
    Register reg;
};

struct Plan;

struct Step {
    enum class Kind : std::uint8_t {
        Scan,       // every row of a view
        Probe,      // the rows that an index finds
        Exists,     // the one row that is given by registers
        EqScan, EqProbe, EqExists,  // the same on an equivalence relation; EqProbe: `key[0].column` is bound
        Compare,
        Compute,    // result = op(args)
        Check,      // result == op(args), result being bound
        Pack,       // result = [args]
        Unpack,     // result is a record: check and bind its fields
        Range, RangeCheck,
        Negation,   // `inner` finds nothing
        Aggregate,  // `inner` feeds the aggregate
        // last steps
        Emit,       // derive the head
        Found,      // succeed
        Visit,      // hand the registers to a visitor
        Fold,       // feed the innermost aggregate
    };
    Kind kind = Kind::Found;
    View view = View::All;
    bool existential = false;  // one success is enough: nothing bound from here on matters to the head
    TypeKind type = TypeKind::Number, from = TypeKind::Number;
    TypeIndex type_index = 0;
    Op op = Op::Neg;
    Compare compare = Compare::True;
    Aggregate aggregate = Aggregate::Count;
    bool check_result = false;  // Aggregate: the result is bound already
    std::int32_t functor = -1;
    Register result = kUnnamed, left = kUnnamed, right = kUnnamed;
    RelationData* relation = nullptr;
    Index* index = nullptr;
    std::vector<ColumnRegister> key;     // Probe, Exists: in index order
    std::vector<ColumnRegister> checks;  // further columns that must equal a register bound before
    std::vector<ColumnRegister> binds;
    std::vector<std::pair<int, int>> same;  // pairs of columns that must be equal
    std::vector<Register> args;
    std::vector<char> bound;             // Unpack: which of args are checked, not bound
    std::unique_ptr<Plan> inner;         // Negation, Aggregate
    mutable std::uint64_t cached_at = 0; // Aggregate without outer registers: the epoch of `cached`
    mutable Value cached = 0;
    mutable bool cached_empty = false;
    bool cacheable = false;
    std::int32_t source = -1;            // literal of the core rule
    double estimate = 0;                 // rows expected per entry, for the profile
};

struct Plan {
    std::vector<Step> steps;
    std::vector<Value> registers;             // the outermost plan's; constants are set once
    std::vector<Value> scratch;               // a row or key being put together
    std::vector<std::pair<std::int32_t, Row>> sizes;  // relation sizes that the order was chosen for
    double cost = 0;
};

struct PlanRequest {
    const FlatRule& rule;
    int delta = -1;                   // index in rule.body of the atom that ranges over the delta
    const std::vector<char>& recursive;  // by relation: is it in the stratum being evaluated?
    Step::Kind last = Step::Kind::Emit;
    std::vector<Register> bound;      // registers that are given (explanations)
    bool old_before_delta = false;    // recursive atoms written before the delta atom see old rows only
    bool empty_is_unknown = false;    // a relation without rows is one that is still to be computed
};

// Choose an order for the body and the way to reach each atom's rows. Creates the indexes that it needs.
std::unique_ptr<Plan> make_plan(const PlanRequest& request, Database& database);

// The order alone: indexes in request.rule.body.
std::vector<int> literal_order(const PlanRequest& request, Database& database);

// Have the sizes on which the order was based changed so much that it should be chosen anew?
bool outdated(const Plan& plan, const Database& database);

}  // namespace dl
