// Whether all copies and micro-batches of a plan that is written out do what the first ones do.
//
// Lemma L5, checked: every (rank, micro-batch) runs, op for op, what the rank of its place in the first copies runs for
// micro-batch 0, on parts of the model's tensors that are the same, with members and peers that lie alike; all values
// that it reads are its own, made before, or given; gradients are added up over all micro-batches, each once; the k-th
// message of a channel and the k-th call of a communicator are of one micro-batch on all ranks. Everything is compared,
// nothing is hashed away.
//
// Example: dp 4, 8 micro-batches: 4 · 8 programs of a stage's rank are one, whose tables are kept.
// Wrong twin: one constant of copy 3, micro-batch 5, is another one: Irregular.
#pragma once

#include <set>

#include "model.hpp"

namespace plans {

class Alike {
public:
    explicit Alike(Tables& tables);

    // Whether copy d does what copy d mod `period` does, and every micro-batch what the first one does.
    bool repeats(i64 period);

    // What a reducer reads where the first micro-batch stands for all: by row of `in`, else `none`.
    const std::vector<u32>& replaced() const { return replaced_; }
    bool communicates(u32 op) const;
    bool is_sum(const Op& op) const { return op.kind == sum_; }
    bool is_reducer(const Op& op) const { return op.kind == reducer_; }

private:
    struct Sum {
        u32 at, pos, part;
        std::vector<bool> micro_batches;
    };

    void order();
    void sums(i64 rank);
    Sum summand(const Op& op, u32 tensor, const std::map<u32, Sum>& made);
    void other_gradients(i64 rank, const std::set<u32>& reduced) const;
    void messages() const;
    void calls() const;
    bool same(const Op& x, const Op& r, i64 shift, i64 unit) const;
    bool same_attributes(const Op& x, const Op& r, i64 shift) const;
    bool same_members(const Op& x, const Op& r, i64 shift, i64 unit) const;
    bool same_value(const Op& x, u32 a, const Op& r, u32 b, bool read) const;
    std::pair<u32, u32> summed(const Op& reducer) const;
    std::vector<i64> reduced(const Op& reducer) const;
    i64 broadcast_from(const Op& op) const;

    Tables& t_;
    std::map<i64, std::vector<std::vector<u32>>> programs_;  // rank → ops by micro-batch
    std::map<i64, std::vector<u32>> step_;                   // rank → sums over micro-batches and reducers
    std::map<i64, std::vector<u32>> all_;                    // rank → all ops in their order
    std::map<std::array<i64, 3>, i64> rank_at_;
    std::map<i64, std::set<std::pair<u32, u32>>> finals_;    // rank → what is summed: by whom it is made, and as which result
    std::vector<u32> replaced_;
    u32 sum_, reducer_, move_, broadcast_, chunk_, identity_;
    u32 ranks_, src_, dst_, index_;
};

}  // namespace plans
