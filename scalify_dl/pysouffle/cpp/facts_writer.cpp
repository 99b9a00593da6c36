#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>

#include "facts.hpp"
#include "text.hpp"

namespace dl {

namespace {

constexpr std::size_t kChunk = 1 << 18;

// Hand the text to `take` in chunks; `take` empties it.
void produce(Engine& engine, int relation, const Format& format, const std::function<void(std::string&)>& take) {
    const Relation& declaration = engine.declaration(relation);
    const Text values(engine.program(), engine.database());
    RelationData& data = engine.relation(relation);
    std::string out;
    out.reserve(kChunk + 4096);
    if (format.headers) {
        for (std::size_t i = 0; i < declaration.attributes.size(); ++i) out += (i ? format.delimiter : "") + declaration.attributes[i].name;
        out += '\n';
    }
    std::vector<TypeKind> kinds;
    std::vector<TypeIndex> types;
    for (const Attribute& a : declaration.attributes) {
        types.push_back(a.type);
        kinds.push_back(values.type(a.type).kind);
    }
    const auto write_row = [&](const Value* row) {
        for (std::size_t i = 0; i < types.size(); ++i) {
            if (i > 0) out += format.delimiter;
            const bool quote = format.rfc4180 && kinds[i] >= TypeKind::Symbol;
            if (kinds[i] == TypeKind::Number) {
                append_number(row[i], engine.database(), out);
            } else if (!quote) {
                if (kinds[i] == TypeKind::Symbol) out += engine.database().symbols.text(row[i]);
                else values.write(types[i], row[i], out);
            } else {
                std::string field;
                values.write(types[i], row[i], field, kinds[i] != TypeKind::Symbol);
                out += '"';
                for (const char c : field) {
                    if (c == '"') out += '"';
                    out += c;
                }
                out += '"';
            }
        }
        if (types.empty()) out += "()";
        out += '\n';
        if (out.size() >= kChunk) take(out);
    };
    if (data.eqrel) {
        const std::vector<Value> rows = data.eqrel->rows();
        for (std::size_t i = 0; i < rows.size(); i += 2) write_row(rows.data() + i);
    } else {
        for (const Row row : sorted_rows(data.table, kinds)) write_row(data.table.row(row));
    }
    if (!out.empty()) take(out);
}

}  // namespace

std::string facts_text(Engine& engine, int relation, const Format& format) {
    std::string text;
    produce(engine, relation, format, [&](std::string& chunk) {
        text += chunk;
        chunk.clear();
    });
    return text;
}

void write_facts_file(Engine& engine, int relation, const std::string& file, const Format& format) {
    const std::string draft = file + ".part" + std::to_string(static_cast<long>(::getpid()));
    std::FILE* out = std::fopen(draft.c_str(), "wb");
    const auto fail = [&]() {
        const std::string why = std::strerror(errno);
        if (out) {
            std::fclose(out);
            std::remove(draft.c_str());
        }
        throw EvaluationError("cannot write " + file + ": " + why);
    };
    if (!out) fail();
    produce(engine, relation, format, [&](std::string& chunk) {
        if (std::fwrite(chunk.data(), 1, chunk.size(), out) != chunk.size()) fail();
        chunk.clear();
    });
    const int closed = std::fclose(out);
    out = nullptr;
    if (closed != 0 || std::rename(draft.c_str(), file.c_str()) != 0) {
        const std::string why = std::strerror(errno);
        std::remove(draft.c_str());
        throw EvaluationError("cannot write " + file + ": " + why);
    }
}

}  // namespace dl
