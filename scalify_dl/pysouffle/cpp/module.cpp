// The extension module scalify_dl.pysouffle._engine: a thin layer over Engine. What people use is program.py.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>

#include "conditions.hpp"
#include "core.hpp"
#include "derivation.hpp"
#include "engine.hpp"
#include "facts.hpp"
#include "functors.hpp"
#include "provenance.hpp"
#include "python_values.hpp"
#include "souffle_text.hpp"
#include "text.hpp"
#include "why_not.hpp"

namespace dl {

using namespace nb::literals;

namespace {

using Clock = std::chrono::steady_clock;

// Signals are looked at some times a second: taking the GIL is not free.
std::function<void()> interrupt_check() {
    return [last = Clock::now()]() mutable {
        const auto now = Clock::now();
        if (now - last < std::chrono::milliseconds(50)) return;
        last = now;
        nb::gil_scoped_acquire gil;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    };
}

// the line at fault may be at fault for not being UTF-8
nb::object shown(const std::string& text) {
    return nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::tuple diagnostic_tuple(const Diagnostic& d) {
    return nb::make_tuple(d.severity == Severity::Error ? "error" : "warning", shown(d.file), d.line, d.column, shown(d.message),
                          shown(d.source_line), shown(d.hint), shown(d.text()));
}

void translate(const std::exception_ptr& pointer, void*) {
    const auto raise = [](const char* name, nb::args arguments) {
        nb::object type = nb::module_::import_("scalify_dl.pysouffle.errors").attr(name);
        nb::object error = type(*arguments);
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
    };
    try {
        std::rethrow_exception(pointer);
    } catch (const SourceError& error) {
        nb::list list;
        for (const Diagnostic& d : error.diagnostics()) list.append(diagnostic_tuple(d));
        raise("SourceError", nb::borrow<nb::args>(nb::make_tuple(list)));
    } catch (const EvaluationError& error) {
        raise("EvaluationError", nb::borrow<nb::args>(nb::make_tuple(std::string(error.what()))));
    }
}

Format make_format(const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns) {
    return Format{delimiter, headers, rfc4180, columns};
}

const char* kind_name(TypeKind kind) {
    constexpr const char* names[] = {"number", "unsigned", "float", "symbol", "record", "adt"};
    return names[static_cast<int>(kind)];
}

class Session {
public:
    // the text as bytes: what is not UTF-8 gets its message from the front end
    Session(const std::string& name, nb::bytes text, const std::vector<std::string>& include_dirs,
            const std::vector<std::pair<std::string, std::string>>& defines, int word_size, bool checked,
            const std::vector<std::tuple<std::string, Value, Value, std::string>>& symbols)
        : engine_(make(name, std::string(text.c_str(), text.size()), include_dirs, defines, word_size), Arithmetic{word_size, checked}, declarations(symbols)) {}

    // the same program without facts and functors
    Session(const Session& other, const std::vector<std::tuple<std::string, Value, Value, std::string>>& symbols)
        : engine_(other.engine_.program(), other.engine_.database().arithmetic, declarations(symbols)) {}

    nb::list relations() {
        nb::list out;
        for (const Relation& relation : engine_.program().relations) {
            nb::list attributes;
            for (const Attribute& a : relation.attributes) {
                const Type& type = engine_.program().types[static_cast<std::size_t>(a.type)];
                attributes.append(nb::make_tuple(a.name, type.name, kind_name(type.kind)));
            }
            out.append(nb::make_tuple(relation.name, attributes, relation.eqrel));
        }
        return out;
    }

    nb::list directives() {
        nb::list out;
        for (const Directive& d : engine_.program().directives) {
            constexpr const char* names[] = {"input", "output", "printsize", "limitsize"};
            nb::dict parameters;
            for (const auto& [key, value] : d.parameters) parameters[nb::str(key.c_str())] = value;
            const std::string file = d.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(d.position.file)] : "";
            out.append(nb::make_tuple(names[static_cast<int>(d.kind)], d.relation, parameters, file, d.position.line, d.position.column));
        }
        return out;
    }

    nb::list warnings() {
        nb::list out;
        for (const Diagnostic& d : engine_.program().warnings) out.append(diagnostic_tuple(d));
        return out;
    }

    std::vector<std::pair<std::string, std::string>> pragmas() { return engine_.program().pragmas; }

    // All rows are converted before the first is added.
    std::size_t insert(int relation, nb::handle rows) {
        idle();
        const Relation& declaration = engine_.declaration(relation);
        PythonValues values(engine_.program(), engine_.database(), true);
        std::vector<Value> encoded;
        std::size_t count = 0;
        for (nb::handle row : rows) {
            values.encode_row(declaration, row, encoded);
            ++count;
        }
        for (std::size_t i = 0; i < count; ++i) engine_.add_fact(relation, encoded.data() + i * declaration.attributes.size());
        return count;
    }

    std::size_t insert_array(int relation, nb::ndarray<const std::int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu> rows) {
        idle();
        const Relation& declaration = engine_.declaration(relation);
        if (rows.shape(1) != declaration.attributes.size()) throw nb::value_error("the array's second dimension is not the number of columns");
        if (engine_.database().formulas)
            for (std::size_t i = 0; i < rows.size(); ++i) SymbolicNumbers::check_plain(rows.data()[i]);
        for (std::size_t i = 0; i < rows.shape(0); ++i) engine_.add_fact(relation, rows.data() + i * rows.shape(1));
        return rows.shape(0);
    }

    std::size_t read_file(int relation, const std::string& file, const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns) {
        const Running running(*this);
        nb::gil_scoped_release release;
        return read_facts_file(engine_, relation, file, make_format(delimiter, headers, rfc4180, columns));
    }

    std::size_t read_text(int relation, nb::bytes text, const std::string& name, const std::string& delimiter, bool headers, bool rfc4180, const std::vector<int>& columns) {
        idle();
        return read_facts(engine_, relation, {text.c_str(), text.size()}, name, make_format(delimiter, headers, rfc4180, columns));
    }

    void write_file(int relation, const std::string& file, const std::string& delimiter, bool headers, bool rfc4180) {
        const Running running(*this);
        nb::gil_scoped_release release;
        write_facts_file(engine_, relation, file, make_format(delimiter, headers, rfc4180, {}));
    }

    nb::bytes write_text(int relation, const std::string& delimiter, bool headers, bool rfc4180) {
        idle();
        const std::string text = facts_text(engine_, relation, make_format(delimiter, headers, rfc4180, {}));
        return nb::bytes(text.data(), text.size());
    }

    void run(double timeout, std::uint64_t max_tuples, std::uint64_t max_memory) {
        const Running running(*this);
        provenance_.reset();
        nb::gil_scoped_release release;
        engine_.run(Limits{timeout, max_tuples, max_memory}, interrupt_check());
    }

    nb::list rows(int relation) {
        idle();
        PythonValues values(engine_.program(), engine_.database());
        const Relation& declaration = engine_.declaration(relation);
        RelationData& data = engine_.relation(relation);
        nb::list out;
        if (data.eqrel) {
            const std::vector<Value> pairs = data.eqrel->rows();
            for (std::size_t i = 0; i < pairs.size(); i += 2) out.append(values.decode_row(declaration, pairs.data() + i));
            return out;
        }
        for (Row row = 0; row < data.table.visible; ++row)
            if (!data.table.dead(row)) out.append(values.decode_row(declaration, data.table.row(row)));
        return out;
    }

    // The rows as int64, without a copy: symbols and records by identity, unsigned and float by their bits.
    nb::object array(int relation) {
        idle();
        RelationData& data = engine_.relation(relation);
        const auto arity = static_cast<std::size_t>(data.table.arity());
        if (data.eqrel) {
            auto* pairs = new std::vector<Value>(data.eqrel->rows());
            nb::capsule owner(pairs, [](void* p) noexcept { delete static_cast<std::vector<Value>*>(p); });
            return nb::cast(nb::ndarray<nb::numpy, Value, nb::ndim<2>>(pairs->data(), {pairs->size() / 2, 2}, owner));
        }
        auto* block = new std::shared_ptr<Block>(data.table.block());
        nb::capsule owner(block, [](void* p) noexcept { delete static_cast<std::shared_ptr<Block>*>(p); });
        static Value nothing = 0;
        Value* values = *block ? (*block)->data() : &nothing;
        return nb::cast(nb::ndarray<nb::numpy, const Value, nb::ndim<2>>(values, {data.table.visible, arity}, owner));
    }

    std::size_t size(int relation) {
        idle();
        return engine_.relation(relation).rows();
    }

    nb::object symbol(Value value) {
        PythonValues values(engine_.program(), engine_.database());
        return values.decode(kSymbol, value);
    }

    void set_functor(const std::string& name, nb::callable callable) {
        const CoreProgram& program = engine_.program();
        for (const Functor& functor : program.functors) {
            if (functor.name != name) continue;
            engine_.set_functor(name, [this, &functor, callable](const Value* arguments) {
                nb::gil_scoped_acquire gil;
                PythonValues values(engine_.program(), engine_.database());
                nb::list converted;
                for (std::size_t i = 0; i < functor.parameters.size(); ++i) converted.append(values.decode(functor.parameters[i], at_point(functor.parameters[i], arguments[i])));
                nb::object result = callable(*nb::borrow<nb::args>(nb::tuple(converted)));
                return values.encode(functor.result, result);
            });
            return;
        }
        throw EvaluationError("the program declares no functor \"" + name + "\"");
    }

    nb::list functors() {
        nb::list out;
        for (const Functor& f : engine_.program().functors) {
            nb::list parameters;
            for (const TypeIndex t : f.parameters) parameters.append(engine_.program().types[static_cast<std::size_t>(t)].name);
            out.append(nb::make_tuple(f.name, parameters, engine_.program().types[static_cast<std::size_t>(f.result)].name, f.stateful));
        }
        return out;
    }

    nb::list rule_statistics() {
        nb::list out;
        for (std::size_t i = 0; i < engine_.program().rules.size(); ++i) {
            const Rule& rule = engine_.program().rules[i];
            const RuleStatistics& s = engine_.rule_statistics()[i];
            const std::string file = rule.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(rule.position.file)] : "";
            out.append(nb::make_tuple(rule.head.relation, text(rule.text), file, rule.position.line, s.runs, s.derived, s.inserted, s.seconds));
        }
        return out;
    }

