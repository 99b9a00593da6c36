#include "alike.hpp"

#include <algorithm>

namespace plans {

Alike::Alike(Tables& tables) : t_(tables) {
    const auto word = [&](const char* text) { return t_.words.add(text); };
    sum_ = word("local_grad_accumulation"), reducer_ = word("reducer"), move_ = word("MovePrim");
    broadcast_ = word("BroadcastPrim"), chunk_ = word("ChunkPrim"), identity_ = word("IdentityPrim");
    ranks_ = word("ranks"), src_ = word("src"), dst_ = word("dst"), index_ = word("__collective_idx");
    for (const auto& [rank, place] : t_.places) rank_at_[{place.copy, place.stage, place.tp}] = rank;
    order();
    replaced_.assign(t_.reads.size(), none);
    for (const auto& [rank, place] : t_.places) sums(rank);
    messages();
    calls();
}

// Programs of ranks and micro-batches, and who makes what: once, on its own rank.
void Alike::order() {
    for (const auto& [rank, place] : t_.places) programs_[rank].resize(static_cast<std::size_t>(t_.world["num_mb"]));
    for (u32 n = 0; n < t_.ops.size(); ++n) {
        Op& op = t_.ops[n];
        for (u32 k = 0; k < op.makes.size; ++k) {
            Tensor& made = t_.tensors[t_.makes[op.makes.from + k]];
            if (op.kind == sum_) op.mb = k == 0 ? made.mb : std::max(op.mb, made.mb);
            if (made.rank < 0) continue;
            must(made.maker == none);
            made.maker = n;
            made.pos = k;
        }
        if (op.kind == reducer_ || (op.kind == sum_ && op.makes.size == 0)) op.mb = -1;
        must(op.mb >= 0 || op.kind == sum_ || op.kind == reducer_);
        all_[op.rank].push_back(n);
    }
    for (auto& [rank, ops] : all_) {
        const auto earlier = [&](u32 a, u32 b) { return t_.ops[a].seq < t_.ops[b].seq; };
        if (!std::is_sorted(ops.begin(), ops.end(), earlier)) std::sort(ops.begin(), ops.end(), earlier);
        for (std::size_t k = 0; k < ops.size(); ++k) {
            Op& op = t_.ops[ops[k]];
            must(k == 0 || t_.ops[ops[k - 1]].seq < op.seq);
            auto& program = op.mb < 0 ? step_[rank] : programs_[rank][static_cast<std::size_t>(op.mb)];
            op.at = static_cast<u32>(program.size());
            program.push_back(ops[k]);
        }
    }
}

// ---- what is added up over micro-batches

void Alike::sums(i64 rank) {
    std::map<u32, Sum> made;  // by tensor
    std::set<u32> reduced, read;
    auto& finals = finals_[rank];
    const auto whole = [](const Sum& sum) {
        return std::all_of(sum.micro_batches.begin(), sum.micro_batches.end(), [](bool b) { return b; });
    };
    for (const u32 n : step_[rank]) {
        const Op& op = t_.ops[n];
        must(op.makes.size == 1 && op.reads.size == (op.kind == sum_ ? 2u : 1u));
        const u32 first = t_.reads[op.reads.from], result = t_.makes[op.makes.from];
        must(!t_.tensors[result].given && t_.tensors[result].rank == rank);
        Sum sum = summand(op, first, made);
        read.insert(first);
        if (op.kind == reducer_) {
            must(whole(sum) && finals.emplace(sum.at, sum.pos).second);
            const Op& source = t_.ops[programs_[rank][0][sum.at]];
            replaced_[op.reads.from] = t_.makes[source.makes.from + sum.pos];
            for (u32 k = 0; k < op.weights.size; ++k) reduced.insert(t_.parts[t_.weights[op.weights.from + k]].named);
            continue;
        }
        must(op.attributes.size == 0 && op.constants.size == 0 && op.members.size == 0 && op.group == none);
        must(op.weights.size == 0 && op.source < 0 && t_.words[op.direction] == "-");
        const u32 second = t_.reads[op.reads.from + 1];
        const Sum other = summand(op, second, made);
        read.insert(second);
        must(sum.at == other.at && sum.pos == other.pos && sum.part == other.part);
        for (std::size_t m = 0; m < sum.micro_batches.size(); ++m) {
            must(!(sum.micro_batches[m] && other.micro_batches[m]));
            sum.micro_batches[m] = sum.micro_batches[m] || other.micro_batches[m];
        }
        must(t_.parts[t_.tensors[result].part].alike == sum.part && t_.tensors[result].mb == -1);
        made.emplace(result, sum);
    }
    for (const auto& [tensor, sum] : made)
        if (!read.count(tensor)) must(whole(sum) && finals.emplace(sum.at, sum.pos).second);
    other_gradients(rank, reduced);
}

// What a sum or a reducer reads: a sum of its rank, or a micro-batch's gradient, which nothing else adds up.
Alike::Sum Alike::summand(const Op& op, u32 tensor, const std::map<u32, Sum>& made) {
    Tensor& value = t_.tensors[tensor];
    must(!value.added && !value.given && value.maker != none);
    value.added = true;
    const Op& maker = t_.ops[value.maker];
    must(maker.seq < op.seq);
    if (const auto found = made.find(tensor); found != made.end()) return found->second;
    must(maker.mb >= 0);
    Sum sum{maker.at, value.pos, t_.parts[value.part].alike, {}};
    sum.micro_batches.resize(static_cast<std::size_t>(t_.world["num_mb"]));
    sum.micro_batches[static_cast<std::size_t>(maker.mb)] = true;
    return sum;
}

// A gradient of a micro-batch that nothing adds up or reduces would be one of several at the end of the step.
void Alike::other_gradients(i64 rank, const std::set<u32>& reduced) const {
    if (programs_.at(rank).size() == 1) return;
    std::set<u32> added;
    for (const auto& program : programs_.at(rank))
        for (const u32 n : program)
            if (const Op& op = t_.ops[n]; op.kind == sum_)
                for (u32 k = 0; k < op.reads.size; ++k) added.insert(t_.reads[op.reads.from + k]);
    for (const auto& program : programs_.at(rank))
        for (const u32 n : program) {
            const Op& op = t_.ops[n];
            for (u32 k = 0; k < op.makes.size; ++k) {
                const u32 tensor = t_.makes[op.makes.from + k];
                const u32 weight = t_.parts[t_.tensors[tensor].part].weight;
                if (weight == none || t_.tensors[tensor].added || added.count(tensor)) continue;
                must(reduced.count(t_.parts[weight].named));
            }
        }
}

// ---- messages and calls: the k-th of all ranks are of one micro-batch

i64 Alike::broadcast_from(const Op& op) const {
    must(op.members.size > 0);
    for (u32 k = op.attributes.from; k < op.attributes.from + op.attributes.size; ++k)
        if (t_.attributes[k].key == src_) return number(t_.words[t_.attributes[k].text]);
    return t_.members[op.members.from];
}

bool Alike::communicates(u32 n) const {
    const Op& op = t_.ops[n];
    return op.source >= 0 || op.kind == broadcast_ || op.kind == reducer_ ||
           (op.group != none && op.members.size && op.kind != chunk_ && op.kind != identity_);
}

void Alike::messages() const {
    struct Ends {
        std::vector<std::pair<int, u32>> sent, received;  // (micro-batch, what is on its way)
    };
    std::map<std::vector<i64>, Ends> channels;
    for (const auto& [rank, ops] : all_)
        for (const u32 n : ops) {
            const Op& op = t_.ops[n];
            if (op.kind != broadcast_ && op.source < 0) continue;
            must(op.kind == broadcast_ ? op.source < 0 : op.kind == move_);
            std::vector<i64> name;
            i64 source = op.source;
            std::vector<i64> targets{op.target};
            if (op.kind == broadcast_) {
                name.assign(t_.members.begin() + op.members.from,
                            t_.members.begin() + op.members.from + op.members.size);
                must(std::count(name.begin(), name.end(), rank) == 1);
                source = broadcast_from(op);
                targets = rank == source ? name : std::vector<i64>{rank};
            }
            must(op.kind == broadcast_ || (source != op.target && (rank == source || rank == op.target)));
            const Range& held = rank == source ? op.makes : op.reads;
            const u32 first = held.size ? (rank == source ? t_.makes : t_.reads)[held.from] : none;
            const u32 carried = first != none && t_.tensors[first].rank < 0 ? first : none;
            for (const i64 target : targets) {
                if (target == source) continue;
                std::vector<i64> key = name;
                key.insert(key.end(), {source, target});
                Ends& ends = channels[key];
                (rank == source ? ends.sent : ends.received).emplace_back(op.mb, carried);
            }
        }
    for (const auto& [key, ends] : channels) {
        must(ends.sent.size() == ends.received.size());
        for (std::size_t k = 0; k < ends.sent.size(); ++k) {
            must(ends.sent[k].first == ends.received[k].first);
            must(ends.sent[k].second == ends.received[k].second || key.size() > 2);
        }
    }
}

void Alike::calls() const {
    std::map<std::vector<i64>, std::map<i64, std::vector<std::pair<int, i64>>>> found;
    std::map<std::vector<i64>, std::map<i64, std::vector<std::vector<i64>>>> reducers;
    std::vector<u32> ordered;
    for (const char* kind : {"AllGatherPrim", "ReduceScatterPrim", "AllToAllPrim"}) ordered.push_back(t_.words.add(kind));
    for (const auto& [rank, ops] : all_)
        for (const u32 n : ops) {
            const Op& op = t_.ops[n];
            if (!op.members.size || op.kind == broadcast_) continue;
            const auto from = t_.members.begin() + op.members.from;
            std::vector<i64> key(from, from + op.members.size), sorted = key;
            std::sort(sorted.begin(), sorted.end());
            must(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
            must(std::binary_search(sorted.begin(), sorted.end(), rank));
            if (op.kind == reducer_) {
                sorted.push_back(op.kind);
                reducers[sorted][rank].push_back(reduced(op));
                continue;
            }
            if (op.kind == chunk_ || op.kind == identity_) continue;
            must(op.group != none);
            if (std::find(ordered.begin(), ordered.end(), op.kind) == ordered.end()) key = sorted;
            key.push_back(op.kind);
            found[key][rank].emplace_back(op.mb, op.dim);
        }
    for (const auto& [key, by_rank] : found) {
        must(by_rank.size() == key.size() - 1);
        for (const auto& [rank, sequence] : by_rank) must(sequence == by_rank.begin()->second);
    }
    for (const auto& [key, by_rank] : reducers) {
        if (t_.copies == t_.world["num_dp"]) must(by_rank.size() == key.size() - 1);
        for (const auto& [rank, sequence] : by_rank) must(sequence == by_rank.begin()->second);
    }
}

// What a reducer brings to its call: the parts of its weights, and the sizes of what it reads.
std::vector<i64> Alike::reduced(const Op& op) const {
    std::vector<i64> out;
    for (u32 k = 0; k < op.weights.size; ++k) out.push_back(t_.parts[t_.weights[op.weights.from + k]].alike);
    const Part& read = t_.parts[t_.tensors[t_.reads[op.reads.from]].part];
    for (const auto& span : read.spans) out.push_back(span[2] - span[1]);
    return out;
}

// ---- op for op

bool Alike::repeats(i64 period) {
    const i64 unit = period * t_.devices;
    if (t_.copies % period != 0) return false;
    if (period < t_.copies)
        for (const auto& [rank, place] : t_.places) {
            const i64 shift = place.copy / period * unit;
            if (rank_at_[{place.copy % period, place.stage, place.tp}] + shift != rank) return false;
            if (rank - shift < 0 || rank - shift >= unit) return false;
        }
    std::map<i64, std::set<u32>> given;
    for (const Tensor& tensor : t_.tensors)
        if (tensor.given && tensor.mb < 0 && tensor.rank >= 0)
            given[tensor.rank].insert(t_.parts[tensor.part].alike);
    for (const auto& [rank, place] : t_.places) {
        const i64 reference = rank_at_[{place.copy % period, place.stage, place.tp}], shift = rank - reference;
        if (given[rank] != given[reference] || finals_[rank] != finals_[reference]) return false;
        const auto alike = [&](const std::vector<u32>& program, const std::vector<u32>& other) {
            return program.size() == other.size() &&
                   std::equal(program.begin(), program.end(), other.begin(),
                              [&](u32 a, u32 b) { return same(t_.ops[a], t_.ops[b], shift, unit); });
        };
        for (const auto& program : programs_[rank])
            if (!alike(program, programs_[reference][0])) return false;
        if (!alike(step_[rank], step_[reference])) return false;
    }
    return true;
}

bool Alike::same(const Op& x, const Op& r, i64 shift, i64 unit) const {
    if (x.kind != r.kind || x.direction != r.direction || x.name != r.name || x.prim != r.prim) return false;
    if (x.group != r.group || x.dim != r.dim || (x.mb < 0) != (r.mb < 0)) return false;
    if (x.reads.size != r.reads.size || x.makes.size != r.makes.size || x.weights.size != r.weights.size) return false;
    if (!same_attributes(x, r, shift) || !same_members(x, r, shift, unit)) return false;
    if (x.constants.size != r.constants.size) return false;
    for (u32 k = 0; k < x.constants.size; ++k) {
        const Attribute &a = t_.constants[x.constants.from + k], &b = t_.constants[r.constants.from + k];
        if (a.key != b.key || a.text != b.text) return false;
    }
    for (u32 k = 0; k < x.weights.size; ++k)
        if (t_.parts[t_.weights[x.weights.from + k]].alike != t_.parts[t_.weights[r.weights.from + k]].alike) return false;
    for (u32 k = 0; k < x.reads.size; ++k)
        if (!same_value(x, t_.reads[x.reads.from + k], r, t_.reads[r.reads.from + k], true)) return false;
    for (u32 k = 0; k < x.makes.size; ++k)
        if (!same_value(x, t_.makes[x.makes.from + k], r, t_.makes[r.makes.from + k], false)) return false;
    return true;
}

bool Alike::same_attributes(const Op& x, const Op& r, i64 shift) const {
    if (x.attributes.size != r.attributes.size) return false;
    const auto from = t_.members.begin() + x.members.from;
    const std::vector<i64> members(from, from + x.members.size);
    for (u32 k = 0; k < x.attributes.size; ++k) {
        const Attribute &a = t_.attributes[x.attributes.from + k], &b = t_.attributes[r.attributes.from + k];
        if (a.key != b.key) return false;
        if (a.key == ranks_ && !members.empty()) {
            if (numbers(t_.words[a.text]) != members) return false;
        } else if ((a.key == src_ || a.key == dst_) && a.text != b.text) {  // ranks: they lie as the others' do
            const std::vector<i64> mine = numbers(t_.words[a.text]), other = numbers(t_.words[b.text]);
            if (mine.size() != 1 || other.size() != 1 || mine[0] != other[0] + shift) return false;
            if (std::to_string(mine[0]) != t_.words[a.text] || std::to_string(other[0]) != t_.words[b.text]) return false;
        } else if (a.text != b.text) {
            return false;
        } else if ((a.key == src_ || a.key == dst_) && shift != 0) {
            return false;
        }
    }
    return true;
}

bool Alike::same_members(const Op& x, const Op& r, i64 shift, i64 unit) const {
    const i64 moved = x.source < 0 ? 0 : shift;
    if ((x.source < 0) != (r.source < 0) || x.source != r.source + moved || x.target != r.target + moved) return false;
    if (r.source >= 0 && t_.copies * t_.devices != unit && (r.source >= unit || r.target >= unit)) return false;
    if (x.members.size != r.members.size) return false;
    const auto mine = t_.members.begin() + x.members.from, theirs = t_.members.begin() + r.members.from;
    const auto end = theirs + r.members.size;
    if (t_.copies * t_.devices != unit && std::any_of(theirs, end, [&](i64 rank) { return rank >= unit; }))
        return x.kind == reducer_ && std::equal(theirs, end, mine);  // one over all blocks of copies
    return std::equal(theirs, end, mine, [&](i64 a, i64 b) { return a + shift == b; });
}

// What a reducer reads, where the first micro-batch stands for all: by whom it is made, and as which result.
std::pair<u32, u32> Alike::summed(const Op& reducer) const {
    const Tensor& gradient = t_.tensors[replaced_[reducer.reads.from]];
    return {t_.ops[gradient.maker].at, gradient.pos};
}

// What an op reads or makes: the same part of the same tensor, made at the same place of its own program, or given.
bool Alike::same_value(const Op& x, u32 a, const Op& r, u32 b, bool read) const {
    const Tensor &mine = t_.tensors[a], &other = t_.tensors[b];
    if (t_.parts[mine.part].alike != t_.parts[other.part].alike || mine.given != other.given) return false;
    if ((mine.rank < 0) != (other.rank < 0) || (mine.mb < 0) != (other.mb < 0)) return false;
    if (x.mb < 0) return !read || x.kind == sum_ || summed(x) == summed(r);  // sums(…) looks at what is added up
    if (mine.mb >= 0 && (mine.mb != x.mb || other.mb != r.mb)) return false;
    if (!read || mine.rank < 0) return true;
    if ((mine.maker == none) != (other.maker == none)) return false;
    if (mine.maker == none) return mine.given;
    const Op &maker = t_.ops[mine.maker], &reference = t_.ops[other.maker];
    return maker.mb == x.mb && reference.mb == r.mb && maker.at == reference.at && mine.pos == other.pos &&
           maker.seq < x.seq;
}

}  // namespace plans
