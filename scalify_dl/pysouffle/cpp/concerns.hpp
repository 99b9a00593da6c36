// Rules of a recursion that new rows cannot concern: they need not be run.
//
// A relation that gets a few rows a round, through thousands of rounds, may be read by a hundred rules, most of which
// find nothing: another relation that they read does not hold the row's value. So for each value it is noted which
// rules find it there.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "database.hpp"
#include "flat.hpp"

namespace dl {

class Concerns {
public:
    struct Reader {
        const FlatRule* rule;
        int literal;  // in its body: the atom that ranges over the delta
    };

    // Of the rules that read `relation`, in their order. `recursive`: by relation, is it in the stratum at work?
    Concerns(const CoreProgram& program, const Database& database, int relation, const std::vector<Reader>& readers,
           const std::vector<char>& recursive);

    // From now on it is the delta of this table that rules are asked about, as relations are now.
    void look(const Table& table);

    bool of(std::size_t reader) const { return found_[reader / 64] >> reader % 64 & 1; }

private:
    struct Question {  // that a reader asks of a value in a column of the delta: is it in another table?
        std::size_t reader, column;
        const Table* table;
        int at;                                        // in this column
        std::vector<std::pair<int, Value>> constants;  // beside these in others
        Row seen = 0;                                  // rows before this one are noted
    };
    struct Column {  // of the delta
        std::vector<std::uint32_t> sets;    // by value: which set of readers finds it
        std::vector<std::uint64_t> others;  // readers that ask nothing of it
    };
    void ask(const CoreProgram& program, const Database& database, int relation, std::size_t number,
             const Reader& reader, const std::vector<char>& recursive);
    void catch_up(Question& question);
    std::uint32_t with(std::uint32_t set, std::size_t reader);

    std::size_t words_;
    std::vector<std::uint64_t> found_;                 // a bit each, as in all sets
    std::vector<std::vector<std::uint64_t>> readers_;  // by set; the first is empty
    std::map<std::vector<std::uint64_t>, std::uint32_t> numbers_;
    std::vector<Column> columns_;
    std::vector<Question> growing_;                       // on relations of the stratum at work
};

}  // namespace dl
