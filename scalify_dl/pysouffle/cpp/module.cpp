// The extension module scalify_dl.pysouffle._engine: a thin layer over Engine, and over what reads plan tables. What people use is program.py.
#include "../../plans/cpp/bind.hpp"
#include "session.hpp"

namespace dl {

using namespace nb::literals;

namespace {

void translate(const std::exception_ptr& pointer, void*) {
    const auto raise = [](const char* name, nb::args arguments) {
        nb::object type = nb::module_::import_("scalify_dl.pysouffle.errors").attr(name);
        nb::object error = type(*arguments);
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    };
    try {
        std::rethrow_exception(pointer);
    } catch (const SourceError& error) {
        nb::list list;
        for (const Diagnostic& d : error.diagnostics()) list.append(as_python(d));
        raise("SourceError", nb::borrow<nb::args>(nb::make_tuple(list)));
    } catch (const EvaluationError& error) {
        raise("EvaluationError", nb::borrow<nb::args>(nb::make_tuple(std::string(error.what()))));
    }
}

}  // namespace

}  // namespace dl

NB_MODULE(_engine, m) {
    using dl::Session;
    namespace nb = nanobind;
    using namespace nb::literals;
    nb::set_leak_warnings(false);
    plans::bind(m);  // plans that are written out: scalify_dl/plans/cpp
    nb::register_exception_translator(dl::translate);
    nb::class_<Session>(m, "Session", "One program and its relations.")
        .def(nb::init<const std::string&, nb::bytes, const std::vector<std::string>&,
                      const std::vector<std::pair<std::string, std::string>>&, int, bool,
                      const dl::SymbolTuples&, const std::string&, bool>(),
             "name"_a, "text"_a, "include_dirs"_a, "defines"_a, "word_size"_a, "checked"_a, "symbols"_a, "kept"_a = "", "keep"_a = false)
        .def("fresh", [](const Session& session, const dl::SymbolTuples& symbols) {
            return new Session(session, symbols);  // owned by the Python object
        }, "symbols"_a)
        .def("relations", &Session::relations)
        .def("records", &Session::records)
        .def("directives", &Session::directives)
        .def("warnings", &Session::warnings)
        .def("pragmas", &Session::pragmas)
        .def("functors", &Session::functors)
        .def("set_functor", &Session::set_functor)
        .def("insert", &Session::insert)
        .def("insert_array", &Session::insert_array)
        .def("read_file", &Session::read_file)
        .def("read_text", &Session::read_text)
        .def("write_file", &Session::write_file)
        .def("write_text", &Session::write_text)
        .def("run", &Session::run, "timeout"_a, "max_tuples"_a, "max_memory"_a)
        .def("rows", &Session::rows)
        .def("array", &Session::array)
        .def("size", &Session::size)
        .def("symbol", &Session::symbol)
        .def("rule_statistics", &Session::rule_statistics)
        .def("prepare_provenance", &Session::prepare_provenance, "timeout"_a, "max_tuples"_a, "max_memory"_a)
        .def("explain", &Session::explain)
        .def("derivation", &Session::derivation, "wanted"_a, "leaves"_a)
        .def("height", &Session::height)
        .def("contains", &Session::contains)
        .def("why_not", &Session::why_not)
        .def("rules", &Session::rules)
        .def("souffle", &Session::souffle)
        .def("settle", &Session::settle)
        .def("conditions", &Session::conditions)
        .def("rounds", &Session::rounds)
        .def("bytes", &Session::bytes);
}
