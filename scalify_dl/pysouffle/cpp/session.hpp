// A program and its relations, as Python sees them: Engine behind Python objects.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "engine.hpp"
#include "provenance.hpp"
#include "python_values.hpp"

namespace dl {

// (name, value, minimum, the symbol that it is below)
using SymbolTuples = std::vector<std::tuple<std::string, Value, Value, std::string>>;

// Text of a program, which may hold bytes that are not UTF-8.
nb::object shown(const std::string& text);
nb::tuple as_python(const Diagnostic& diagnostic);

class Session {
public:
    // the text as bytes: what is not UTF-8 gets its message from the front end
    Session(const std::string& name, nb::bytes text, const std::vector<std::string>& include_dirs,
            const std::vector<std::pair<std::string, std::string>>& defines, int word_size, bool checked,
            const SymbolTuples& symbols, const std::string& kept, bool keep)
        : engine_(make(name, std::string(text.c_str(), text.size()), include_dirs, defines, word_size, kept, keep), Arithmetic{word_size, checked}, declarations(symbols)) {}
    // the same program without facts and functors
    Session(const Session& other, const SymbolTuples& symbols)
        : engine_(other.engine_.prepared(), other.engine_.database().arithmetic, declarations(symbols)) {}

    nb::list relations();
    // The fields of each record type, by its name: (name, type, kind).
    nb::dict records();
    nb::list directives();
    nb::list warnings();
    std::vector<std::pair<std::string, std::string>> pragmas();
    // All rows are converted before the first is added.
    std::size_t insert(int relation, nb::handle rows);
    std::size_t insert_array(int relation, nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows);
    std::size_t read_file(int relation, const std::string& file, const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns);
    std::size_t read_text(int relation, nb::bytes text, const std::string& name, const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns);
    void write_file(int relation, const std::string& file, const std::string& delimiter, bool headers, bool rfc4180);
    nb::bytes write_text(int relation, const std::string& delimiter, bool headers, bool rfc4180);
    void run(double timeout, std::uint64_t max_tuples, std::uint64_t max_memory);
    nb::list rows(int relation);
    // The rows as int64, without a copy: symbols and records by identity, unsigned and float by their bits.
    nb::object array(int relation);
    std::size_t size(int relation);
    nb::object symbol(Value value);
    void set_functor(const std::string& name, nb::callable callable);
    nb::list functors();
    nb::list rule_statistics();
    // What explain() needs, unless it is there already.
    void prepare_provenance(double timeout, std::uint64_t max_tuples, std::uint64_t max_memory);
    // Nodes: (kind, relation, row, rule or -1, bindings, premises, conditions); and the node of each row asked for, or -1.
    nb::tuple explain(int relation, nb::handle rows);
    // One proof of these rows by relation, without premises of the relations in `leaves`: see derivation.hpp.
    nb::tuple derivation(const std::vector<std::pair<int, nb::list>>& wanted, const std::vector<int>& leaves);
    int height(int relation, nb::handle row);
    bool contains(int relation, nb::handle row);
    // (rule, literal, reason, bindings, relation of the nearest rows or -1, nearest rows)
    nb::list why_not(int relation, nb::handle row);
    // (relation, text, file, line) of every rule
    nb::list rules();
    // The program for the real Soufflé, and the name of each relation in it.
    nb::tuple souffle(const std::vector<bool>& given);
    // Take the facts that were added into the relations, without running any rule.
    void settle();
    // Of one proof of the rows of some relations: (kind, left, right, text, file, line of the rule that asked).
    // Needs symbols and prepare_provenance().
    nb::list conditions(const std::vector<std::pair<int, nb::list>>& wanted);
    std::uint64_t rounds();
    std::size_t bytes();

private:
    // Relations change while rules run: another thread, or a functor, has to wait.
    class Running {
    public:
        explicit Running(Session& session) : session_(session) {
            session.idle();
            session.running_ = true;
        }
        ~Running() { session_.running_ = false; }
        Running(const Running&) = delete;
        Running& operator=(const Running&) = delete;

    private:
        Session& session_;
    };
    void idle() const {
        if (running_) throw EvaluationError("the program is running: its relations can be used when the run has ended");
    }
    // The host computes on numbers and texts, not on formulas.
    Value at_point(TypeIndex type, Value value);
    std::vector<Value> encode_row(int relation, nb::handle row);
    std::vector<Rows> encode_rows(const std::vector<std::pair<int, nb::list>>& given);
    nb::list bindings(PythonValues& decode, int rule, const std::vector<std::pair<int, Value>>& bound);
    static std::vector<SymbolDeclaration> declarations(const SymbolTuples& symbols);
    static std::shared_ptr<const Prepared> make(const std::string& name, const std::string& text, const std::vector<std::string>& include_dirs,
                                                const std::vector<std::pair<std::string, std::string>>& defines, int word_size,
                                                const std::string& kept, bool keep);
    Engine engine_;
    std::unique_ptr<Provenance> provenance_;
    bool running_ = false;  // changed with the GIL held
};

}  // namespace dl
