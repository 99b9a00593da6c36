#include "python_values.hpp"

#include <algorithm>
#include <limits>

#include "functors.hpp"
#include "text.hpp"

namespace dl {

namespace {

constexpr int kDeepest = 20000;

std::string shown(nb::handle object) {
    const nb::object text = nb::steal(PyObject_Repr(object.ptr()));
    const char* utf8 = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
    if (!utf8) {
        PyErr_Clear();
        return "an object";
    }
    const std::string out = utf8;
    return out.size() > 80 ? out.substr(0, 80) + "…" : out;
}

[[noreturn]] void wrong(const std::string& expected, nb::handle object) {
    throw nb::type_error(("expected " + expected + ", got " + Py_TYPE(object.ptr())->tp_name + " " + shown(object)).c_str());
}

[[noreturn]] void out_of_range(nb::handle object, int word) {
    throw nb::value_error((shown(object) + " does not fit into " + std::to_string(word) + " bits").c_str());
}

}  // namespace

nb::object PythonValues::decode(TypeIndex type, Value value) { return decode(type, value, 0); }

nb::object PythonValues::decode_row(const Relation& relation, const Value* row) {
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(relation.attributes.size())));
    for (std::size_t i = 0; i < relation.attributes.size(); ++i)
        PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), decode(relation.attributes[i].type, row[i], 0).release().ptr());
    return tuple;
}

nb::object PythonValues::fields(const std::vector<Field>& declared, std::vector<Value> values, int depth) {
    nb::object tuple = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(declared.size())));
    for (std::size_t i = 0; i < declared.size(); ++i)
        PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), decode(declared[i].type, i < values.size() ? values[i] : 0, depth + 1).release().ptr());
    return tuple;
}

nb::object PythonValues::decode(TypeIndex index, Value value, int depth) {
    const Type& type = program_.types[static_cast<std::size_t>(index)];
    switch (type.kind) {
        case TypeKind::Number:
            if (db_.formulas && is_formula(value)) return nb::str(db_.formulas->text(value).c_str());
            return nb::steal(PyLong_FromLongLong(value));
        case TypeKind::Unsigned: return nb::steal(PyLong_FromUnsignedLongLong(as_unsigned(value)));
        case TypeKind::Float: return nb::steal(PyFloat_FromDouble(as_float(value)));
        case TypeKind::Symbol: {
            if (!db_.symbols.known(value)) return nb::str("<no symbol>");
            const auto at = static_cast<std::size_t>(value);
            if (symbols_.size() <= at) symbols_.resize(std::max(db_.symbols.size(), at + 1));
            if (!symbols_[at].is_valid()) {
                const std::string_view text = db_.symbols.text(value);
                symbols_[at] = nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
            }
            return symbols_[at];
        }
        default: break;
    }
    if (depth > kDeepest) throw nb::value_error("a record nested more than 20,000 deep");
    if (records_.size() < program_.types.size()) records_.resize(program_.types.size());
    auto& known = records_[static_cast<std::size_t>(index)];
    const auto found = known.find(value);
    if (found != known.end()) return found->second;
    nb::object out;
    if (type.kind == TypeKind::Record) {
        const auto span = db_.records.fields(value);
        out = value == 0 ? nb::object(nb::none()) : fields(type.fields, {span.begin(), span.end()}, depth);
    } else {
        if (!branch_.is_valid()) branch_ = nb::module_::import_("scalify_dl.pysouffle.values").attr("Branch");
        const bool enumeration = Text::is_enumeration(type);
        const auto span = enumeration ? std::span<const Value>() : db_.records.fields(value);
        const Value number = enumeration ? value : span.empty() ? -1 : span[0];
        if (number < 0 || static_cast<std::size_t>(number) >= type.branches.size()) return nb::none();
        const Branch& branch = type.branches[static_cast<std::size_t>(number)];
        std::vector<Value> values;
        if (!span.empty()) values.assign(span.begin() + 1, span.end());
        out = branch_(nb::str(branch.name.c_str()), fields(branch.fields, std::move(values), depth));
    }
    records_[static_cast<std::size_t>(index)].emplace(value, out);
    return out;
}

Value PythonValues::read_formula(nb::handle object) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size);
    if (!text) throw nb::python_error();
    try {
        return db_.formulas->read({text, static_cast<std::size_t>(size)}, facts_);
    } catch (const TextError& error) {
        throw nb::value_error((shown(object) + ": " + error.message).c_str());
    }
}

Value PythonValues::encode(TypeIndex type, nb::handle object) { return encode(type, object, 0); }

