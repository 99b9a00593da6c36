// Sorting rows for output. Numbers of rows, not rows, are moved: the first pass spreads them over buckets by the first
// column, then each bucket is sorted on its own, column by column, in a small buffer.
#include <algorithm>
#include <numeric>

#include "facts.hpp"

namespace dl {

namespace {

// Unsigned order of the key is the order of the type.
std::uint64_t sort_key(Value value, TypeKind kind) {
    constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
    const auto bits = static_cast<std::uint64_t>(value);
    switch (kind) {
        case TypeKind::Unsigned: return bits;
        case TypeKind::Float: return bits & kSign ? ~bits : bits | kSign;
        default: return bits ^ kSign;
    }
}

class RowSorter {
public:
    RowSorter(const Table& table, const std::vector<TypeKind>& kinds) : table_(table), kinds_(kinds) {}

    std::vector<Row> run() {
        const Row n = table_.size();
        const bool deads = table_.any_dead();
        std::vector<Row> order;
        if (table_.arity() == 0 || n < 2) {
            for (Row row = 0; row < n; ++row)
                if (!table_.dead(row)) order.push_back(row);
            return order;
        }
        bool sorted = !deads;
        for (Row row = 1; sorted && row < n; ++row) sorted = !less(row, row - 1);
        order.resize(deads ? 0 : n);
        if (sorted || n < kBuckets || deads) {
            if (deads) {
                for (Row row = 0; row < n; ++row)
                    if (!table_.dead(row)) order.push_back(row);
            } else {
                std::iota(order.begin(), order.end(), Row{0});
            }
            if (!sorted) sort(order.data(), order.size(), 0);
            return order;
        }
        std::uint64_t low = ~std::uint64_t{0}, high = 0;
        for (Row row = 0; row < n; ++row) {
            const std::uint64_t key = this->key(row, 0);
            low = std::min(low, key);
            high = std::max(high, key);
        }
        int shift = 0;
        while ((high - low) >> shift >= kBuckets) ++shift;
        std::vector<Row> begins(((high - low) >> shift) + 2, 0);
        for (Row row = 0; row < n; ++row) ++begins[((key(row, 0) - low) >> shift) + 1];
        std::partial_sum(begins.begin(), begins.end(), begins.begin());
        for (Row row = 0; row < n; ++row) order[begins[(key(row, 0) - low) >> shift]++] = row;
        Row begin = 0;
        for (std::size_t bucket = 0; bucket + 1 < begins.size(); ++bucket) {
            const Row end = begins[bucket];
            sort(order.data() + begin, end - begin, shift == 0 ? 1 : 0);
            begin = end;
        }
        return order;
    }

private:
    static constexpr Row kBuckets = 1 << 16;

    std::uint64_t key(Row row, int column) const {
        return sort_key(table_.row(row)[column], kinds_[static_cast<std::size_t>(column)]);
    }
    bool less(Row a, Row b) const {
        for (int column = 0; column < table_.arity(); ++column) {
            const std::uint64_t x = key(a, column), y = key(b, column);
            if (x != y) return x < y;
        }
        return false;
    }

    void sort(Row* rows, std::size_t count, int column) {
        for (; column < table_.arity() && count > 1; ++column) {
            std::vector<std::pair<std::uint64_t, Row>> keys(count);
            bool equal = true;
            for (std::size_t i = 0; i < count; ++i) {
                keys[i] = {key(rows[i], column), rows[i]};
                equal = equal && keys[i].first == keys[0].first;
            }
            if (equal) continue;
            std::sort(keys.begin(), keys.end());
            for (std::size_t i = 0; i < count; ++i) rows[i] = keys[i].second;
            for (std::size_t begin = 0; begin < count;) {
                std::size_t end = begin + 1;
                while (end < count && keys[end].first == keys[begin].first) ++end;
                if (end - begin > 1) sort(rows + begin, end - begin, column + 1);
                begin = end;
            }
            return;
        }
    }

    const Table& table_;
    const std::vector<TypeKind>& kinds_;
};

}  // namespace

std::vector<Row> sorted_rows(const Table& table, const std::vector<TypeKind>& kinds) { return RowSorter(table, kinds).run(); }

}  // namespace dl
