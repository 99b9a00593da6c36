#include "table.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <new>

#include "diagnostic.hpp"

namespace dl {

// ---------------------------------------------------------------- Block

Block::Block(std::size_t values)
    : data_(static_cast<Value*>(std::malloc(std::max<std::size_t>(values, 1) * sizeof(Value)))), capacity_(values) {
    if (!data_) throw std::bad_alloc();
}

Block::~Block() { std::free(data_); }

void Block::resize(std::size_t values) {
    // realloc moves large blocks by remapping pages: no copy, and no moment with two of them
    void* moved = std::realloc(data_, std::max<std::size_t>(values, 1) * sizeof(Value));
    if (!moved) throw std::bad_alloc();
    data_ = static_cast<Value*>(moved);
    capacity_ = values;
}

// ---------------------------------------------------------------- Index

namespace {

constexpr Value kSparsest = 4;              // an array may be so many times as long as there are rows
constexpr Value kFarthest = Value{1} << 60;  // values beyond it are not subtracted
constexpr std::uint64_t kSeed = 0x51ED270B35A4D5E1ull;  // as hash_values

std::uint64_t hash_columns(const Value* row, const std::vector<int>& columns) {
    std::uint64_t hash = kSeed;
    for (const int column : columns) hash = mix(hash, static_cast<std::uint64_t>(row[column]));
    return hash;
}

}  // namespace

Index::Index(const Table& table, std::vector<int> columns)
    : any_float_(std::any_of(columns.begin(), columns.end(), [&](int column) { return table.is_float(column); })),
      columns_(std::move(columns)),
      is_array_(columns_.size() == 1 && !any_float_) {}

std::uint64_t Index::hash(const Table& table, const Value* row) const {
    if (!any_float_) return hash_columns(row, columns_);
    std::uint64_t hash = kSeed;
    for (const int column : columns_) hash = mix(hash, static_cast<std::uint64_t>(table.key(column, row[column])));
    return hash;
}

bool Index::same(const Table& table, const Value* a, const Value* b) const {
    for (const int column : columns_)
        if (!table.same(column, a[column], b[column])) return false;
    return true;
}

// Make the array long enough for the rows up to `end`; false if it would be too long.
bool Index::fits_array(const Table& table, Row end) {
    const auto column = static_cast<std::size_t>(columns_[0]);
    Value lo = table.row(indexed())[column], hi = lo;
    for (Row row = indexed() + 1; row < end; ++row) {
        const Value value = table.row(row)[column];
        lo = std::min(lo, value);
        hi = std::max(hi, value);
    }
    if (lo < -kFarthest || hi > kFarthest) return false;
    const auto length = static_cast<Value>(array_.size());
    if (length > 0 && lo >= least_ && hi < least_ + length) return true;
    if (length > 0) {
        lo = std::min(lo, least_);
        hi = std::max(hi, least_ + length - 1);
    }
    const Value most = kSparsest * static_cast<Value>(end) + 64;
    if (hi - lo >= most) return false;
    if (length > 0 && lo < least_) {  // values that come in falling order are not to move the array each time
        lo -= std::min({length, most - (hi - lo) - 1, lo >= 0 ? lo : length});
        array_.insert(array_.begin(), static_cast<std::size_t>(least_ - lo), kNoRow);
    }
    least_ = lo;
    if (array_.size() < static_cast<std::size_t>(hi - lo + 1)) array_.resize(static_cast<std::size_t>(hi - lo + 1), kNoRow);
    return true;
}

void Index::to_hash_table(const Table& table) {
    is_array_ = false;
    heads_.reset(array_keys_ + array_keys_ / 4 + 4, static_cast<std::size_t>(indexed()) * 2 + 4);
    for (const Row head : array_)
        if (head != kNoRow) heads_.find_or_put(hash(table, table.row(head)), head, [](Row) { return false; });
    array_ = {};
}

void Index::catch_up(const Table& table, Row end) {
    Row from = indexed();
    if (from >= end) return;
    if (is_array_ && !fits_array(table, end)) to_hash_table(table);
    next_.resize(end);
    if (is_array_) {
        const int column = columns_[0];
        for (Row row = from; row < end; ++row) {
            Row& head = array_[static_cast<std::size_t>(table.row(row)[column] - least_)];
            array_keys_ += head == kNoRow;
            next_[row] = head;
            head = row;
        }
        return;
    }
    for (Row row = from; row < end; ++row) {
        if (heads_.full_for(heads_.used() + 1, row + 1)) {
            std::vector<Row> heads;
            heads.reserve(heads_.used());
            heads_.for_each([&](Row head) { heads.push_back(head); });
            // a bulk of rows will bring about as many keys as rows: one step to the final size where that is likely
            const std::size_t keys = heads.size();
            heads_.reset(std::max<std::size_t>(keys + keys / 4 + 4, keys == 0 && end - row > 64 ? (end - row) / 4 : 0),
                         std::max<std::size_t>(end, static_cast<std::size_t>(row) * 2) + 4);
            for (const Row head : heads)
                heads_.find_or_put(hash(table, table.row(head)), head, [](Row) { return false; });
        }
        const Value* values = table.row(row);
        next_[row] = heads_.exchange(hash(table, values), row, [&](Row other) { return same(table, table.row(other), values); });
    }
}

Row Index::longest_chain() {
    if (longest_of_ == indexed()) return longest_;
    std::vector<Row> lengths(next_.size());
    longest_ = 0;
    for (std::size_t row = 0; row < next_.size(); ++row) {  // a row's next one came before it
        lengths[row] = next_[row] == kNoRow ? 1 : lengths[next_[row]] + 1;
        longest_ = std::max(longest_, lengths[row]);
    }
    longest_of_ = indexed();
    return longest_;
}

void Index::clear() {
    longest_ = longest_of_ = 0;
    heads_.clear();
    next_.clear();
    array_.clear();
    array_keys_ = 0;
    is_array_ = columns_.size() == 1 && !any_float_;
}

Row Index::find(const Table& table, const Value* key) const {
    std::uint64_t hash = kSeed;
    for (std::size_t i = 0; i < columns_.size(); ++i)
        hash = mix(hash, static_cast<std::uint64_t>(any_float_ ? table.key(columns_[i], key[i]) : key[i]));
    return heads_.find(hash, [&](Row row) {
        const Value* values = table.row(row);
        for (std::size_t i = 0; i < columns_.size(); ++i)
            if (!table.same(columns_[i], values[columns_[i]], key[i])) return false;
        return true;
    });
}

// ---------------------------------------------------------------- Table

std::uint64_t Table::hash_keys(const Value* values) const {
    std::uint64_t hash = kSeed;
    for (int i = 0; i < arity_; ++i) hash = mix(hash, static_cast<std::uint64_t>(key(i, values[i])));
    return hash;
}

bool Table::equal_keys(const Value* a, const Value* b) const {
    for (int i = 0; i < arity_; ++i)
        if (!same(i, a[i], b[i])) return false;
    return true;
}

void Table::grow_rows() {
    const std::size_t wanted = std::max<std::size_t>(capacity_ * 2, static_cast<std::size_t>(arity_) * 8);
    if (!block_) {
        block_ = std::make_shared<Block>(wanted);
    } else if (block_.use_count() == 1) {
        block_->resize(wanted);
    } else {  // a reader holds the old block
        auto copy = std::make_shared<Block>(wanted);
        std::memcpy(copy->data(), data_, static_cast<std::size_t>(size_) * static_cast<std::size_t>(arity_) * sizeof(Value));
        block_ = std::move(copy);
    }
    data_ = block_->data();
    capacity_ = wanted;
}

void Table::grow_unique() {
    if (size_ >= kNoRow - 2) throw EvaluationError("a relation has more than 4,294,967,293 rows");
    unique_.reset(static_cast<std::size_t>(size_) + size_ / 4 + 8, static_cast<std::size_t>(size_) * 2 + 8);
    // rows in order, slots at random: ask for the slots some rows ahead
    constexpr Row kAhead = 16;
    std::array<std::uint64_t, kAhead> hashes{};
    for (Row row = 0; row < size_ + kAhead; ++row) {
        std::uint64_t& hash = hashes[row % kAhead];
        if (row >= kAhead && !dead(row - kAhead)) unique_.find_or_put(hash, row - kAhead, [](Row) { return false; });
        if (row < size_) {
            hash = this->hash(this->row(row));
            unique_.prefetch(hash);
        }
    }
}

void Table::kill(Row row) {
    if (dead_.size() < size_) dead_.resize(size_, false);
    if (!dead_[row]) {
        dead_[row] = true;
        ++dead_count_;
    }
}

void Table::compact() {
    if (dead_count_ == 0) return;
    Table kept(arity_, floats_);
    for (const Birth& birth : births) {
        for (Row row = kept.births.empty() ? 0 : births[kept.births.size() - 1].end; row < birth.end; ++row)
            if (!dead(row)) kept.insert(this->row(row));
        kept.births.push_back({kept.size(), birth.stage});
    }
    for (Row row = births.empty() ? 0 : births.back().end; row < size_; ++row)
        if (!dead(row)) kept.insert(this->row(row));
    kept.delta_begin = kept.visible = kept.size_;
    swap_rows(kept);
}

std::uint32_t Table::birth(Row row) const {
    const auto at = std::upper_bound(births.begin(), births.end(), row,
                                     [](Row value, const Birth& birth) { return value < birth.end; });
    return at == births.end() ? 0xFFFFFFFFu : at->stage;
}

Index& Table::index(const std::vector<int>& columns) {
    for (auto& index : indexes_)
        if (index->columns() == columns) return *index;
    indexes_.push_back(std::make_unique<Index>(*this, columns));
    indexes_.back()->catch_up(*this, visible);
    return *indexes_.back();
}

// Of few rows the different values are counted.
double Table::count_distinct(const std::vector<int>& columns) const {
    std::array<std::uint64_t, 4 * kFew> seen{};
    int count = 0;
    for (Row row = 0; row < visible; ++row) {
        const std::uint64_t hash = hash_columns(this->row(row), columns) | 1;
        std::size_t at = (hash >> 32) % seen.size();
        while (seen[at] != 0 && seen[at] != hash) at = (at + 1) % seen.size();
        count += seen[at] == 0;
        seen[at] = hash;
    }
    return count;
}

// HyperLogLog with 2^10 registers over at most a million rows: about 3% off, two nanoseconds a row, and asked for again
// only when the table has doubled.
double Table::distinct(std::uint64_t column_mask) {
    if (visible <= 1) return visible;
    for (Estimate& estimate : estimates_) {
        if (estimate.columns != column_mask) continue;
        if (visible < estimate.size * 2 && visible >= estimate.size)
            return std::max(1.0, estimate.distinct * (static_cast<double>(visible) / estimate.size));
        estimates_.erase(estimates_.begin() + (&estimate - estimates_.data()));
        break;
    }
    std::vector<int> columns;
    for (int column = 0; column < arity_ && column < 64; ++column)
        if (column_mask >> column & 1) columns.push_back(column);
    if (visible <= kFew) {
        estimates_.push_back({column_mask, visible, count_distinct(columns)});
        return estimates_.back().distinct;
    }
    constexpr Row kMost = 1 << 20;
    constexpr int kBits = 10;
    const Row sample = std::min(visible, kMost);
    std::array<std::uint8_t, 1 << kBits> registers{};
    for (Row row = 0; row < sample; ++row) {
        const std::uint64_t hash = mix(hash_columns(this->row(row), columns), 0x2545F4914F6CDD1Dull);
        const int rank = std::countl_zero(hash << kBits | 1) + 1;
        std::uint8_t& top = registers[hash >> (64 - kBits)];
        top = std::max<std::uint8_t>(top, static_cast<std::uint8_t>(rank));
    }
    std::array<int, 64> tops{};  // how many registers hold each number
    for (const std::uint8_t top : registers) ++tops[top];
    double sum = 0;
    for (std::size_t top = 0; top < tops.size(); ++top) sum += std::ldexp(tops[top], -static_cast<int>(top));
    const int zeros = tops[0];
    constexpr double m = 1 << kBits;
    double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;
    if (estimate <= 2.5 * m && zeros > 0) estimate = m * std::log(m / zeros);
    estimate = std::min(estimate, static_cast<double>(sample));
    if (sample < visible && estimate > 0.5 * sample) estimate *= static_cast<double>(visible) / sample;
    estimates_.push_back({column_mask, visible, std::max(1.0, estimate)});
    return estimates_.back().distinct;
}

void Table::clear() {
    size_ = 0;
    data_ = nullptr;
    capacity_ = 0;
    block_.reset();
    unique_.clear();
    dead_.clear();
    dead_count_ = 0;
    for (auto& index : indexes_) index->clear();
    estimates_.clear();
    births.clear();
    delta_begin = visible = 0;
}

void Table::swap_rows(Table& other) {
    std::swap(size_, other.size_);
    std::swap(data_, other.data_);
    std::swap(capacity_, other.capacity_);
    std::swap(block_, other.block_);
    std::swap(unique_, other.unique_);
    std::swap(dead_, other.dead_);
    std::swap(dead_count_, other.dead_count_);
    std::swap(estimates_, other.estimates_);
    std::swap(births, other.births);
    std::swap(delta_begin, other.delta_begin);
    std::swap(visible, other.visible);
    for (Table* table : {this, &other}) {
        for (auto& index : table->indexes_) {
            index->clear();
            index->catch_up(*table, table->visible);
        }
    }
}

std::size_t Table::bytes() const {
    std::size_t total = capacity_ * sizeof(Value) + unique_.bytes() + births.capacity() * sizeof(Birth) + dead_.size() / 8;
    for (const auto& index : indexes_) total += index->bytes();
    return total;
}

}  // namespace dl
