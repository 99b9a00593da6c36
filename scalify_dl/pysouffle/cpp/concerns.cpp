#include "concerns.hpp"

#include <algorithm>

namespace dl {

Concerns::Concerns(const CoreProgram& program, const Database& database, int relation, const std::vector<Reader>& readers,
               const std::vector<char>& recursive)
    : words_(readers.size() / 64 + 1), found_(words_), readers_(1, std::vector<std::uint64_t>(words_)) {
    columns_.resize(program.relations[static_cast<std::size_t>(relation)].attributes.size());
    for (Column& column : columns_) column.others.assign(words_, ~std::uint64_t{0});
    for (std::size_t number = 0; number < readers.size(); ++number)
        ask(program, database, relation, number, readers[number], recursive);
}

// By each column of the delta, the smallest relation that must hold its value; those that may grow count as larger.
void Concerns::ask(const CoreProgram& program, const Database& database, int relation, std::size_t number,
                   const Reader& reader, const std::vector<char>& recursive) {
    constexpr double kGrowing = 8;
    const std::vector<Attribute>& attributes = program.relations[static_cast<std::size_t>(relation)].attributes;
    const FlatRule& rule = *reader.rule;
    const auto constant = [&](Register r) {
        return std::find_if(rule.constants.begin(), rule.constants.end(), [&](const auto& c) { return c.first == r; });
    };
    const std::vector<Register>& args = rule.body[static_cast<std::size_t>(reader.literal)].args;
    for (std::size_t column = 0; column < args.size(); ++column) {
        const TypeKind kind = program.types[static_cast<std::size_t>(attributes[column].type)].kind;
        if (kind != TypeKind::Symbol && kind != TypeKind::Record) continue;  // the values of others are not dense
        if (args[column] == kUnnamed || constant(args[column]) != rule.constants.end()) continue;
        const FlatLiteral* best = nullptr;
        double least = 0;
        for (const FlatLiteral& literal : rule.body) {
            if (literal.kind != FlatLiteral::Kind::Atom || literal.relation == relation) continue;
            if (std::find(literal.args.begin(), literal.args.end(), args[column]) == literal.args.end()) continue;
            const RelationData& data = *database.relations[static_cast<std::size_t>(literal.relation)];
            const double size = data.table.visible * (recursive[static_cast<std::size_t>(literal.relation)] ? kGrowing : 1);
            if (!data.eqrel && (!best || size < least)) best = &literal, least = size;
        }
        if (!best) continue;
        const Table& table = database.relations[static_cast<std::size_t>(best->relation)]->table;
        const auto at = std::find(best->args.begin(), best->args.end(), args[column]) - best->args.begin();
        Question question{number, column, &table, static_cast<int>(at), {}};
        for (int i = 0; i < table.arity(); ++i) {
            const auto known = constant(best->args[static_cast<std::size_t>(i)]);
            if (known != rule.constants.end() && !table.is_float(i)) question.constants.emplace_back(i, known->second);
        }
        columns_[column].others[number / 64] &= ~(std::uint64_t{1} << number % 64);
        catch_up(question);
        if (recursive[static_cast<std::size_t>(best->relation)]) growing_.push_back(std::move(question));
    }
}

void Concerns::catch_up(Question& question) {
    std::vector<std::uint32_t>& sets = columns_[question.column].sets;
    std::vector<std::uint32_t> next;  // by set: the one with this reader, too
    for (; question.seen < question.table->visible; ++question.seen) {
        const Value* values = question.table->row(question.seen);
        const auto differs = [&](const std::pair<int, Value>& constant) { return values[constant.first] != constant.second; };
        if (std::any_of(question.constants.begin(), question.constants.end(), differs)) continue;
        const auto value = static_cast<std::size_t>(values[question.at]);
        if (value >= sets.size()) sets.resize(std::max(value + 1, sets.size() * 2));
        std::uint32_t& set = sets[value];
        if (set >= next.size()) next.resize(set + 1);
        if (next[set] == 0) next[set] = with(set, question.reader);
        set = next[set];
    }
}

std::uint32_t Concerns::with(std::uint32_t set, std::size_t reader) {
    std::vector<std::uint64_t> more = readers_[set];
    more[reader / 64] |= std::uint64_t{1} << reader % 64;
    const auto [known, added] = numbers_.try_emplace(more, static_cast<std::uint32_t>(readers_.size()));
    if (added) readers_.push_back(std::move(more));
    return known->second;
}

void Concerns::look(const Table& table) {
    for (Question& question : growing_) catch_up(question);
    std::fill(found_.begin(), found_.end(), 0);
    for (Row row = table.delta_begin; row < table.visible; ++row) {
        const Value* values = table.row(row);
        for (std::size_t word = 0; word < words_; ++word) {
            std::uint64_t found = ~std::uint64_t{0};
            for (std::size_t column = 0; column < columns_.size(); ++column) {
                const auto value = static_cast<std::size_t>(values[column]);
                const Column& asked = columns_[column];
                found &= asked.others[word] | (value < asked.sets.size() ? readers_[asked.sets[value]][word] : 0);
            }
            found_[word] |= found;
        }
    }
}

}  // namespace dl
