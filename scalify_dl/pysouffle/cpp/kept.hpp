// A compiled program kept in a file, as Python keeps its modules: the rules that ship are parsed and checked once.
//
// The file holds all that compiling had read: the options, and every file that was looked for, with its text. It is
// used only where all of these are the same now, byte for byte, and where the engine is the same file; what is
// truncated or altered does not have its checksum. As with Python's, who may write it may as well write the rules.
#pragma once

#include <memory>
#include <string>

#include "core.hpp"
#include "outline.hpp"

namespace dl {

// The program, from the file if that can be had. `keep`: else compile it and write the file, if that can be written.
// Throws SourceError, as compile_source().
std::shared_ptr<const Prepared> prepare(const SourceOptions& options, const std::string& kept, bool keep);

}  // namespace dl