    // What explain() needs, unless it is there already.
    void prepare_provenance(double timeout, std::uint64_t max_tuples, std::uint64_t max_memory) {
        const Running running(*this);
        nb::gil_scoped_release release;
        if (!provenance_) provenance_ = std::make_unique<Provenance>(engine_);
        provenance_->prepare(Limits{timeout, max_tuples, max_memory}, interrupt_check());
    }

    // Nodes: (kind, relation, row, rule or -1, bindings, premises, conditions); and the node of each row asked for, or -1.
    nb::tuple explain(int relation, nb::handle rows) {
        std::vector<std::vector<Value>> values;
        for (nb::handle row : rows) values.push_back(encode_row(relation, row));
        std::vector<ProofNode> nodes;
        std::vector<int> roots;
        {
            const Running running(*this);
            nb::gil_scoped_release release;
            nodes = provenance_->explain(relation, values, roots);
        }
        PythonValues decode(engine_.program(), engine_.database());
        constexpr const char* kinds[] = {"fact", "rule", "equivalence", "unknown"};
        nb::list out;
        for (const ProofNode& node : nodes) {
            nb::list premises, conditions;
            for (const int p : node.premises) premises.append(p);
            for (const std::string& c : node.conditions) conditions.append(text(c));
            out.append(nb::make_tuple(kinds[static_cast<int>(node.kind)], node.relation, decode.decode_row(engine_.declaration(node.relation), node.row.data()),
                                      node.rule, bindings(decode, node.rule, node.bindings), premises, conditions));
        }
        return nb::make_tuple(out, roots);
    }

