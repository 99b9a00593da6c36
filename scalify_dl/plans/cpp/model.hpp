// The tables of a plan that is written out, as numbers.
#pragma once

#include <map>
#include <unordered_map>

#include "rows.hpp"

namespace plans {

struct Place {
    i64 copy, stage, tp;
};

// Some consecutive entries of a list.
struct Range {
    u32 from = 0, size = 0;
};

struct Op {
    u32 kind, direction, name;
    int rank, mb;  // mb: -1 of what belongs to the step
    i64 seq;
    Range reads, makes, attributes, constants, members, weights;
    u32 prim = none;                     // of its adapter
    u32 group = none;                    // kind of its collective
    i64 dim = 0;                         // of its collective
    i64 source = -1, target = -1;        // of its message
    u32 at = none;                       // its number in the program of its rank and micro-batch
};

struct Tensor {
    int rank, mb;
    u32 part;
    bool given, added = false;           // added: some sum or reducer reads it
    u32 maker = none, pos = 0;
};

struct Part {
    u32 full;
    std::vector<std::array<i64, 3>> spans;   // (dim, lo, hi)
    i64 addend = 0, addends = 1;
    u32 weight = none;                       // the part whose gradient it is
    u32 alike = none;                        // a number for what it is; parts that are the same have the same
    u32 named = none;                        // the name of its tensor of the model
};

struct Attribute {
    u32 key, text;
};

struct Tables {
    explicit Tables(const std::string& directory);

    // The number of an op that a row names; rows of one op mostly follow each other.
    u32 op(std::string_view id);

    std::map<std::string, std::string> text;                 // by table
    std::map<std::string, std::vector<u32>> op_of;           // by table: the op of every row
    std::map<std::string, i64> world;
    std::unordered_map<i64, Place> places;                   // by rank
    Texts words{true}, ops_named{false}, tensors_named{false}, parts_named{false}, fulls_named{false};
    std::vector<Op> ops;
    std::vector<Tensor> tensors;
    std::vector<Part> parts;
    std::vector<u32> reads, makes, weights;                  // lists of ops
    std::vector<Attribute> attributes, constants;            // a constant: (type, text)
    std::vector<i64> members;
    i64 copies = 0, devices = 0;                             // copies that are written; ranks of one

private:
    void read_world();
    void read_parts();
    void read_tensors();
    void read_ops();
    void read_details();
    void read_communication();
    void number_parts(const std::vector<std::string>& fulls);

    u32 last_ = none;
};

}  // namespace plans
