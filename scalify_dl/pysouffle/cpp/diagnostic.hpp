// What the engine says when something is wrong: one type for every stage, so that every message has
// the same shape (file:line:column, the source line, a caret, a hint).
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace dl {

enum class Severity { Error, Warning };

struct Diagnostic {
    Severity severity = Severity::Error;
    std::string file;         // as the user named it; empty when there is none
    int line = 0;             // 1-based; 0 when there is none
    int column = 0;           // 1-based, in characters; 0 when there is none
    std::string message;      // one sentence: what is wrong
    std::string source_line;  // the text of that line, without its newline
    std::string hint;         // how to fix it; may be empty

    // "file:line:column: error: message", the source line, a caret, the hint. A very long source line
    // is cut to a window around the column.
    std::string text() const;
};

// Bad program text or bad facts. `what()` is the text of all diagnostics.
class SourceError : public std::runtime_error {
public:
    explicit SourceError(std::vector<Diagnostic> diagnostics);
    explicit SourceError(Diagnostic diagnostic) : SourceError(std::vector<Diagnostic>{std::move(diagnostic)}) {}

    const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

private:
    std::vector<Diagnostic> diagnostics_;
};

// A run that cannot go on: a guard, an arithmetic error in checked mode, a functor that failed.
class EvaluationError : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

}  // namespace dl
