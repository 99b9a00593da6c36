// The rules of a program, in order. Those of a program that was compiled earlier (kept.hpp) are decoded when they are
// first looked at: a run looks at some of thousands.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace dl {

struct Rule;

class Rules {
public:
    Rules();
    explicit Rules(std::vector<Rule> rules);
    // So many rules, each as `decode` gives it. Programs in several threads may share them.
    Rules(std::size_t count, std::function<Rule(std::size_t)> decode);

    std::size_t size() const;
    const Rule& operator[](std::size_t index) const;
    void push_back(Rule rule);         // not to rules that are decoded
    std::vector<Rule> copy() const;

    class Iterator {
    public:
        Iterator(const Rules& rules, std::size_t index) : rules_(rules), index_(index) {}
        const Rule& operator*() const { return rules_[index_]; }
        Iterator& operator++() {
            ++index_;
            return *this;
        }
        bool operator!=(const Iterator& other) const { return index_ != other.index_; }

    private:
        const Rules& rules_;
        std::size_t index_;
    };
    Iterator begin() const { return {*this, 0}; }
    Iterator end() const { return {*this, size()}; }

private:
    struct Decoded {
        std::vector<std::atomic<const Rule*>> rules;
        std::function<Rule(std::size_t)> decode;
        std::mutex mutex;

        Decoded(std::size_t count, std::function<Rule(std::size_t)> d) : rules(count), decode(std::move(d)) {}
        ~Decoded();
        const Rule& at(std::size_t index);
    };

    std::vector<Rule> rules_;
    std::shared_ptr<Decoded> decoded_;  // if so, `rules_` is empty
};

}  // namespace dl
