// The core program as text for the real Soufflé: flat, names without dots, our join orders as `.plan`.
#pragma once

#include <string>
#include <vector>

#include "engine.hpp"

namespace dl {

// The name of a relation in that text; also the base name of its facts and output files.
std::vector<std::string> souffle_names(const CoreProgram& program);

// `given`: relations that have facts to read. Every declared relation is written out; generated ones are not.
std::string souffle_text(Engine& engine, const std::vector<char>& given);

}  // namespace dl
