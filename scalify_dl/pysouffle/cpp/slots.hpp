// The one hash table of the engine: open addressing over 32-bit slots that name rows kept elsewhere.
//
// A slot is 0 (empty) or a row number + 1 in its low bits and a tag, some bits of the hash, in its high bits. The tag
// spares nearly every comparison with a row that is not the one asked for, and four bytes a slot keep the table small:
// memory latency is what a Datalog engine waits for.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <new>
#include <utility>

#include "core.hpp"

namespace dl {

using Row = std::uint32_t;
inline constexpr Row kNoRow = 0xFFFFFFFFu;

inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
    hash = (hash ^ value) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 32);
}

// A float as a key, by value: 0.0 and -0.0 are one key, and so are all NaNs, which equal nothing when compared.
inline Value float_key(Value bits) {
    const std::uint64_t size = static_cast<std::uint64_t>(bits) << 1;  // without the sign
    if (size == 0) return 0;
    return size > 0xFFE0000000000000ull ? 0x7FF8000000000000 : bits;
}

inline std::uint64_t hash_values(const Value* values, int count) {
    std::uint64_t hash = 0x51ED270B35A4D5E1ull;
    for (int i = 0; i < count; ++i) hash = mix(hash, static_cast<std::uint64_t>(values[i]));
    return hash;
}

class Slots {
public:
    Slots() = default;
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;
    Slots(Slots&& other) noexcept { swap(other); }
    Slots& operator=(Slots&& other) noexcept {
        swap(other);
        return *this;
    }
    ~Slots() { std::free(slots_); }

    // The row for which `equal(row)` holds, or kNoRow.
    template <class Equal>
    Row find(std::uint64_t hash, Equal&& equal) const {
        if (!slots_) return kNoRow;
        const std::uint32_t tag = tag_of(hash);
        for (std::size_t at = place(hash);; at = (at + 1) & mask_) {
            const std::uint32_t slot = slots_[at];
            if (slot == 0) return kNoRow;
            if ((slot & ~row_mask_) == tag && equal((slot & row_mask_) - 1)) return (slot & row_mask_) - 1;
        }
    }

    // As find; when there is none, `row` takes the place and kNoRow is returned. Call reserve() before.
    template <class Equal>
    Row find_or_put(std::uint64_t hash, Row row, Equal&& equal) {
        const std::uint32_t tag = tag_of(hash);
        for (std::size_t at = place(hash);; at = (at + 1) & mask_) {
            const std::uint32_t slot = slots_[at];
            if (slot == 0) {
                slots_[at] = tag | (row + 1);
                ++used_;
                return kNoRow;
            }
            if ((slot & ~row_mask_) == tag && equal((slot & row_mask_) - 1)) return (slot & row_mask_) - 1;
        }
    }

    // As find; the row found is replaced by `row`, which must be equal to it.
    template <class Equal>
    Row exchange(std::uint64_t hash, Row row, Equal&& equal) {
        const std::uint32_t tag = tag_of(hash);
        for (std::size_t at = place(hash);; at = (at + 1) & mask_) {
            const std::uint32_t slot = slots_[at];
            if (slot == 0) {
                slots_[at] = tag | (row + 1);
                ++used_;
                return kNoRow;
            }
            if ((slot & ~row_mask_) == tag && equal((slot & row_mask_) - 1)) {
                slots_[at] = tag | (row + 1);
                return (slot & row_mask_) - 1;
            }
        }
    }

    void prefetch(std::uint64_t hash) const {
        if (slots_) __builtin_prefetch(slots_ + place(hash));
    }

    bool full_for(std::size_t keys, std::size_t rows) const {
        return !slots_ || keys * 4 > (mask_ + 1) * 3 || rows >= row_mask_;
    }

    // An empty table with room for `keys` keys, whose rows are numbered below `rows`.
    void reset(std::size_t keys, std::size_t rows) {
        int bits = 4, row_bits = 4;
        while ((std::size_t{1} << bits) * 5 < keys * 8) ++bits;
        while ((std::size_t{1} << row_bits) <= rows + 1) ++row_bits;
        std::free(slots_);
        slots_ = static_cast<std::uint32_t*>(std::calloc(std::size_t{1} << bits, sizeof(std::uint32_t)));
        if (!slots_) throw std::bad_alloc();
        shift_ = 64 - bits;
        mask_ = (std::size_t{1} << bits) - 1;
        row_mask_ = row_bits >= 32 ? 0xFFFFFFFFu : (1u << row_bits) - 1;
        used_ = 0;
    }

    void clear() {
        std::free(slots_);
        slots_ = nullptr;
        mask_ = 0;
        row_mask_ = 0;
        used_ = 0;
    }

    template <class Visit>
    void for_each(Visit&& visit) const {
        if (!slots_) return;
        for (std::size_t at = 0; at <= mask_; ++at)
            if (slots_[at] != 0) visit((slots_[at] & row_mask_) - 1);
    }

    std::size_t used() const { return used_; }
    std::size_t bytes() const { return slots_ ? (mask_ + 1) * sizeof(std::uint32_t) : 0; }

private:
    std::size_t place(std::uint64_t hash) const { return hash >> shift_; }
    std::uint32_t tag_of(std::uint64_t hash) const { return static_cast<std::uint32_t>(hash) & ~row_mask_; }

    void swap(Slots& other) {
        std::swap(slots_, other.slots_);
        std::swap(shift_, other.shift_);
        std::swap(mask_, other.mask_);
        std::swap(row_mask_, other.row_mask_);
        std::swap(used_, other.used_);
    }

    std::uint32_t* slots_ = nullptr;
    int shift_ = 60;
    std::size_t mask_ = 0;
    std::uint32_t row_mask_ = 0;
    std::size_t used_ = 0;
};

}  // namespace dl
