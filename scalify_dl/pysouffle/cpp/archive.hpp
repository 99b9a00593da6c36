// Values as bytes and back. For each struct one function `fields` says what it consists of, for both ways.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace dl {

template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
struct IsPair : std::false_type {};
template <class A, class B>
struct IsPair<std::pair<A, B>> : std::true_type {};

class Writer {
public:
    template <class T>
    using Of = const T;

    template <class... T>
    void operator()(const T&... values) {
        (one(values), ...);
    }
    std::string bytes;

private:
    template <class T>
    void one(const T& value) {
        if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
            number(static_cast<std::int64_t>(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
            number(static_cast<std::int64_t>(value.size()));
            bytes += value;
        } else if constexpr (IsVector<T>::value) {
            number(static_cast<std::int64_t>(value.size()));
            for (const auto& item : value) one(item);
        } else if constexpr (IsPair<T>::value) {
            one(value.first);
            one(value.second);
        } else {
            fields(*this, value);
        }
    }
    void number(std::int64_t value) {  // seven bits a byte, small numbers of either sign first
        std::uint64_t left = static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
        for (; left >= 0x80; left >>= 7) bytes += static_cast<char>(left | 0x80);
        bytes += static_cast<char>(left);
    }
};

// Throws std::runtime_error where there is nothing that Writer wrote.
class Reader {
public:
    template <class T>
    using Of = T;

    explicit Reader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

    template <class... T>
    void operator()(T&... values) {
        (one(values), ...);
    }
    // A text as it stands among the bytes.
    std::string_view text() {
        const std::size_t size = this->size();
        at_ += size;
        return {at_ - size, size};
    }
    bool at_end() const { return at_ == end_; }

private:
    template <class T>
    void one(T& value) {
        if constexpr (std::is_enum_v<T> || std::is_integral_v<T>) {
            value = static_cast<T>(number());
        } else if constexpr (std::is_same_v<T, std::string>) {
            value = text();
        } else if constexpr (IsVector<T>::value) {
            value.resize(size());  // every item takes a byte at least
            for (auto& item : value) one(item);
        } else if constexpr (IsPair<T>::value) {
            one(value.first);
            one(value.second);
        } else {
            fields(*this, value);
        }
    }
    std::int64_t number() {
        std::uint64_t value = 0;
        for (int shift = 0; shift < 64; shift += 7) {
            if (at_ == end_) break;
            const auto byte = static_cast<unsigned char>(*at_++);
            value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
            if (byte < 0x80) return static_cast<std::int64_t>(value >> 1 ^ (~(value & 1) + 1));
        }
        throw std::runtime_error("a number without end");
    }
    std::size_t size() {
        const std::int64_t size = number();
        if (size < 0 || size > end_ - at_) throw std::runtime_error("longer than what is there");
        return static_cast<std::size_t>(size);
    }

    const char* at_;
    const char* end_;
};

}  // namespace dl
