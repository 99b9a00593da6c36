// The state that rules work on: symbols, records, relations, and how arithmetic behaves.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core.hpp"
#include "eqrel.hpp"
#include "patterns.hpp"
#include "records.hpp"
#include "symbolic.hpp"
#include "symbols.hpp"
#include "table.hpp"

namespace dl {

struct Arithmetic {
    int word_size = 64;    // 32: numbers wrap (or overflow) at 32 bits, floats have single precision
    bool checked = false;  // an overflow is an error instead of a wrap
};

// A functor that the host provides. Arguments and result are values as the relation columns hold them.
using HostFunctor = std::function<Value(const Value* arguments)>;

struct RelationData {
    explicit RelationData(int arity, std::vector<char> floats = {}) : table(arity, std::move(floats)) {}

    Table table;
    std::unique_ptr<EqRel> eqrel;        // the rows of an eqrel relation; `table` is empty then
    const RelationData* only = nullptr;  // rows that are not in this relation are not taken (explanations)
    std::vector<Index*> choice;          // one index per key of choice-domain, always up to the last row
    std::vector<std::vector<int>> keys;  // columns of each key

    bool contains(const Value* row) const {
        if (eqrel) return eqrel->contains(row[0], row[1]);
        const Row found = table.find(row);
        return found != kNoRow && found < table.visible && !table.dead(found);
    }
    std::size_t rows() const { return eqrel ? eqrel->pairs() : table.alive(); }
    std::size_t bytes() const { return table.bytes() + (eqrel ? eqrel->bytes() : 0); }
};

struct Terms {
    Symbols symbols;
    Records records;
    std::unique_ptr<SymbolicNumbers> formulas;  // none in ordinary runs
};

struct Database {
    explicit Database(std::shared_ptr<Terms> shared) : terms(std::move(shared)), symbols(terms->symbols), records(terms->records), formulas(terms->formulas.get()) {}

    std::shared_ptr<Terms> terms;
    Symbols& symbols;
    Records& records;
    SymbolicNumbers* const formulas;  // may be null
    std::vector<std::shared_ptr<RelationData>> relations;
    std::vector<HostFunctor> functors;  // by CoreProgram::functors; empty where the host gave none
    Arithmetic arithmetic;
    mutable Patterns patterns;

    std::size_t bytes() const {
        std::size_t total = symbols.bytes() + records.bytes();
        for (const auto& relation : relations) total += relation->bytes();
        return total;
    }
};

}  // namespace dl
