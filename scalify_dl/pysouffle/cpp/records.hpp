// Hash-consed records: equal contents <-> equal identity. Identity 0 is nil.
//
// An ADT value is a record too: its branch number followed by its fields. Types keep records of one type apart from
// those of another, so all of them can share one table.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "slots.hpp"

namespace dl {

class Records {
public:
    Value pack(const Value* values, std::size_t count) {
        const std::uint64_t hash = hash_values(values, static_cast<int>(count));
        if (slots_.full_for(size() + 1, size() + 1)) grow();
        const Row next = static_cast<Row>(size());
        const Row found = slots_.find_or_put(hash, next, [&](Row row) { return same(row, values, count); });
        if (found != kNoRow) return static_cast<Value>(found) + 1;
        values_.insert(values_.end(), values, values + count);
        ends_.push_back(values_.size());
        return static_cast<Value>(next) + 1;
    }

    // The identity of a record if it exists, else -1.
    Value find(const Value* values, std::size_t count) const {
        const Row row = slots_.find(hash_values(values, static_cast<int>(count)),
                                    [&](Row r) { return same(r, values, count); });
        return row == kNoRow ? -1 : static_cast<Value>(row) + 1;
    }

    // Empty for nil. The span is good until the next pack().
    std::span<const Value> fields(Value record) const {
        if (record <= 0 || static_cast<std::size_t>(record) > size()) return {};
        const std::size_t row = static_cast<std::size_t>(record) - 1;
        return {values_.data() + begin(row), ends_[row] - begin(row)};
    }

    std::size_t size() const { return ends_.size(); }
    std::size_t bytes() const {
        return values_.capacity() * sizeof(Value) + ends_.capacity() * sizeof(std::size_t) + slots_.bytes();
    }

private:
    std::size_t begin(std::size_t row) const { return row == 0 ? 0 : ends_[row - 1]; }
    bool same(std::size_t row, const Value* values, std::size_t count) const {
        return row < size() && ends_[row] - begin(row) == count &&
               std::equal(values, values + count, values_.data() + begin(row));
    }
    void grow() {
        slots_.reset(size() + size() / 4 + 16, size() * 2 + 16);
        for (std::size_t row = 0; row < size(); ++row)
            slots_.find_or_put(hash_values(values_.data() + begin(row), static_cast<int>(ends_[row] - begin(row))),
                               static_cast<Row>(row), [](Row) { return false; });
    }

    std::vector<Value> values_;
    std::vector<std::size_t> ends_;
    Slots slots_;
};

}  // namespace dl
