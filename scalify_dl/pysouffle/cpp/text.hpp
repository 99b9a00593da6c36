// Values as text: what facts files hold and what output files show.
#pragma once

#include <string>
#include <string_view>

#include "database.hpp"

namespace dl {

// Reading fails with this; `at` is the byte offset in the text that was given.
struct TextError {
    std::string message;
    std::size_t at;
};

class Text {
public:
    Text(const CoreProgram& program, Database& database) : program_(program), db_(database) {}

    // The whole of `text` as a value of the type. Throws TextError.
    Value read(TypeIndex type, std::string_view text);

    // Symbols are written raw at the top and, as Soufflé does, inside records too; `quoted`: as in a program.
    void write(TypeIndex type, Value value, std::string& out, bool quoted = false) const;

    static bool is_enumeration(const Type& type);
    const Type& type(TypeIndex index) const { return program_.types[static_cast<std::size_t>(index)]; }

private:
    Value read_nested(TypeIndex type, std::string_view text, std::size_t& at, int depth);
    Value read_record(const std::vector<Field>& fields, std::string_view text, std::size_t& at, char open, char close, int branch, int depth);
    Value read_number(TypeKind kind, std::string_view text, std::size_t& at);

    const CoreProgram& program_;
    Database& db_;
};

void append_number(Value value, const Database& database, std::string& out);

}  // namespace dl