Value PythonValues::encode(TypeIndex index, nb::handle object, int depth) {
    const Type& type = program_.types[static_cast<std::size_t>(index)];
    const int word = db_.arithmetic.word_size;
    if (depth > kDeepest) throw nb::value_error("a record nested more than 20,000 deep");
    switch (type.kind) {
        case TypeKind::Number:
        case TypeKind::Unsigned: {
            if (type.kind == TypeKind::Number && db_.formulas && PyUnicode_Check(object.ptr())) return read_formula(object);
            if (!PyIndex_Check(object.ptr())) wrong(type.kind == TypeKind::Number ? "an int" : "an int that is not negative", object);
            const nb::object number = nb::steal(PyNumber_Index(object.ptr()));
            if (type.kind == TypeKind::Number) {
                int overflow = 0;
                const long long value = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
                if (overflow || (word == 32 && value != static_cast<std::int32_t>(value))) out_of_range(object, word);
                if (db_.formulas) SymbolicNumbers::check_plain(value);
                return value;
            }
            const unsigned long long value = PyLong_AsUnsignedLongLong(number.ptr());
            if (PyErr_Occurred()) {
                PyErr_Clear();
                out_of_range(object, word);
            }
            if (word == 32 && value > std::numeric_limits<std::uint32_t>::max()) out_of_range(object, word);
            return static_cast<Value>(value);
        }
        case TypeKind::Float: {
            const double value = PyFloat_AsDouble(object.ptr());
            if (value == -1.0 && PyErr_Occurred()) {
                PyErr_Clear();
                wrong("a float", object);
            }
            return from_float(word == 32 ? static_cast<double>(static_cast<float>(value)) : value);
        }
        case TypeKind::Symbol: {
            if (!PyUnicode_Check(object.ptr())) wrong("a str", object);
            Py_ssize_t size = 0;
            if (const char* text = PyUnicode_AsUTF8AndSize(object.ptr(), &size)) return db_.symbols.intern({text, static_cast<std::size_t>(size)});
            PyErr_Clear();
            const nb::object bytes = nb::steal(PyUnicode_AsEncodedString(object.ptr(), "utf-8", "surrogateescape"));
            if (!bytes.is_valid()) throw nb::python_error();
            return db_.symbols.intern({PyBytes_AS_STRING(bytes.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.ptr()))});
        }
        case TypeKind::Record: {
            if (object.is_none()) return 0;
            if (!PyTuple_Check(object.ptr()) && !PyList_Check(object.ptr())) wrong("a tuple or None for the record type " + type.name, object);
            const nb::object items = nb::steal(PySequence_Fast(object.ptr(), ""));
            const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
            if (count != type.fields.size()) wrong("a tuple of " + std::to_string(type.fields.size()) + " for the record type " + type.name, object);
            std::vector<Value> values;
            for (std::size_t i = 0; i < count; ++i)
                values.push_back(encode(type.fields[i].type, PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), depth + 1));
            return db_.records.pack(values.data(), values.size());
        }
        case TypeKind::Adt: {
            if (!PyTuple_Check(object.ptr()) || PyTuple_GET_SIZE(object.ptr()) != 2 || !PyUnicode_Check(PyTuple_GET_ITEM(object.ptr(), 0)))
                wrong("Branch(name, fields) for the type " + type.name, object);
            const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(object.ptr(), 0));
            if (!text) throw nb::python_error();
            const std::string name = text;
            const auto branch = std::find_if(type.branches.begin(), type.branches.end(), [&](const Branch& b) { return b.name == name; });
            if (branch == type.branches.end()) wrong("a branch of the type " + type.name, object);
            const auto number = static_cast<Value>(branch - type.branches.begin());
            const nb::object items = nb::steal(PySequence_Fast(PyTuple_GET_ITEM(object.ptr(), 1), "the fields of a branch are a tuple"));
            if (!items.is_valid()) throw nb::python_error();
            const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
            if (count != branch->fields.size()) wrong(std::to_string(branch->fields.size()) + " fields for $" + name, object);
            if (Text::is_enumeration(type)) return number;
            std::vector<Value> values{number};
            for (std::size_t i = 0; i < count; ++i)
                values.push_back(encode(branch->fields[i].type, PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), depth + 1));
            return db_.records.pack(values.data(), values.size());
        }
    }
    return 0;
}

void PythonValues::encode_row(const Relation& relation, nb::handle object, std::vector<Value>& out) {
    if (PyUnicode_Check(object.ptr())) wrong("a row (a tuple)", object);
    const nb::object items = nb::steal(PySequence_Fast(object.ptr(), ""));
    if (!items.is_valid()) {
        PyErr_Clear();
        wrong("a row (a tuple)", object);
    }
    const auto count = static_cast<std::size_t>(PySequence_Fast_GET_SIZE(items.ptr()));
    if (count != relation.attributes.size())
        wrong("a row of " + std::to_string(relation.attributes.size()) + " columns for relation " + relation.name, object);
    for (std::size_t i = 0; i < count; ++i)
        out.push_back(encode(relation.attributes[i].type, PySequence_Fast_GET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i)), 0));
}

}  // namespace dl