    // One proof of these rows by relation, without premises of the relations in `leaves`: see derivation.hpp.
    nb::tuple derivation(const std::vector<std::pair<int, nb::list>>& wanted, const std::vector<int>& leaves) {
        const std::vector<Rows> rows = encode_rows(wanted);
        std::vector<char> leaf(engine_.program().relations.size(), 0);
        for (const int relation : leaves) leaf[static_cast<std::size_t>(relation)] = 1;
        std::vector<ProofNode> nodes;
        {
            const Running running(*this);
            nb::gil_scoped_release release;
            if (!provenance_) provenance_ = std::make_unique<Provenance>(engine_);
            nodes = provenance_->derivation(rows, leaf);
        }
        return as_python(engine_, nodes);
    }

    int height(int relation, nb::handle row) { return provenance_->height(relation, encode_row(relation, row).data()); }
    bool contains(int relation, nb::handle row) { return engine_.relation(relation).contains(encode_row(relation, row).data()); }

    // (rule, literal, reason, bindings, relation of the nearest rows or -1, nearest rows)
    nb::list why_not(int relation, nb::handle row) {
        const std::vector<Value> values = encode_row(relation, row);
        if (!engine_.complete()) throw EvaluationError("explanations need a complete run: run the program first");
        std::vector<Obstacle> obstacles;
        {
            const Running running(*this);
            nb::gil_scoped_release release;
            obstacles = dl::why_not(engine_, relation, values);
        }
        PythonValues decode(engine_.program(), engine_.database());
        nb::list out;
        for (const Obstacle& o : obstacles) {
            nb::list nearest;
            for (const auto& near : o.nearest) nearest.append(decode.decode_row(engine_.declaration(o.relation), near.data()));
            out.append(nb::make_tuple(o.rule, text(o.literal), o.reason, bindings(decode, o.rule, o.bindings), o.relation, nearest));
        }
        return out;
    }

