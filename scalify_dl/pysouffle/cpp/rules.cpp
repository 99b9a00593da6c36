#include "core.hpp"

namespace dl {

Rules::Rules() = default;
Rules::Rules(std::vector<Rule> rules) : rules_(std::move(rules)) {}
Rules::Rules(std::size_t count, std::function<Rule(std::size_t)> decode) : decoded_(std::make_shared<Decoded>(count, std::move(decode))) {}

std::size_t Rules::size() const { return decoded_ ? decoded_->rules.size() : rules_.size(); }

const Rule& Rules::operator[](std::size_t index) const { return decoded_ ? decoded_->at(index) : rules_[index]; }

void Rules::push_back(Rule rule) { rules_.push_back(std::move(rule)); }

std::vector<Rule> Rules::copy() const {
    std::vector<Rule> out;
    out.reserve(size());
    for (const Rule& rule : *this) out.push_back(rule);
    return out;
}

Rules::Decoded::~Decoded() {
    for (const std::atomic<const Rule*>& rule : rules) delete rule.load();
}

const Rule& Rules::Decoded::at(std::size_t index) {
    const Rule* found = rules[index].load(std::memory_order_acquire);
    if (found) return *found;
    const std::lock_guard<std::mutex> lock(mutex);
    if (!rules[index].load(std::memory_order_relaxed))
        rules[index].store(new Rule(decode(index)), std::memory_order_release);
    return *rules[index].load(std::memory_order_relaxed);
}

}  // namespace dl
