// Subsumption, as Soufflé orders it. All rows that are dominated at one moment go together, so rows that dominate one
// another all go; and a row that went is like one that never was: if it is derived again, it comes back.
#pragma once

#include <algorithm>

#include "machine.hpp"

namespace dl {

// Gathers what a subsumption rule finds: the dominated row, followed by the dominating one.
class DominatedSink final : public Sink {
public:
    DominatedSink(const Table& table, std::vector<Row>& dominated) : table_(table), dominated_(dominated) {}
    void put(const Value* row) override {
        const Row one = table_.find(row), other = table_.find(row + table_.arity());
        if (one != other) dominated_.push_back(one);
    }

private:
    const Table& table_;
    std::vector<Row>& dominated_;
};

}  // namespace dl
