// Splits program text into tokens.
#pragma once

#include <vector>

#include "source.hpp"
#include "token.hpp"

namespace dl {

// Every lexical error (unterminated string or comment, stray character) goes to `report`; the last token is Tok::End.
std::vector<Token> tokenize(const Source& source, Report& report);

// The value of a string literal (the text between the quotes): escapes resolved, unknown ones reported.
std::string unescape(std::string_view literal, Offset begin, Report& report);

}  // namespace dl
