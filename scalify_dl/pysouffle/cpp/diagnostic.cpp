#include "diagnostic.hpp"

#include <algorithm>

namespace dl {

namespace {

constexpr std::size_t kWindow = 160;  // characters of a source line that a message shows

bool continues_character(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

}  // namespace

std::string Diagnostic::text() const {
    std::string out;
    if (!file.empty()) {
        out += file;
        if (line > 0) out += ":" + std::to_string(line);
        if (line > 0 && column > 0) out += ":" + std::to_string(column);
        out += ": ";
    }
    out += severity == Severity::Error ? "error: " : "warning: ";
    out += message;
    if (!source_line.empty()) {
        // columns count characters, strings count bytes
        std::size_t at = 0;
        for (int left = column - 1; left > 0 && at < source_line.size(); --left) {
            ++at;
            while (at < source_line.size() && continues_character(source_line[at])) ++at;
        }
        std::size_t begin = at > kWindow / 2 && source_line.size() > kWindow ? at - kWindow / 2 : 0;
        while (begin > 0 && continues_character(source_line[begin])) --begin;
        std::size_t end = std::min(source_line.size(), begin + kWindow);
        while (end < source_line.size() && continues_character(source_line[end])) ++end;
        std::string shown, caret;
        for (std::size_t i = begin; i < end; ++i) {
            const char c = source_line[i];
            const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
            shown += control && c != '\t' ? '?' : c;
            if (i < at && !continues_character(c)) caret += c == '\t' ? '\t' : ' ';
        }
        const std::string head = begin > 0 ? "…" : "", tail = end < source_line.size() ? "…" : "";
        out += "\n  " + head + shown + tail;
        if (column > 0) out += "\n  " + std::string(begin > 0 ? " " : "") + caret + "^";
    }
    if (!hint.empty()) out += "\n  hint: " + hint;
    return out;
}

namespace {

std::string join(const std::vector<Diagnostic>& diagnostics) {
    std::string out;
    for (const Diagnostic& d : diagnostics) {
        if (!out.empty()) out += '\n';
        out += d.text();
    }
    return out;
}

}  // namespace

SourceError::SourceError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(join(diagnostics)), diagnostics_(std::move(diagnostics)) {}

}  // namespace dl
