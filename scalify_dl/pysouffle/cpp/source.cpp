#include "source.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_map>

namespace dl {

namespace {

std::vector<Offset> newline_offsets(const std::string& text) {
    std::vector<Offset> result;
    const char* begin = text.data();
    const char* end = begin + text.size();
    for (const char* p = begin; p != end && (p = static_cast<const char*>(std::memchr(p, '\n', end - p))); ++p)
        result.push_back(static_cast<Offset>(p - begin));
    return result;
}

std::string line_of(const Source::File& file, std::uint32_t line) {
    if (file.newlines.empty()) {
        file.newlines = newline_offsets(file.content);
        file.newlines.push_back(static_cast<Offset>(file.content.size()));
    }
    if (line == 0 || line > file.newlines.size()) return {};
    const std::size_t begin = line == 1 ? 0 : file.newlines[line - 2] + 1;
    std::size_t end = file.newlines[line - 1];
    if (end > begin && file.content[end - 1] == '\r') --end;
    return file.content.substr(begin, end - begin);
}

// Columns are shown in characters, not bytes: count the bytes that start one.
int characters(const std::string& line, std::uint32_t byte_column) {
    int result = 1;
    for (std::uint32_t i = 0; i + 1 < byte_column && i < line.size(); ++i)
        result += (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    return result;
}

}  // namespace

std::size_t first_invalid_utf8(std::string_view s) {
    const auto byte = [&](std::size_t i) { return i < s.size() ? static_cast<unsigned char>(s[i]) : 0u; };
    for (std::size_t i = 0; i < s.size();) {
        const unsigned a = byte(i);
        std::size_t length = a < 0x80 ? 1 : a >= 0xC2 && a <= 0xDF ? 2 : a >= 0xE0 && a <= 0xEF ? 3 : a >= 0xF0 && a <= 0xF4 ? 4 : 0;
        if (length == 0) return i;
        for (std::size_t k = 1; k < length; ++k)
            if ((byte(i + k) & 0xC0) != 0x80) return i;
        if ((a == 0xE0 && byte(i + 1) < 0xA0) || (a == 0xED && byte(i + 1) > 0x9F) ||
            (a == 0xF0 && byte(i + 1) < 0x90) || (a == 0xF4 && byte(i + 1) > 0x8F))
            return i;
        i += length;
    }
    return std::string_view::npos;
}

std::string quote(std::string_view name) {
    std::string result = "'";
    result.append(name).append("'");
    return result;
}

void Source::index() { newlines_ = newline_offsets(text); }

Source::Place Source::place(Offset offset) const {
    if (last_begin_ <= offset && offset < last_end_) return {last_.segment, last_.line, last_.column + (offset - last_begin_)};
    auto after = std::upper_bound(segments.begin(), segments.end(), offset,
                                  [](Offset o, const Segment& s) { return o < s.begin; });
    const Segment& segment = *(after == segments.begin() ? after : after - 1);
    if (segment.fixed) return {&segment, segment.line, segment.column};
    auto first = std::lower_bound(newlines_.begin(), newlines_.end(), segment.begin);
    auto last = std::lower_bound(first, newlines_.end(), offset);
    const Offset end = after == segments.end() ? static_cast<Offset>(text.size()) : after->begin;
    last_begin_ = first == last ? segment.begin : *(last - 1) + 1;
    last_end_ = last == newlines_.end() ? end : std::min(end, *last + 1);
    last_ = {&segment, segment.line + static_cast<std::uint32_t>(last - first), first == last ? segment.column : 1};
    return {&segment, last_.line, last_.column + (offset - last_begin_)};
}

Position Source::position(Offset offset) const {
    if (segments.empty()) return {};
    Place p = place(offset);
    Position result;
    result.file = p.segment->reported_file >= 0 ? static_cast<std::int32_t>(files.size()) + p.segment->reported_file
                                                : static_cast<std::int32_t>(p.segment->file);
    result.line = static_cast<std::int32_t>(p.line) + p.segment->line_shift;
    result.column = static_cast<std::int32_t>(p.column);
    return result;
}

std::vector<std::string> Source::file_names() const {
    std::vector<std::string> result;
    for (const File& file : files) result.push_back(file.name);
    result.insert(result.end(), reported_names.begin(), reported_names.end());
    return result;
}

Diagnostic Source::diagnostic(Severity severity, Offset offset, std::string message, std::string hint) const {
    if (segments.empty()) return {severity, "", 0, 0, std::move(message), "", std::move(hint)};
    Place p = place(offset);
    Diagnostic result = diagnostic_in_file(severity, p.segment->file, p.line, p.column, std::move(message),
                                           std::move(hint));
    if (p.segment->reported_file >= 0) result.file = reported_names[p.segment->reported_file];
    result.line += p.segment->line_shift;
    return result;
}

Diagnostic Source::diagnostic_in_file(Severity severity, std::uint32_t file, std::uint32_t line, std::uint32_t column,
                                      std::string message, std::string hint) const {
    std::string source_line = line_of(files[file], line);
    const int shown_column = characters(source_line, column);
    return {severity,           files[file].name,       static_cast<int>(line), shown_column,
            std::move(message), std::move(source_line), std::move(hint)};
}

void Report::error(Offset offset, std::string message, std::string hint) {
    errors_.push_back(source_.diagnostic(Severity::Error, offset, std::move(message), std::move(hint)));
    if (errors_.size() >= kMaxErrors) throw_if_errors();
}

void Report::warning(Offset offset, std::string message, std::string hint) {
    // A program with thousands of warnings is not helped by more of them.
    if (warnings_.size() < 1000)
        warnings_.push_back(source_.diagnostic(Severity::Warning, offset, std::move(message), std::move(hint)));
}

void Report::throw_if_errors() const {
    if (errors_.empty()) return;
    std::vector<Diagnostic> all = errors_;
    // The order of a reader: by place, not by the pass that found it.
    std::unordered_map<std::string, std::size_t> order;  // files as first mentioned
    for (const Diagnostic& d : all) order.emplace(d.file, order.size());
    std::stable_sort(all.begin(), all.end(), [&](const Diagnostic& a, const Diagnostic& b) {
        return std::tuple(order[a.file], a.line, a.column) < std::tuple(order[b.file], b.line, b.column);
    });
    throw SourceError(std::move(all));
}

}  // namespace dl
