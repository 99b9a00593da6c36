// Tables by column, for Python: lists of texts, arrays of numbers.
#pragma once

#include <nanobind/nanobind.h>

namespace plans {

// The columns of a table with `width` cells a row; those of `numbers` are `array("q")`, texts are interned. None where a
// row has another number of cells, a number is not written plainly or a text is no UTF-8: Python then says where.
nanobind::object columns(nanobind::bytes text, std::size_t width, const nanobind::tuple& numbers);

}  // namespace plans
