// Interned symbols: text <-> identity (0, 1, 2 … in the order of first sight).
#pragma once

#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "slots.hpp"

namespace dl {

class Symbols {
public:
    Value intern(std::string_view text) {
        const std::uint64_t hash = hash_text(text);
        if (slots_.full_for(views_.size() + 1, views_.size() + 1)) grow();
        const Row next = static_cast<Row>(views_.size());
        const Row found =
            slots_.find_or_put(hash, next, [&](Row row) { return row < next && views_[row] == text; });
        if (found != kNoRow) return found;
        views_.push_back(keep(text));
        return next;
    }

    // The identity of a text if it has one, else -1.
    Value find(std::string_view text) const {
        const Row row = slots_.find(hash_text(text), [&](Row r) { return views_[r] == text; });
        return row == kNoRow ? -1 : static_cast<Value>(row);
    }

    bool known(Value symbol) const { return symbol >= 0 && static_cast<std::size_t>(symbol) < views_.size(); }
    std::string_view text(Value symbol) const {
        return known(symbol) ? views_[static_cast<std::size_t>(symbol)] : std::string_view("<no symbol>");
    }
    std::size_t size() const { return views_.size(); }
    std::size_t bytes() const { return arena_bytes_ + views_.capacity() * sizeof(std::string_view) + slots_.bytes(); }

private:
    static std::uint64_t hash_text(std::string_view text) {
        std::uint64_t hash = 0x8A5CD789635D2DFFull ^ text.size();
        const char* at = text.data();
        std::size_t left = text.size();
        for (; left >= 8; left -= 8, at += 8) {
            std::uint64_t word;
            std::memcpy(&word, at, 8);
            hash = mix(hash, word);
        }
        std::uint64_t word = 0;
        std::memcpy(&word, at, left);
        return mix(mix(hash, word), 0);
    }

    void grow() {
        slots_.reset(views_.size() + views_.size() / 4 + 16, views_.size() * 2 + 16);
        for (Row row = 0; row < views_.size(); ++row)
            slots_.find_or_put(hash_text(views_[row]), row, [](Row) { return false; });
    }

    std::string_view keep(std::string_view text) {
        if (text.size() > room_) {
            const std::size_t block = text.size() > kBlock / 4 ? text.size() : kBlock;
            blocks_.push_back(std::make_unique<char[]>(block));
            arena_bytes_ += block;
            if (block != kBlock) {  // a long text has a block of its own; the open block stays open
                std::memcpy(blocks_.back().get(), text.data(), text.size());
                return {blocks_.back().get(), text.size()};
            }
            next_ = blocks_.back().get();
            room_ = block;
        }
        char* at = next_;
        if (!text.empty()) std::memcpy(at, text.data(), text.size());
        next_ += text.size();
        room_ -= text.size();
        return {at, text.size()};
    }

    static constexpr std::size_t kBlock = 1 << 16;
    std::vector<std::string_view> views_;
    Slots slots_;
    std::vector<std::unique_ptr<char[]>> blocks_;
    std::size_t arena_bytes_ = 0;
    char* next_ = nullptr;
    std::size_t room_ = 0;
};

}  // namespace dl
