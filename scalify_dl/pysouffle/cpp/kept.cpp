#include "kept.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "archive.hpp"
#include "slots.hpp"

namespace dl {

// ---------------------------------------------------------------- what a program consists of

template <class A>
void fields(A& a, typename A::template Of<Position>& v) {
    a(v.file, v.line, v.column);
}
template <class A>
void fields(A& a, typename A::template Of<Field>& v) {
    a(v.name, v.type);
}
template <class A>
void fields(A& a, typename A::template Of<Branch>& v) {
    a(v.name, v.fields);
}
template <class A>
void fields(A& a, typename A::template Of<Type>& v) {
    a(v.kind, v.name, v.fields, v.branches, v.text);
}
template <class A>
void fields(A& a, typename A::template Of<Term>& v) {
    a(v.kind, v.type, v.from, v.op, v.type_index, v.variable, v.branch, v.functor, v.number, v.text, v.args, v.position);
}
template <class A>
void fields(A& a, typename A::template Of<Atom>& v) {
    a(v.relation, v.args, v.position);
}
template <class A>
void fields(A& a, typename A::template Of<Literal>& v) {
    a(v.kind, v.atom, v.compare, v.type, v.left, v.right, v.aggregate, v.result, v.target, v.body, v.position);
}
template <class A>
void fields(A& a, typename A::template Of<Variable>& v) {
    a(v.name, v.type);
}
template <class A>
void fields(A& a, typename A::template Of<Rule>& v) {
    a(v.kind, v.head, v.body, v.variables, v.plan, v.text, v.position);
}
template <class A>
void fields(A& a, typename A::template Of<Attribute>& v) {
    a(v.name, v.type);
}
template <class A>
void fields(A& a, typename A::template Of<Relation>& v) {
    a(v.name, v.attributes, v.eqrel, v.choice, v.qualifiers, v.position);
}
template <class A>
void fields(A& a, typename A::template Of<Directive>& v) {
    a(v.kind, v.relation, v.parameters, v.position);
}
template <class A>
void fields(A& a, typename A::template Of<Functor>& v) {
    a(v.name, v.parameters, v.result, v.stateful, v.position);
}
template <class A>
void fields(A& a, typename A::template Of<Diagnostic>& v) {
    a(v.severity, v.file, v.line, v.column, v.message, v.source_line, v.hint);
}
template <class A>
void fields(A& a, typename A::template Of<CoreProgram>& v) {  // without its rules
    a(v.files, v.types, v.relations, v.functors, v.directives, v.pragmas, v.warnings);
}
template <class A>
void fields(A& a, typename A::template Of<Stratum>& v) {
    a(v.relations, v.rules, v.subsumptions, v.recursive, v.monotone, v.positive, v.other);
}
template <class A>
void fields(A& a, typename A::template Of<RuleOutline>& v) {
    a(v.head, v.atoms);
}
template <class A>
void fields(A& a, typename A::template Of<Outline>& v) {
    a(v.strata, v.rules, v.side_effects);
}
template <class A>
void fields(A& a, typename A::template Of<SourceOptions>& v) {
    a(v.name, v.text, v.include_dirs, v.defines, v.word_size);
}

namespace {

constexpr std::string_view kMagic = "scalify-dl compiled rules 1\n";

// ---------------------------------------------------------------- files

std::optional<std::string> read_file(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return std::nullopt;
    struct stat status {};
    std::string content;
    bool good = ::fstat(file, &status) == 0 && S_ISREG(status.st_mode);
    if (good) content.resize(static_cast<std::size_t>(status.st_size));
    for (std::size_t at = 0; good && at < content.size();) {
        const ssize_t read = ::read(file, content.data() + at, content.size() - at);
        good = read > 0;
        at += good ? static_cast<std::size_t>(read) : 0;
    }
    ::close(file);
    return good ? std::optional(std::move(content)) : std::nullopt;
}

std::uint64_t checksum(std::string_view bytes) {
    std::uint64_t lanes[4] = {bytes.size(), 1, 2, 3};
    std::size_t at = 0;
    for (; at + 32 <= bytes.size(); at += 32)
        for (int lane = 0; lane < 4; ++lane) {
            std::uint64_t word;
            std::memcpy(&word, bytes.data() + at + 8 * lane, 8);
            lanes[lane] = mix(lanes[lane], word);
        }
    for (; at < bytes.size(); ++at) lanes[0] = mix(lanes[0], static_cast<unsigned char>(bytes[at]));
    return mix(mix(mix(lanes[0], lanes[1]), lanes[2]), lanes[3]);
}

// The checksum of this module's own file: another engine may compile otherwise. 0 where it cannot be told.
std::uint64_t engine() {
    Dl_info info;
    if (::dladdr(reinterpret_cast<const void*>(&checksum), &info) == 0 || !info.dli_fname) return 0;
    const std::optional<std::string> content = read_file(info.dli_fname);
    return content ? checksum(*content) : 0;
}

// Does the file system still answer as it did?
bool same(const FileLookup& lookup, std::string_view content) {
    std::error_code ignored;
    if (!lookup.read) return std::filesystem::is_regular_file(lookup.path, ignored) == lookup.found;
    const std::optional<std::string> now = read_file(lookup.path);
    return now && *now == content;
}

std::shared_ptr<const Prepared> from_file(const SourceOptions& options, const std::string& kept, std::uint64_t engine) {
    std::optional<std::string> content = read_file(kept);
    if (!content || content->compare(0, kMagic.size(), kMagic) != 0 || content->size() < kMagic.size() + 8) return nullptr;
    const auto bytes = std::make_shared<const std::string>(std::move(*content));
    std::uint64_t sum;
    std::memcpy(&sum, bytes->data() + kMagic.size(), 8);
    const std::string_view rest = std::string_view(*bytes).substr(kMagic.size() + 8);
    if (checksum(rest) != sum) return nullptr;
    Reader in(rest);
    std::uint64_t by = 0;
    SourceOptions of;
    std::size_t lookups = 0;
    in(by, of, lookups);
    if (by != engine || of.name != options.name || of.text != options.text || of.include_dirs != options.include_dirs ||
        of.defines != options.defines || of.word_size != options.word_size)
        return nullptr;
    for (; lookups > 0; --lookups) {
        FileLookup lookup;
        in(lookup.path, lookup.found, lookup.read);
        if (!same(lookup, in.text())) return nullptr;
    }
    auto prepared = std::make_shared<Prepared>();
    in(prepared->program, prepared->outline);
    std::vector<std::string_view> rules(prepared->outline.rules.size());
    for (std::string_view& rule : rules) rule = in.text();
    if (!in.at_end()) return nullptr;
    const std::size_t count = rules.size();
    prepared->program.rules = Rules(count, [bytes, rules = std::move(rules)](std::size_t index) {
        Rule rule;
        Reader in(rules[index]);
        in(rule);
        return rule;
    });
    return prepared;
}

void to_file(const SourceOptions& options, const std::vector<FileLookup>& lookups, const Prepared& prepared, const std::string& kept, std::uint64_t engine) {
    Writer out;
    out(engine, options, lookups.size());
    for (const FileLookup& lookup : lookups) out(lookup.path, lookup.found, lookup.read, lookup.content);
    out(prepared.program, prepared.outline);
    for (const Rule& rule : prepared.program.rules) {
        Writer one;
        one(rule);
        out(one.bytes);
    }
    const std::uint64_t sum = checksum(out.bytes);
    const std::filesystem::path path(kept), draft(kept + "." + std::to_string(::getpid()));
    std::error_code failed;
    std::filesystem::create_directories(path.parent_path(), failed);
    std::ofstream file(draft, std::ios::binary);
    file.write(kMagic.data(), static_cast<std::streamsize>(kMagic.size()));
    file.write(reinterpret_cast<const char*>(&sum), 8);
    file.write(out.bytes.data(), static_cast<std::streamsize>(out.bytes.size()));
    file.close();
    if (file) std::filesystem::rename(draft, path, failed);
    if (!file || failed) std::filesystem::remove(draft, failed);  // the next run compiles again
}

}  // namespace

std::shared_ptr<const Prepared> prepare(const SourceOptions& options, const std::string& kept, bool keep) {
    const std::uint64_t engine = kept.empty() ? 0 : dl::engine();
    if (engine != 0) {
        try {
            if (auto found = from_file(options, kept, engine)) return found;
        } catch (const std::runtime_error&) {  // it holds something else
        }
    }
    auto prepared = std::make_shared<Prepared>();
    std::vector<FileLookup> lookups;
    prepared->program = compile_source(options, &lookups);
    prepared->outline = outline(prepared->program);
    if (engine != 0 && keep) to_file(options, lookups, *prepared, kept, engine);
    return prepared;
}

}  // namespace dl
