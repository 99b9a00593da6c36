#include "model.hpp"

#include <algorithm>

namespace plans {

namespace {

constexpr const char* tables[] = {"world", "mesh", "op", "in", "out", "tensor", "sub_slice", "sub_val", "full", "attr",
                                  "const", "coll", "coll_member", "p2p", "adapter", "grad_of", "wred"};

// A row more of an op: its rows follow each other, positions count from 0.
void extend(Range& range, std::size_t at, i64 pos) {
    if (range.size == 0) range.from = static_cast<u32>(at);
    must(range.from + range.size == at && pos == range.size);
    ++range.size;
}

}  // namespace

Tables::Tables(const std::string& directory) {
    for (const char* name : tables) text[name] = read_file(directory + "/p_" + name + ".tsv");
    read_world();
    read_parts();
    read_tensors();
    read_ops();
    read_details();
    read_communication();
}

u32 Tables::op(std::string_view id) {
    if (last_ == none || ops_named[last_] != id) last_ = ops_named.find(id);
    must(last_ != none);
    return last_;
}

void Tables::read_world() {
    each_row<3>(text["world"], [&](auto& c) {
        must(c[0] == "p" && !world.count(std::string(c[1])));
        must((world[std::string(c[1])] = number(c[2])) >= 1);
    });
    for (const char* key : {"plan_ndevs", "runtime_ndevs", "num_dp", "num_tp", "num_pp", "num_mb"}) must(world.count(key));
    if (!world.count("written_mb")) world["written_mb"] = world["num_mb"];
    must(world["written_mb"] == world["num_mb"]);
    const i64 dp = world["num_dp"], pp = world["num_pp"], tp = world["num_tp"];
    devices = pp * tp;
    must(world["runtime_ndevs"] == dp * devices);
    std::map<std::array<i64, 3>, i64> taken;
    each_row<5>(text["mesh"], [&](auto& c) {
        const Place place{number(c[2]), number(c[3]), number(c[4])};
        must(c[0] == "p" && 0 <= place.copy && place.copy < dp && 0 <= place.stage && place.stage < pp);
        must(0 <= place.tp && place.tp < tp && number(c[1]) >= 0);
        must(places.emplace(number(c[1]), place).second);
        must(taken.emplace(std::array{place.copy, place.stage, place.tp}, 0).second);
        copies = std::max(copies, place.copy + 1);
    });
    must(copies > 0 && static_cast<i64>(places.size()) == copies * devices && dp % copies == 0);
    must(copies == dp || world["plan_ndevs"] == copies * devices);
}

void Tables::read_parts() {
    std::vector<std::string> fulls;
    std::vector<std::vector<i64>> shapes;
    each_row<8>(text["full"], [&](auto& c) {
        must(c[0] == "p" && fulls_named.find(c[1]) == none);
        fulls_named.add(c[1]);
        std::string meaning;
        for (int n = 2; n < 8; ++n) (meaning += c[static_cast<std::size_t>(n)]) += '\t';
        for (int n = 5; n < 8; ++n) number(c[static_cast<std::size_t>(n)]);
        fulls.push_back(meaning);
        auto& shape = shapes.emplace_back();
        std::string_view sizes = c[4];
        while (!sizes.empty() && c[4] != "()") {
            const std::size_t end = std::min(sizes.find('x'), sizes.size());
            shape.push_back(number(sizes.substr(0, end)));
            must(end == sizes.size() || end + 1 < sizes.size());
            sizes.remove_prefix(std::min(end + 1, sizes.size()));
        }
    });
    each_row<6>(text["sub_slice"], [&](auto& c) {
        const u32 full = fulls_named.find(c[2]), tid = parts_named.add(c[1]);
        must(c[0] == "p" && full != none);
        if (tid == parts.size()) parts.emplace_back().full = full;
        Part& part = parts[tid];
        const i64 dim = number(c[3]), lo = number(c[4]), hi = number(c[5]);
        must(part.full == full && 0 <= dim && dim < static_cast<i64>(shapes[full].size()));
        must(0 <= lo && lo < hi && hi <= shapes[full][static_cast<std::size_t>(dim)]);
        for (const auto& span : part.spans) must(span[0] != dim);
        part.spans.push_back({dim, lo, hi});
    });
    each_row<4>(text["sub_val"], [&](auto& c) {
        const u32 tid = parts_named.find(c[1]);
        const i64 addend = number(c[2]), addends = number(c[3]);
        must(c[0] == "p" && 0 <= addend && addend < addends);
        if (tid == none) return;
        parts[tid].addend = addend;
        parts[tid].addends = addends;
    });
    for (Part& part : parts) {
        must(part.spans.size() == shapes[part.full].size());
        std::sort(part.spans.begin(), part.spans.end());
    }
    number_parts(fulls);
}

void Tables::number_parts(const std::vector<std::string>& fulls) {
    each_row<3>(text["grad_of"], [&](auto& c) {
        const u32 gradient = parts_named.find(c[1]), weight = parts_named.find(c[2]);
        must(c[0] == "p" && gradient != none && weight != none);
        must(parts[gradient].weight == none || parts[gradient].weight == weight);
        parts[gradient].weight = weight;
    });
    Texts meanings(true);
    std::vector<u32> alone(parts.size());
    for (std::size_t n = 0; n < parts.size(); ++n) {
        const Part& part = parts[n];
        std::string meaning = fulls[part.full];
        for (const auto& [dim, lo, hi] : part.spans) meaning += std::to_string(lo) + ":" + std::to_string(hi) + ",";
        meaning += "\t" + std::to_string(part.addend) + " of " + std::to_string(part.addends);
        alone[n] = meanings.add(meaning);
    }
    for (std::size_t n = 0; n < parts.size(); ++n) {
        Part& part = parts[n];
        const std::string& full = fulls[part.full];
        part.named = words.add(std::string_view(full).substr(0, full.find('\t')));
        const std::string weight = part.weight == none ? "" : std::to_string(alone[part.weight]);
        part.alike = meanings.add("\n" + std::to_string(alone[n]) + " " + weight);
    }
}

void Tables::read_tensors() {
    each_row<7>(text["tensor"], [&](auto& c) {
        must(c[0] != "" && c[1] == "p" && tensors_named.add(c[0]) == tensors.size());
        const i64 rank = number(c[2]), mb = number(c[3]);
        number(c[5]);
        must((rank < 0 || places.count(rank)) && -1 <= mb && mb < world["num_mb"]);
        const u32 part = parts_named.find(c[4]);
        must(part != none);
        tensors.push_back({static_cast<int>(rank), static_cast<int>(mb), part, number(c[6]) == 1});
    });
}

void Tables::read_ops() {
    each_row<9>(text["op"], [&](auto& c) {
        must(c[1] == "p" && ops_named.add(c[0]) == ops.size() && !c[7].empty());
        const i64 rank = number(c[2]), mb = number(c[3]);
        number(c[5]);
        must(places.count(rank) && -1 <= mb && mb < world["num_mb"]);
        Op op{words.add(c[7]), words.add(c[8]), words.add(c[6]), static_cast<int>(rank), static_cast<int>(mb),
              number(c[4]), {}, {}, {}, {}, {}, {}};
        ops.push_back(op);
    });
    must(!ops.empty());
    const u32 move = words.add("MovePrim"), broadcast = words.add("BroadcastPrim");
    for (const char* name : {"in", "out"}) {
        const bool in = name[0] == 'i';
        auto& list = in ? reads : makes;
        each_row<3>(text[name], [&](auto& c) {
            const u32 n = op(c[0]), tensor = tensors_named.find(c[2]);
            op_of[name].push_back(n);
            must(tensor != none);
            Op& one = ops[n];
            const Tensor& t = tensors[tensor];
            must(t.rank == one.rank || (t.rank < 0 && (one.kind == move || one.kind == broadcast)));
            extend(in ? one.reads : one.makes, list.size(), number(c[1]));
            list.push_back(tensor);
        });
    }
}

void Tables::read_details() {
    each_row<4>(text["attr"], [&](auto& c) {
        const u32 n = op(c[0]), key = words.add(c[1]);
        op_of["attr"].push_back(n);
        Range& own = ops[n].attributes;
        extend(own, attributes.size(), own.size);
        for (u32 k = own.from; k + 1 < own.from + own.size; ++k) must(attributes[k].key != key);
        attributes.push_back({key, words.add(c[3])});
    });
    each_row<4>(text["const"], [&](auto& c) {
        const u32 n = op(c[0]);
        op_of["const"].push_back(n);
        extend(ops[n].constants, constants.size(), number(c[1]));
        constants.push_back({words.add(c[2]), words.add(c[3])});
    });
    each_row<5>(text["adapter"], [&](auto& c) {
        const u32 n = op(c[0]);
        op_of["adapter"].push_back(n);
        for (int k : {1, 3, 4}) number(c[static_cast<std::size_t>(k)]);
        must(ops[n].prim == none);
        ops[n].prim = words.add(c[2]);
    });
    const auto by_key = [](const Attribute& a, const Attribute& b) { return a.key < b.key; };
    for (const Op& op : ops) {
        const auto from = attributes.begin() + op.attributes.from;
        std::sort(from, from + op.attributes.size, by_key);
    }
}

void Tables::read_communication() {
    each_row<4>(text["coll"], [&](auto& c) {
        const u32 n = op(c[0]);
        op_of["coll"].push_back(n);
        must(ops[n].group == none);
        ops[n].group = words.add(c[2]);
        ops[n].dim = number(c[3]);
    });
    each_row<3>(text["coll_member"], [&](auto& c) {
        const u32 n = op(c[0]);
        op_of["coll_member"].push_back(n);
        const i64 rank = number(c[2]);
        must(0 <= rank && rank < world["runtime_ndevs"]);
        extend(ops[n].members, members.size(), number(c[1]));
        members.push_back(rank);
    });
    each_row<3>(text["p2p"], [&](auto& c) {
        Op& one = ops[op(c[0])];
        op_of["p2p"].push_back(last_);
        must(one.source < 0 && places.count(number(c[1])) && places.count(number(c[2])));
        one.source = number(c[1]);
        one.target = number(c[2]);
    });
    each_row<3>(text["wred"], [&](auto& c) {
        const u32 n = op(c[0]), weight = parts_named.find(c[2]);
        op_of["wred"].push_back(n);
        number(c[1]);
        must(weight != none);
        extend(ops[n].weights, weights.size(), ops[n].weights.size);
        weights.push_back(weight);
    });
    const u32 broadcast = words.add("BroadcastPrim"), ranks = words.add("ranks");
    for (Op& op : ops) {  // of some broadcasts the attribute alone says the members
        if (op.kind != broadcast || op.members.size) continue;
        op.members.from = static_cast<u32>(members.size());
        for (u32 k = op.attributes.from; k < op.attributes.from + op.attributes.size; ++k)
            if (attributes[k].key == ranks)
                for (const i64 rank : numbers(words[attributes[k].text])) members.push_back(rank);
        op.members.size = static_cast<u32>(members.size()) - op.members.from;
        for (u32 k = op.members.from; k < members.size(); ++k) must(places.count(members[k]));
    }
}

}  // namespace plans
