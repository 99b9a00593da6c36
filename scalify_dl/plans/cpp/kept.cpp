#include "kept.hpp"

#include <algorithm>
#include <functional>

namespace plans {

namespace {

// The rows of a table that a condition on their numbers keeps.
std::string rows(std::string_view text, const std::function<bool(u32)>& keep) {
    std::string out;
    u32 n = 0;
    for (std::size_t at = 0; at < text.size(); ++n) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        if (keep(n)) out.append(text.substr(at, end - at)) += '\n';
        at = end + 1;
    }
    return out;
}

class Writer {
public:
    Writer(Tables& tables, const Alike& alike, i64 period)
        : t_(tables), alike_(alike), period_(period), fold_mb_(t_.world["num_mb"] > 1) {
        for (u32 n = 0; n < t_.ops.size(); ++n) ops_.push_back(stays(t_.ops[n]));
    }

    Kept run() {
        Kept out;
        out.copies = period_;
        mark();
        unit(out.unit);
        talk(out.talk);
        for (u32 n = 0; n < t_.ops.size(); ++n) {
            if (ops_[n]) out.lines.push_back(n + 1);
            if (alike_.communicates(n)) out.talk_lines.push_back(n + 1);
        }
        return out;
    }

private:
    bool first_copies(i64 rank) const { return t_.places.at(rank).copy < period_; }
    bool stays(const Op& op) const {
        if (!first_copies(op.rank)) return false;
        return !fold_mb_ || op.mb == 0 || alike_.is_reducer(op);
    }
    u32 read(u32 row) const {
        const u32 other = fold_mb_ ? alike_.replaced()[row] : none;
        return other == none ? t_.reads[row] : other;
    }

    // Tensors, parts and tensors of the model that are kept.
    void mark() {
        tensors_.assign(t_.tensors.size(), false);
        parts_.assign(t_.parts.size(), false);
        for (u32 row = 0; row < t_.reads.size(); ++row)
            if (ops_[t_.op_of["in"][row]]) tensors_[read(row)] = true;
        for (u32 row = 0; row < t_.makes.size(); ++row)
            if (ops_[t_.op_of["out"][row]]) tensors_[t_.makes[row]] = true;
        for (u32 n = 0; n < t_.tensors.size(); ++n) {
            const Tensor& tensor = t_.tensors[n];
            if (tensor.given && tensor.mb < 0 && tensor.rank >= 0 && first_copies(tensor.rank)) tensors_[n] = true;
            if (!tensors_[n]) continue;
            parts_[tensor.part] = true;
            if (const u32 weight = t_.parts[tensor.part].weight; weight != none) parts_[weight] = true;
        }
        for (u32 row = 0; row < t_.weights.size(); ++row)
            if (ops_[t_.op_of["wred"][row]]) parts_[t_.weights[row]] = true;
    }

    void unit(std::map<std::string, std::string>& out) {
        for (const auto& [name, of] : t_.op_of)
            out[name] = rows(t_.text[name], [&](u32 n) { return ops_[of[n]]; });
        out["op"] = rows(t_.text["op"], [&](u32 n) { return ops_[n]; });
        out["tensor"] = rows(t_.text["tensor"], [&](u32 n) { return tensors_[n]; });
        for (const char* name : {"sub_slice", "sub_val", "grad_of"}) {
            std::vector<bool> keep;
            const auto look = [&](auto& c) {
                const u32 part = t_.parts_named.find(c[1]);
                keep.push_back(part != none && parts_[part]);
            };
            if (name[4] == 's') each_row<6>(t_.text[name], look);
            else if (name[4] == 'v') each_row<4>(t_.text[name], look);
            else each_row<3>(t_.text[name], look);
            out[name] = rows(t_.text[name], [&](u32 n) { return keep[n]; });
        }
        std::vector<bool> fulls(t_.fulls_named.size(), false);
        for (u32 n = 0; n < parts_.size(); ++n)
            if (parts_[n]) fulls[t_.parts[n].full] = true;
        out["full"] = rows(t_.text["full"], [&](u32 n) { return fulls[n]; });
        inputs(out["in"]);
        places(out["mesh"], out["world"]);
    }

    // What reducers read is replaced.
    void inputs(std::string& out) {
        if (!fold_mb_) return;
        out.clear();
        u32 row = 0;
        each_row<3>(t_.text["in"], [&](auto& c) {
            const u32 n = row++;
            if (!ops_[t_.op_of["in"][n]]) return;
            (((out.append(c[0]) += '\t').append(c[1]) += '\t').append(t_.tensors_named[read(n)])) += '\n';
        });
    }

    void places(std::string& mesh, std::string& world) {
        each_row<5>(t_.text["mesh"], [&](auto& c) {
            if (!first_copies(number(c[1]))) return;
            for (int n = 0; n < 5; ++n) mesh.append(c[static_cast<std::size_t>(n)]) += n < 4 ? '\t' : '\n';
        });
        std::map<std::string, i64> said = t_.world;
        said["plan_ndevs"] = period_ * t_.devices;
        said["written_mb"] = 1;
        for (const auto& [key, value] : said) world += "p\t" + key + "\t" + std::to_string(value) + "\n";
    }

    // What communicates, without what it passes on.
    void talk(std::map<std::string, std::string>& out) {
        for (const char* name : {"coll", "coll_member", "p2p", "attr"}) {
            const auto& of = t_.op_of[name];
            out[name] = rows(t_.text[name], [&](u32 n) { return alike_.communicates(of[n]); });
        }
        out["op"] = rows(t_.text["op"], [&](u32 n) { return alike_.communicates(n); });
        for (const char* name : {"world", "mesh"}) out[name] = t_.text[name];
    }

    Tables& t_;
    const Alike& alike_;
    i64 period_;
    bool fold_mb_;
    std::vector<bool> ops_, tensors_, parts_;
};

}  // namespace

Kept kept(const std::string& directory) {
    Tables tables(directory);
    Alike alike(tables);
    for (i64 period = 1; period <= tables.copies; ++period) {
        if (tables.copies != tables.world["num_dp"] && period < tables.copies) continue;  // in unit form already
        if (period == tables.copies && tables.world["num_mb"] == 1) break;
        if (tables.copies % period == 0 && alike.repeats(period)) return Writer(tables, alike, period).run();
    }
    throw Irregular{};
}

}  // namespace plans
