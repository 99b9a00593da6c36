// What a way through a rule body rested on, in programs with symbols: the undecided decisions of arithmetic, and the
// relations of which it mattered that they have no more rows than they have.
//
// Positive literals match rows by identity: what is equal as formulas is equal everywhere. Negations and aggregates read
// *finished* relations, and there it also matters that rows do not match: a row that might match at another point is a
// condition that it does not. Whether a finished relation could have further rows at other points is a goal: its rules
// have to be looked at in the same way (conditions.hpp).
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "database.hpp"
#include "plan.hpp"

namespace dl {

// The rows of a relation that match a pattern.
struct Goal {
    int relation = -1;
    std::vector<std::pair<int, Value>> known;  // column, value
    auto operator<=>(const Goal&) const = default;
};

class Recorder {
public:
    // `database` holds the finished relations of `program`.
    Recorder(const CoreProgram& program, Database& database);

    struct Mark {
        std::size_t decisions, goals;
    };
    struct Notes {
        std::vector<Decision> decisions;
        std::vector<Goal> goals;
    };
    Mark mark() const { return {decisions.size(), goals.size()}; }
    // Take back what was noted since; it is returned.
    Notes cut(const Mark& to) {
        const auto decision = decisions.begin() + static_cast<std::ptrdiff_t>(to.decisions);
        const auto goal = goals.begin() + static_cast<std::ptrdiff_t>(to.goals);
        Notes out{{decision, decisions.end()}, {goal, goals.end()}};
        decisions.erase(decision, decisions.end());
        goals.erase(goal, goals.end());
        return out;
    }
    void add(const Notes& notes) {
        decisions.insert(decisions.end(), notes.decisions.begin(), notes.decisions.end());
        goals.insert(goals.end(), notes.goals.begin(), notes.goals.end());
    }
    std::vector<Decision> decisions;
    std::vector<Goal> goals;
    int finished = 0;       // > 0: within something that reads finished relations; nothing is cut back
    bool counting = false;  // … and counts rows: different ones have to stay different

    // A goal, unless the relation is the same whatever the symbols are.
    void want(const RelationData& relation, const std::vector<ColumnRegister>& known, const Value* registers);

    // Rows of a finished relation that match, or might at another point.
    const std::vector<Row>& candidates(const RelationData& relation, const std::vector<ColumnRegister>& known, const Value* registers);
    // Does a row match? If not, but it might at another point, that is noted.
    bool matches(const RelationData& relation, const Value* row, const std::vector<ColumnRegister>& known,
                 const std::vector<std::pair<int, int>>& same, const Value* registers);
    bool may_match(const RelationData& relation, const Value* row, const std::vector<ColumnRegister>& known, const Value* registers);
    void rows_differ(const RelationData& relation, const Value* left, const Value* right);

    bool varies(int relation, const Value* row);  // is there a formula in it?
    // left = right? If not, but they might be at another point, that is noted.
    bool equal(TypeIndex type, Value left, Value right);
    TypeIndex field_type(TypeIndex record, const std::vector<Value>& fields, std::size_t field) const;
    TypeIndex column_type(int relation, int column) const {
        return program_.relations[static_cast<std::size_t>(relation)].attributes[static_cast<std::size_t>(column)].type;
    }

private:
    using Pairs = std::vector<std::pair<Value, Value>>;
    struct Difference {
        Pairs numbers, texts;
    };
    struct ValuesHash {
        std::size_t operator()(const std::vector<Value>& values) const {
            return static_cast<std::size_t>(hash_values(values.data(), static_cast<int>(values.size())));
        }
    };
    using Shelf = std::unordered_map<std::vector<Value>, std::vector<Row>, ValuesHash>;

    bool value_varies(TypeIndex type, Value value);
    Value shape(TypeIndex type, Value value);
    // False: they differ at all points.
    bool collect(TypeIndex type, Value left, Value right, Difference& difference);
    void note(const Difference& difference);
    void find_fixed_relations();
    void catch_up();

    const CoreProgram& program_;
    Database& db_;
    std::unordered_map<const RelationData*, int> relation_of_;
    std::vector<char> fixed_;  // by relation: the same at all points
    std::unordered_map<std::vector<Value>, bool, ValuesHash> varies_;
    std::unordered_map<std::vector<Value>, Value, ValuesHash> shapes_;
    std::unordered_map<std::string, Value> masks_;  // of texts with formulas
    Records interned_;                              // shapes of records
    std::size_t texts_ = 0;
    std::map<std::pair<int, std::vector<int>>, Shelf> shelves_;  // rows by relation, columns and their shapes
};

}  // namespace dl
