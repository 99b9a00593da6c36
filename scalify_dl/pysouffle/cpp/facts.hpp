// Reading and writing relations as delimited text, in Soufflé's formats.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine.hpp"

namespace dl {

struct Format {
    std::string delimiter = "\t";
    bool headers = false;
    bool rfc4180 = false;
    std::vector<int> columns;  // reading: columns[i] is the attribute that file column i fills, -1: none; empty: in order
};

// Add the rows in `text` to a relation. `file` is for messages. Throws SourceError at file:line:column, before any row of
// the text has been added.
std::size_t read_facts(Engine& engine, int relation, std::string_view text, const std::string& file, const Format& format);
std::size_t read_facts_file(Engine& engine, int relation, const std::string& file, const Format& format);

// All rows, in numeric order of their columns.
std::string facts_text(Engine& engine, int relation, const Format& format);

// The same to a file: written beside it under another name first, then renamed. Throws EvaluationError.
void write_facts_file(Engine& engine, int relation, const std::string& file, const Format& format);

// Row numbers of a table in numeric order of their columns, by the attributes' types.
std::vector<Row> sorted_rows(const Table& table, const std::vector<TypeKind>& kinds);

// The offset of the first byte that is not UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text);

}  // namespace dl
