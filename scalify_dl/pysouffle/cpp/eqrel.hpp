// An equivalence relation: union-find over values, never stored as pairs.
//
// Pairs that rules derive wait in a queue until the round ends; then classes are merged. A merge of classes A and B makes
// the pairs A×B and B×A new: that event, two member lists and their lengths, is the delta that rules see. Member lists
// only grow (the smaller class is appended to the larger), so an event stays valid for ever.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "slots.hpp"

namespace dl {

class EqRel {
public:
    struct Link {  // a pair that was inserted and joined two classes, for explanations
        Value left, right;
        std::uint32_t stage;
    };

    void insert(Value left, Value right) { waiting_.emplace_back(left, right); }
    bool has_waiting() const { return !waiting_.empty(); }

    // End of a round: merge. True if anything is new.
    bool next_round(std::uint32_t stage) {
        delta_begin_ = events_.size();
        for (std::size_t i = 0; i < waiting_.size(); ++i) merge(waiting_[i].first, waiting_[i].second, stage);
        waiting_.clear();
        return delta_begin_ != events_.size();
    }
    void delta_since(std::size_t event) { delta_begin_ = event; }
    std::size_t events() const { return events_.size(); }
    bool has_delta() const { return delta_begin_ != events_.size(); }

    bool contains(Value left, Value right) const {
        const Row l = element(left), r = element(right);
        return l != kNoRow && r != kNoRow && class_[l] == class_[r];
    }
    std::size_t pairs() const { return pairs_; }
    std::size_t elements() const { return values_.size(); }
    std::size_t classes() const { return classes_; }

    // visit(value) for all members of the class of `value`; stops when visit returns true, and says so.
    template <class Visit>
    bool members(Value value, Visit&& visit) const {
        const Row e = element(value);
        if (e == kNoRow) return false;
        const std::vector<Value>& list = lists_[class_[e]];
        for (const Value member : list)
            if (visit(member)) return true;
        return false;
    }
    template <class Visit>
    bool all(Visit&& visit) const {
        for (Row id = 0; id < lists_.size(); ++id) {
            if (id >= values_.size() || class_[id] != id) continue;
            const std::vector<Value>& list = lists_[id];
            for (const Value left : list)
                for (const Value right : list)
                    if (visit(left, right)) return true;
        }
        return false;
    }
    template <class Visit>
    bool delta(Visit&& visit) const {
        for (std::size_t at = delta_begin_; at < events_.size(); ++at) {
            const Event& event = events_[at];
            const std::vector<Value>&large = lists_[event.large], &small = lists_[event.small];
            if (event.large == event.small) {
                if (visit(large[0], large[0])) return true;
                continue;
            }
            for (std::size_t i = 0; i < event.large_size; ++i)
                for (std::size_t j = 0; j < event.small_size; ++j)
                    if (visit(large[i], small[j]) || visit(small[j], large[i])) return true;
        }
        return false;
    }

    // visit(other) for the pairs of the delta that `value` is in (each stands for both directions, and for itself once).
    template <class Visit>
    bool delta_of(Value value, Visit&& visit) const {
        const Row e = element(value);
        if (e == kNoRow) return false;
        const auto in = [&](Row list, Row size) {
            for (const auto& [of, position] : places_[e])
                if (of == list) return position < size;
            return false;
        };
        for (std::size_t at = delta_begin_; at < events_.size(); ++at) {
            const Event& event = events_[at];
            if (event.large == event.small) {
                if (event.large == e && visit(value)) return true;
                continue;
            }
            const bool in_large = in(event.large, event.large_size), in_small = !in_large && in(event.small, event.small_size);
            const std::vector<Value>& others = lists_[in_large ? event.small : event.large];
            const std::size_t count = in_large ? event.small_size : in_small ? event.large_size : 0;
            for (std::size_t i = 0; i < count; ++i)
                if (visit(others[i])) return true;
        }
        return false;
    }

