#include "bind.hpp"

#include <nanobind/stl/string.h>

#include "columns.hpp"
#include "kept.hpp"

namespace plans {

namespace nb = nanobind;

namespace {

nb::dict as_python(const std::map<std::string, std::string>& tables) {
    nb::dict out;
    for (const auto& [name, text] : tables) out[name.c_str()] = nb::bytes(text.data(), text.size());
    return out;
}

nb::list as_python(const std::vector<u32>& lines) {
    nb::list out;
    for (const u32 line : lines) out.append(line);
    return out;
}

// (copies, (tables, lines of ops) in unit form, (tables, lines of ops) of what communicates), or None.
nb::object repeated(const std::string& directory) {
    try {
        const Kept found = kept(directory);
        return nb::make_tuple(found.copies, nb::make_tuple(as_python(found.unit), as_python(found.lines)),
                              nb::make_tuple(as_python(found.talk), as_python(found.talk_lines)));
    } catch (const Irregular&) {
        return nb::none();
    }
}

}  // namespace

void bind(nb::module_& m) {
    m.def("repeated_plan", &repeated);
    m.def("table_columns", &columns);
}

}  // namespace plans