    // (relation, text, file, line) of every rule
    nb::list rules() {
        nb::list out;
        for (const Rule& rule : engine_.program().rules) {
            const std::string file = rule.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(rule.position.file)] : "";
            out.append(nb::make_tuple(rule.head.relation, text(rule.text), file, rule.position.line));
        }
        return out;
    }

    // The program for the real Soufflé, and the name of each relation in it.
    nb::tuple souffle(const std::vector<bool>& given) {
        const std::string program = souffle_text(engine_, std::vector<char>(given.begin(), given.end()));
        return nb::make_tuple(nb::bytes(program.data(), program.size()), souffle_names(engine_.program()));
    }

    // Take the facts that were added into the relations, without running any rule.
    void settle() {
        idle();
        provenance_.reset();
        engine_.settle();
    }

    // Of one proof of the rows of some relations: (kind, left, right, text, file, line of the rule that asked).
    // Needs symbols and prepare_provenance().
    nb::list conditions(const std::vector<std::pair<int, nb::list>>& wanted) {
        const std::vector<Rows> rows = encode_rows(wanted);
        std::vector<Decision> decisions;
        {
            const Running running(*this);
            nb::gil_scoped_release release;
            ProofConditions conditions(engine_, *provenance_);
            for (const Rows& of : rows) conditions.add(of.relation, of.rows);
            decisions = conditions.decisions();
        }
        constexpr const char* kinds[] = {"less", "less_equal", "not_equal", "equal", "integer"};
        nb::list out;
        for (const Decision& d : decisions) {
            const Condition& c = engine_.database().formulas->conditions()[static_cast<std::size_t>(d.condition)];
            const Rule& rule = engine_.program().rules[static_cast<std::size_t>(d.rule)];
            const std::string file = rule.position.file >= 0 ? engine_.program().files[static_cast<std::size_t>(rule.position.file)] : "";
            out.append(nb::make_tuple(kinds[static_cast<int>(c.kind)], c.left, c.right, text(rule.text), file, rule.position.line));
        }
        return out;
    }

