// The preprocessed program text, with the way back to the files that it came from.
//
// Everything after the preprocessor speaks of places as offsets into one text (`Offset`, four bytes per
// syntax node). Only when a message or a rule's position is needed is an offset turned into file, line, column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core.hpp"
#include "diagnostic.hpp"

namespace dl {

using Offset = std::uint32_t;

class Source {
public:
    struct File {
        std::string name;     // as reported
        std::string content;  // as read
        mutable std::vector<Offset> newlines;  // filled when a message first shows a line
    };

    // From `begin` on (up to the next segment), the text stands at `line`, `column` (bytes, from 1) of `file`.
    // In a `fixed` segment every offset maps to that one place: it is the expansion of a macro.
    struct Segment {
        Offset begin = 0;
        std::uint32_t file = 0;
        std::uint32_t line = 1;
        std::uint32_t column = 1;
        bool fixed = false;
        std::int32_t reported_file = -1;  // after `#line`: an index into `reported_names`
        std::int32_t line_shift = 0;      // after `#line`: added to the reported line
    };

    std::string text;
    std::vector<File> files;
    std::vector<std::string> reported_names;
    std::vector<Segment> segments;

    // To be called when `text` is complete, before `position`.
    void index();

    Position position(Offset offset) const;
    Diagnostic diagnostic(Severity severity, Offset offset, std::string message, std::string hint = {}) const;
    // The same for a place in a file that is still being preprocessed.
    Diagnostic diagnostic_in_file(Severity severity, std::uint32_t file, std::uint32_t line, std::uint32_t column,
                                  std::string message, std::string hint = {}) const;

    // Names for CoreProgram::files; Position::file indexes them.
    std::vector<std::string> file_names() const;

private:
    struct Place {
        const Segment* segment;
        std::uint32_t line, column;  // physical
    };
    Place place(Offset offset) const;

    std::vector<Offset> newlines_;
    // The line of a segment that was asked for last: most questions are about one clause after the other.
    mutable Place last_{};            // of `last_begin_`
    mutable Offset last_begin_ = 1, last_end_ = 0;
};

// A name within a message: 'name'.
std::string quote(std::string_view name);

// The offset of the first byte that is not UTF-8; npos if there is none.
std::size_t first_invalid_utf8(std::string_view text);

// Collects what is wrong, so that one run reports several errors. Throws once there are too many.
class Report {
public:
    explicit Report(const Source& source) : source_(source) {}

    void error(Offset offset, std::string message, std::string hint = {});
    void warning(Offset offset, std::string message, std::string hint = {});

    std::size_t error_count() const { return errors_.size(); }
    void throw_if_errors() const;
    std::vector<Diagnostic> take_warnings() { return std::move(warnings_); }

private:
    static constexpr std::size_t kMaxErrors = 50;

    const Source& source_;
    std::vector<Diagnostic> errors_, warnings_;
};

}  // namespace dl
