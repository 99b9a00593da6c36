#include "subsumption.hpp"

#include "engine.hpp"

namespace dl {

void Engine::remove_dominated(int relation) {
    Table& table = this->relation(relation).table;
    for (const Row row : dominated_) table.kill(row);
    dominated_.clear();
}

// Facts and what rules outside the recursion gave: what is dominated by any other of these rows goes.
void Engine::subsume_given(const Stratum& stratum) {
    for (const int r : stratum.relations) {
        for_each_subsumption(stratum, r, [&](int rule) { run_version(rule, -1, false); });
        remove_dominated(r);
    }
}

// A coming row goes if another coming row dominates it or one from before. Those that stay remove what they dominate,
// one subsumption rule after the other; so do rows that came to other relations which its body reads.
void Engine::subsume_coming(const Stratum& stratum) {
    for (const int r : stratum.relations) {
        for_each_subsumption(stratum, r, [&](int rule) { run_version(rule, 0, false); });
        remove_dominated(r);
        for_each_subsumption(stratum, r, [&](int rule) {
            const std::vector<int>& atoms = atoms_of(rule);
            for (std::size_t k = 1; k < atoms.size(); ++k)
                if (in_stratum_[static_cast<std::size_t>(atoms[k])]) run_version(rule, static_cast<int>(k), false);
            remove_dominated(r);
        });
    }
}

}  // namespace dl
