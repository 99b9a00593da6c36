// A relation's rows: an append-only set with hash indexes, and marks that tell old, new and coming rows apart.
//
//     rows  0 ……………… delta_begin ……………… visible ……………… size
//             old                  delta                coming (derived in this round, not seen by rules yet)
//
// Rows never move or change their number while a stratum runs, so a round is only three numbers, and the round in which
// a row was born can be told later from `births`: that is what explanations are made of.
#pragma once

#include <cstring>
#include <memory>
#include <vector>

#include "slots.hpp"

namespace dl {

// Values in one block that a reader (numpy) may hold on to while the table grows on into another one.
class Block {
public:
    explicit Block(std::size_t values);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    void resize(std::size_t values);  // keeps the contents; may move them
    Value* data() const { return data_; }
    std::size_t capacity() const { return capacity_; }

private:
    Value* data_;
    std::size_t capacity_;
};

class Table;

// Rows by the values of some columns. All rows with one key are chained, the newest first.
//
// Identities of symbols and records are dense, and so are most numbers: an index on one column is a plain array from
// value to row as long as that array is not much longer than there are rows, else a hash table.
class Index {
public:
    Index(const Table& table, std::vector<int> columns);

    const std::vector<int>& columns() const { return columns_; }
    std::size_t keys() const { return is_array_ ? array_keys_ : heads_.used(); }
    bool is_array() const { return is_array_; }
    Row longest_chain();  // the most rows with one key
    bool unique() const { return keys() == next_.size(); }  // no two rows with one key
    Row indexed() const { return static_cast<Row>(next_.size()); }

    void catch_up(const Table& table, Row end);  // index the rows before `end`
    void clear();

    // The newest indexed row whose columns have these values (in the order of columns()), or kNoRow.
    Row first(const Table& table, const Value* key) const {
        if (!is_array_) return find(table, key);
        const std::uint64_t at = static_cast<std::uint64_t>(*key) - static_cast<std::uint64_t>(least_);
        return at < array_.size() ? array_[at] : kNoRow;
    }
    Row next(Row row) const { return next_[row]; }
    std::size_t bytes() const { return heads_.bytes() + (array_.capacity() + next_.capacity()) * sizeof(Row); }

private:
    std::uint64_t hash(const Table& table, const Value* row) const;
    bool same(const Table& table, const Value* a, const Value* b) const;
    Row find(const Table& table, const Value* key) const;
    bool fits_array(const Table& table, Row end);
    void to_hash_table(const Table& table);

    bool any_float_;
    std::vector<int> columns_;
    bool is_array_;
    Value least_ = 0;          // the value of array_[0]
    std::vector<Row> array_;   // value - least_ -> newest row
    std::size_t array_keys_ = 0;
    Slots heads_;
    std::vector<Row> next_;
    Row longest_ = 0, longest_of_ = 0;  // the longest chain of so many rows
};

struct Birth {
    Row end;              // rows before this one (and not before the previous entry's end) …
    std::uint32_t stage;  // … were born in this stage; stages are counted over the whole life of a program
};

class Table {
public:
    // `floats`: the columns that hold floats, or none of them; these are keys by value, and hold what came first.
    explicit Table(int arity, std::vector<char> floats = {}) : arity_(arity), floats_(std::move(floats)) {}

    int arity() const { return arity_; }
    Row size() const { return size_; }
    const Value* row(Row row) const { return data_ + static_cast<std::size_t>(row) * static_cast<std::size_t>(arity_); }
    const Value* data() const { return data_; }
    const std::shared_ptr<Block>& block() const { return block_; }

    const std::vector<char>& floats() const { return floats_; }
    bool is_float(int column) const { return !floats_.empty() && floats_[static_cast<std::size_t>(column)]; }
    Value key(int column, Value value) const { return is_float(column) ? float_key(value) : value; }
    bool same(int column, Value a, Value b) const { return a == b || (is_float(column) && float_key(a) == float_key(b)); }

    // ---- the set
    std::uint64_t hash(const Value* values) const { return floats_.empty() ? hash_values(values, arity_) : hash_keys(values); }
    void prefetch(std::uint64_t hash) const { unique_.prefetch(hash); }
    bool insert(const Value* values) { return insert(values, hash(values)); }
    bool insert(const Value* values, std::uint64_t hash) {
        if (unique_.full_for(size_ + 1, size_ + 1)) grow_unique();
        const Row known = unique_.find_or_put(hash, size_, [&](Row r) { return equal(r, values); });
        if (known != kNoRow) {
            if (!dead(known)) return false;
            unique_.exchange(hash, size_, [&](Row r) { return r == known; });
        }
        append(values);
        return true;
    }
    Row find(const Value* values) const {
        return unique_.find(hash(values), [&](Row r) { return equal(r, values); });
    }

    // ---- rows that subsumption has removed stay, marked dead, until compact(); one that is inserted again gets a new place
    bool any_dead() const { return dead_count_ != 0; }
    bool dead(Row row) const { return dead_count_ != 0 && row < dead_.size() && dead_[row]; }
    void kill(Row row);
    Row alive() const { return size_ - dead_count_; }
    void compact();

    // ---- rounds
    Row delta_begin = 0, visible = 0;
    void next_round() {  // what came becomes the delta
        delta_begin = visible;
        visible = size_;
        for (auto& index : indexes_) index->catch_up(*this, size_);
    }
    std::vector<Birth> births;
    std::uint32_t birth(Row row) const;  // the stage in which a row was born

    // ---- indexes and statistics
    Index& index(const std::vector<int>& columns);  // made at need, over the visible rows
    const std::vector<std::unique_ptr<Index>>& indexes() const { return indexes_; }
    double distinct(std::uint64_t column_mask);     // estimated number of different values of some columns

    void clear();
    void swap_rows(Table& other);  // exchange contents and marks; indexes stay and are filled anew
    std::size_t bytes() const;

private:
    bool equal(Row row, const Value* values) const {
        if (!floats_.empty()) return equal_keys(this->row(row), values);
        return std::memcmp(this->row(row), values, static_cast<std::size_t>(arity_) * sizeof(Value)) == 0;
    }
    std::uint64_t hash_keys(const Value* values) const;
    bool equal_keys(const Value* a, const Value* b) const;
    void append(const Value* values) {
        const std::size_t at = static_cast<std::size_t>(size_) * static_cast<std::size_t>(arity_);
        if (at + static_cast<std::size_t>(arity_) > capacity_) grow_rows();
        for (int i = 0; i < arity_; ++i) data_[at + static_cast<std::size_t>(i)] = values[i];
        ++size_;
    }
    void grow_rows();
    void grow_unique();

    static constexpr Row kFew = 128;
    double count_distinct(const std::vector<int>& columns) const;

    struct Estimate {
        std::uint64_t columns;
        Row size;
        double distinct;
    };

    int arity_;
    std::vector<char> floats_;
    Row size_ = 0;
    Value* data_ = nullptr;
    std::size_t capacity_ = 0;
    std::shared_ptr<Block> block_;
    Slots unique_;
    std::vector<bool> dead_;
    Row dead_count_ = 0;
    std::vector<std::unique_ptr<Index>> indexes_;
    std::vector<Estimate> estimates_;
};

}  // namespace dl
