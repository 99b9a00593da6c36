// Values as Python objects and back: number and unsigned are int, float is float, symbol is str, a record is a tuple (nil
// is None), an ADT value is a values.Branch(name, fields).
#pragma once

#include <nanobind/nanobind.h>

#include <unordered_map>
#include <vector>

#include "engine.hpp"

namespace dl {

namespace nb = nanobind;

class PythonValues {  // needs the GIL
public:
    // `facts`: what is encoded is given as a fact, not asked about.
    PythonValues(const CoreProgram& program, Database& database, bool facts = false) : program_(program), db_(database), facts_(facts) {}

    nb::object decode(TypeIndex type, Value value);
    nb::object decode_row(const Relation& relation, const Value* row);

    // Throws nb::type_error or nb::value_error: what was expected and what came.
    Value encode(TypeIndex type, nb::handle object);
    // Throws also when the number of columns is not the relation's.
    void encode_row(const Relation& relation, nb::handle object, std::vector<Value>& out);

private:
    nb::object decode(TypeIndex type, Value value, int depth);
    Value encode(TypeIndex type, nb::handle object, int depth);
    Value read_formula(nb::handle object);
    nb::object fields(const std::vector<Field>& fields, std::vector<Value> values, int depth);

    const CoreProgram& program_;
    Database& db_;
    bool facts_;
    std::vector<nb::object> symbols_;
    std::vector<std::unordered_map<Value, nb::object>> records_;  // by type
    nb::object branch_;
};

}  // namespace dl
