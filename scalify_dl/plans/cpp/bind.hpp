// What Python calls.
#pragma once

#include <nanobind/nanobind.h>

namespace plans {

void bind(nanobind::module_& m);

}  // namespace plans