    std::uint64_t rounds() { return engine_.rounds(); }
    std::size_t bytes() { return engine_.database().bytes(); }

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
    Value at_point(TypeIndex type, Value value) {
        Database& db = engine_.database();
        if (!db.formulas) return value;
        const TypeKind kind = engine_.program().types[static_cast<std::size_t>(type)].kind;
        if (kind == TypeKind::Number) return db.formulas->concrete(value);
        if (kind == TypeKind::Symbol && db.formulas->has_formula(value)) return db.symbols.intern(db.formulas->concrete_text(value, db.symbols));
        return value;
    }
    std::vector<Value> encode_row(int relation, nb::handle row) {
        idle();
        std::vector<Value> values;
        PythonValues(engine_.program(), engine_.database()).encode_row(engine_.declaration(relation), row, values);
        return values;
    }
    std::vector<Rows> encode_rows(const std::vector<std::pair<int, nb::list>>& given) {
        std::vector<Rows> out;
        for (const auto& [relation, rows] : given) {
            out.push_back({relation, {}});
            for (nb::handle row : rows) out.back().rows.push_back(encode_row(relation, row));
        }
        return out;
    }
    // program text may hold bytes that are not UTF-8 (in symbols)
    static nb::object text(const std::string& bytes) {
        return nb::steal(PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
    }
    nb::list bindings(PythonValues& decode, int rule, const std::vector<std::pair<int, Value>>& bound) {
        nb::list out;
        for (const auto& [variable, value] : bound) {
            const Variable& v = engine_.program().rules[static_cast<std::size_t>(rule)].variables[static_cast<std::size_t>(variable)];
            out.append(nb::make_tuple(v.name, decode.decode(v.type, value)));
        }
        return out;
    }

    static std::vector<SymbolDeclaration> declarations(const std::vector<std::tuple<std::string, Value, Value, std::string>>& symbols) {
        std::vector<SymbolDeclaration> out;
        for (const auto& [name, value, minimum, below] : symbols) out.push_back({name, value, minimum, below});
        return out;
    }
    static CoreProgram make(const std::string& name, const std::string& text, const std::vector<std::string>& include_dirs,
                            const std::vector<std::pair<std::string, std::string>>& defines, int word_size) {
        SourceOptions options;
        options.name = name;
        options.text = text;
        options.include_dirs = include_dirs;
        options.defines = defines;
        options.word_size = word_size;
        nb::gil_scoped_release release;
        return compile_source(options);
    }

    Engine engine_;
    std::unique_ptr<Provenance> provenance_;
    bool running_ = false;  // changed with the GIL held
};

}  // namespace

}  // namespace dl

NB_MODULE(_engine, m) {
    using dl::Session;
    namespace nb = nanobind;
    using namespace nb::literals;
    nb::set_leak_warnings(false);
    nb::register_exception_translator(dl::translate);
    nb::class_<Session>(m, "Session", "One program and its relations.")
        .def(nb::init<const std::string&, nb::bytes, const std::vector<std::string>&,
                      const std::vector<std::pair<std::string, std::string>>&, int, bool,
                      const std::vector<std::tuple<std::string, dl::Value, dl::Value, std::string>>&>(),
             "name"_a, "text"_a, "include_dirs"_a, "defines"_a, "word_size"_a, "checked"_a, "symbols"_a)
        .def("fresh", [](const Session& session, const std::vector<std::tuple<std::string, dl::Value, dl::Value, std::string>>& symbols) {
            return new Session(session, symbols);  // owned by the Python object
        }, "symbols"_a)
        .def("relations", &Session::relations)
        .def("directives", &Session::directives)
        .def("warnings", &Session::warnings)
        .def("pragmas", &Session::pragmas)
        .def("functors", &Session::functors)
        .def("set_functor", &Session::set_functor)
        .def("insert", &Session::insert)
        .def("insert_array", &Session::insert_array)
        .def("read_file", &Session::read_file)
        .def("read_text", &Session::read_text)
        .def("write_file", &Session::write_file)
        .def("write_text", &Session::write_text)
        .def("run", &Session::run, "timeout"_a, "max_tuples"_a, "max_memory"_a)
        .def("rows", &Session::rows)
        .def("array", &Session::array)
        .def("size", &Session::size)
        .def("symbol", &Session::symbol)
        .def("rule_statistics", &Session::rule_statistics)
        .def("prepare_provenance", &Session::prepare_provenance, "timeout"_a, "max_tuples"_a, "max_memory"_a)
        .def("explain", &Session::explain)
        .def("derivation", &Session::derivation, "wanted"_a, "leaves"_a)
        .def("height", &Session::height)
        .def("contains", &Session::contains)
        .def("why_not", &Session::why_not)
        .def("rules", &Session::rules)
        .def("souffle", &Session::souffle)
        .def("settle", &Session::settle)
        .def("conditions", &Session::conditions)
        .def("rounds", &Session::rounds)
        .def("bytes", &Session::bytes);
}
