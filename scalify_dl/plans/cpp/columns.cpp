#include "columns.hpp"

#include "rows.hpp"

namespace plans {

namespace nb = nanobind;

namespace {

nb::object interned(std::string_view text) {
    PyObject* made = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), nullptr);
    if (!made) {
        PyErr_Clear();
        throw Irregular{};
    }
    PyUnicode_InternInPlace(&made);
    return nb::steal(made);
}

// A column while it is read; the text of a row is mostly that of the row before or a new one.
struct Column {
    bool is_number = false;
    std::vector<i64> values;
    nb::list texts;
    std::string_view last;
    nb::object last_text;
};

// Every text once, over all columns.
class Interned {
public:
    nb::object operator()(std::string_view text) {
        const u32 n = found_.add(text);
        if (n == texts_.size()) texts_.push_back(interned(text));
        return texts_[n];
    }

private:
    Texts found_{false};
    std::vector<nb::object> texts_;
};

std::vector<Column> read(std::string_view text, std::size_t width, const nb::tuple& numbers) {
    std::vector<Column> found(width);
    for (nb::handle n : numbers) found.at(nb::cast<std::size_t>(n)).is_number = true;
    Interned intern;
    const char *at = text.data(), *end = at + text.size();
    while (at < end) {
        for (std::size_t n = 0; n < width; ++n) {
            const char* stop = at;
            while (stop < end && *stop != '\t' && *stop != '\n') ++stop;
            must(n + 1 < width ? stop < end && *stop == '\t' : stop == end || *stop == '\n');
            const std::string_view cell(at, static_cast<std::size_t>(stop - at));
            Column& column = found[n];
            if (column.is_number) {
                column.values.push_back(number(cell));
            } else {
                if (!column.last_text.is_valid() || cell != column.last) {
                    column.last_text = intern(cell);
                    column.last = cell;
                }
                column.texts.append(column.last_text);
            }
            at = stop + 1;
        }
    }
    return found;
}

}  // namespace

nb::object columns(nb::bytes text, std::size_t width, const nb::tuple& numbers) {
    try {
        const nb::object array = nb::module_::import_("array").attr("array");
        nb::list out;
        for (Column& column : read({text.c_str(), text.size()}, width, numbers)) {
            if (!column.is_number) {
                out.append(column.texts);
                continue;
            }
            const std::vector<i64>& values = column.values;
            out.append(array("q", nb::bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(i64))));
        }
        return out;
    } catch (const Irregular&) {
        return nb::none();
    }
}

}  // namespace plans