    // All pairs in numeric order.
    std::vector<Value> rows() const {
        std::vector<std::vector<Value>> sorted(lists_.size());
        std::vector<Value> elements = values_, out;
        std::sort(elements.begin(), elements.end());
        out.reserve(pairs_ * 2);
        for (const Value left : elements) {
            const Row id = class_[element(left)];
            if (sorted[id].empty()) {
                sorted[id] = lists_[id];
                std::sort(sorted[id].begin(), sorted[id].end());
            }
            for (const Value right : sorted[id]) {
                out.push_back(left);
                out.push_back(right);
            }
        }
        return out;
    }

    const std::vector<Link>& links() const { return links_; }

    void clear() {
        slots_.clear();
        values_.clear();
        class_.clear();
        lists_.clear();
        places_.clear();
        events_.clear();
        links_.clear();
        waiting_.clear();
        delta_begin_ = pairs_ = classes_ = 0;
    }
    std::size_t bytes() const {
        return slots_.bytes() + values_.capacity() * 16 + class_.capacity() * 4 + events_.capacity() * sizeof(Event) +
               links_.capacity() * sizeof(Link) + lists_.size() * sizeof(std::vector<Value>) + listed_ * (sizeof(Value) + 2 * sizeof(Row)) + places_.size() * 24 +
               waiting_.capacity() * 16;
    }

private:
    struct Event {
        Row large, small;  // equal: a new element
        Row large_size, small_size;
    };

    Row element(Value value) const {
        return slots_.find(hash_values(&value, 1), [&](Row row) { return values_[row] == value; });
    }
    Row element_or_new(Value value) {
        const std::uint64_t hash = hash_values(&value, 1);
        const Row known = element(value);
        if (known != kNoRow) return known;
        const Row next = static_cast<Row>(values_.size());
        if (slots_.full_for(next + 1, next + 1)) {
            slots_.reset(next + next / 4 + 8, next * 2 + 8);
            for (Row row = 0; row < next; ++row)
                slots_.find_or_put(hash_values(&values_[row], 1), row, [](Row) { return false; });
        }
        slots_.find_or_put(hash, next, [](Row) { return false; });
        values_.push_back(value);
        class_.push_back(next);
        lists_.push_back({value});
        places_.push_back({{next, 0}});
        events_.push_back({next, next, 1, 1});
        ++pairs_;
        ++classes_;
        ++listed_;
        return next;
    }
    void merge(Value left, Value right, std::uint32_t stage) {
        const std::size_t before = values_.size();
        Row a = class_[element_or_new(left)], b = class_[element_or_new(right)];
        if (a == b) {
            if (values_.size() != before) links_.push_back({left, right, stage});
            return;
        }
        links_.push_back({left, right, stage});
        if (lists_[a].size() < lists_[b].size()) std::swap(a, b);
        std::vector<Value>&large = lists_[a], &small = lists_[b];
        events_.push_back({a, b, static_cast<Row>(large.size()), static_cast<Row>(small.size())});
        pairs_ += 2 * large.size() * small.size();
        listed_ += small.size();
        for (std::size_t i = 0; i < small.size(); ++i) {
            const Row e = element(small[i]);
            class_[e] = a;
            places_[e].emplace_back(a, static_cast<Row>(large.size() + i));
        }
        large.insert(large.end(), small.begin(), small.end());
        --classes_;
    }

    Slots slots_;
    std::vector<Value> values_;              // element -> value
    std::vector<Row> class_;                 // element -> its class, named by an element
    std::deque<std::vector<Value>> lists_;   // class -> members; a merged class keeps its list for the events
    std::vector<std::vector<std::pair<Row, Row>>> places_;  // element -> the lists that it is in, and where
    std::vector<Event> events_;
    std::vector<Link> links_;
    std::vector<std::pair<Value, Value>> waiting_;
    std::size_t delta_begin_ = 0, pairs_ = 0, classes_ = 0, listed_ = 0;
};

}  // namespace dl
