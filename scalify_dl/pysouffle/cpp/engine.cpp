#include "engine.hpp"

#include <algorithm>
#include <cstdio>

namespace dl {

namespace {

std::string amount(std::uint64_t n) {  // 1234567 -> 1,234,567
    std::string text = std::to_string(n);
    for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3) text.insert(static_cast<std::size_t>(at), ",");
    return text;
}

std::vector<char> float_columns(const CoreProgram& program, const Relation& relation) {
    std::vector<char> out;
    for (const Attribute& a : relation.attributes) out.push_back(program.types[static_cast<std::size_t>(a.type)].kind == TypeKind::Float);
    return std::find(out.begin(), out.end(), 1) == out.end() ? std::vector<char>() : out;
}

std::shared_ptr<Terms> make_terms(std::vector<SymbolDeclaration> symbols) {
    auto terms = std::make_shared<Terms>();
    if (!symbols.empty()) terms->formulas = std::make_unique<SymbolicNumbers>(std::move(symbols));
    return terms;
}

std::shared_ptr<const Prepared> prepared_in(CoreProgram program, std::vector<Stratum> strata) {
    auto prepared = std::make_shared<Prepared>();
    prepared->program = std::move(program);
    prepared->outline = outline(prepared->program, std::move(strata));
    return prepared;
}

}  // namespace

Engine::Engine(std::shared_ptr<const Prepared> prepared, Arithmetic arithmetic, std::vector<SymbolDeclaration> symbols)
    : Engine(std::move(prepared), arithmetic, make_terms(std::move(symbols))) {}

Engine::Engine(CoreProgram program, Arithmetic arithmetic, std::shared_ptr<Terms> terms, std::vector<Stratum> strata)
    : Engine(prepared_in(std::move(program), std::move(strata)), arithmetic, std::move(terms)) {}

Engine::Engine(std::shared_ptr<const Prepared> prepared, Arithmetic arithmetic, std::shared_ptr<Terms> terms)
    : prepared_(std::move(prepared)), program_(prepared_->program), strata_(prepared_->outline.strata), db_(std::move(terms)), machine_(db_, *this), warnings_(program_.warnings) {
    db_.arithmetic = arithmetic;
    stratum_statistics_.resize(strata_.size());
    const std::size_t n = program_.relations.size();
    states_.resize(n);
    in_stratum_.assign(n, 0);
    readers_.resize(n);
    waiting_.resize(n);
    names_.reserve(n);
    for (std::size_t i = 0; i < n; ++i) {
        const Relation& relation = program_.relations[i];
        names_.emplace(relation.name, static_cast<int>(i));
        auto data = std::make_shared<RelationData>(static_cast<int>(relation.attributes.size()), float_columns(program_, relation));
        if (relation.eqrel) data->eqrel = std::make_unique<EqRel>();
        for (const auto& key : relation.choice) {
            std::vector<int> columns(key.begin(), key.end());
            std::sort(columns.begin(), columns.end());
            data->choice.push_back(&data->table.index(columns));
            data->keys.push_back(std::move(columns));
        }
        db_.relations.push_back(std::move(data));
    }
    db_.functors.resize(program_.functors.size());
    rules_.resize(program_.rules.size());
    rule_statistics_.resize(program_.rules.size());
    lacking_.resize(program_.rules.size());
    for (std::size_t i = 0; i < program_.rules.size(); ++i) {
        const RuleOutline& rule = prepared_->outline.rules[i];
        states_[static_cast<std::size_t>(rule.head)].has_rules = true;
        rules_[i].versions.resize(rule.atoms.size() + 1);
    }
    side_effects_ = prepared_->outline.side_effects;
    for (const Directive& directive : program_.directives) {
        if (directive.kind != Directive::Kind::LimitSize) continue;
        for (const auto& [key, value] : directive.parameters)
            if (key == "n") states_[static_cast<std::size_t>(directive.relation)].limit = std::strtoull(value.c_str(), nullptr, 10);
    }
}

int Engine::relation_index(const std::string& name) const {
    const auto at = names_.find(name);
    return at == names_.end() ? -1 : at->second;
}

const FlatRule& Engine::flat(int rule) {
    RuleState& state = rules_[static_cast<std::size_t>(rule)];
    if (!state.flat)
        state.flat = std::make_unique<FlatRule>(flatten(program_, program_.rules[static_cast<std::size_t>(rule)], db_.symbols));
    return *state.flat;
}

std::vector<int> Engine::join_order(int index, int delta_atom) {
    const FlatRule& flat = this->flat(index);
    std::vector<int> atoms;  // in the flat body
    for (std::size_t i = 0; i < flat.body.size(); ++i)
        if (flat.body[i].kind == FlatLiteral::Kind::Atom) atoms.push_back(static_cast<int>(i));
    const int delta = atoms[static_cast<std::size_t>(delta_atom)];
    PlanRequest request{flat, delta, in_stratum_, Step::Kind::Emit, {}, false};
    request.empty_is_unknown = true;
    std::vector<int> order;
    for (const int literal : literal_order(request, db_)) {
        const auto at = std::find(atoms.begin(), atoms.end(), literal);
        if (at != atoms.end()) order.push_back(static_cast<int>(at - atoms.begin()));
    }
    return order;
}

void Engine::add_fact(int index, const Value* row) {
    RelationState& state = states_[static_cast<std::size_t>(index)];
    RelationData& data = relation(index);
    complete_ = false;
    if (keeps_facts(index)) {
        if (!state.facts) state.facts = std::make_unique<Table>(data.table.arity(), data.table.floats());
        state.facts->insert(row);
        return;
    }
    data.table.insert(row);
}

void Engine::set_functor(const std::string& name, HostFunctor functor) {
    for (std::size_t i = 0; i < program_.functors.size(); ++i) {
        if (program_.functors[i].name != name) continue;
        db_.functors[i] = std::move(functor);
        return;
    }
    throw EvaluationError("the program declares no functor \"" + name + "\"");
}

std::string Engine::describe(const Rule& rule) const {
    std::string out;
    if (rule.position.file >= 0) out = program_.files[static_cast<std::size_t>(rule.position.file)] + ":" + std::to_string(rule.position.line) + ": ";
    return out + rule.text;
}

void Engine::warn_of_patterns(const Rule& rule) {
    for (std::string& message : db_.patterns.take_errors()) {
        const auto said = [&](const Diagnostic& d) { return d.message == message; };
        if (std::any_of(warnings_.begin(), warnings_.end(), said)) continue;
        Diagnostic warning;
        warning.severity = Severity::Warning;
        if (rule.position.file >= 0) warning.file = program_.files[static_cast<std::size_t>(rule.position.file)];
        warning.line = rule.position.line;
        warning.message = std::move(message);
        warnings_.push_back(std::move(warning));
    }
}

// ---------------------------------------------------------------- guards

void Engine::check() {
    if (interrupt_) interrupt_();
    if (limits_.timeout > 0) {
        const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begin_;
        if (spent.count() > limits_.timeout) {
            char text[64];
            std::snprintf(text, sizeof text, "%g", limits_.timeout);
            throw EvaluationError("timeout: the run took more than " + std::string(text) + " s");
        }
    }
    if (limits_.max_tuples > 0) {
        std::uint64_t rows = 0;
        for (const auto& data : db_.relations) rows += data->table.size() + (data->eqrel ? data->eqrel->elements() : 0);
        if (rows > limits_.max_tuples) throw EvaluationError("max_tuples: more than " + amount(limits_.max_tuples) + " tuples");
    }
    if (limits_.max_memory > 0) {
        const std::uint64_t bytes = db_.bytes();
        if (bytes > limits_.max_memory)
            throw EvaluationError("max_memory: relations, symbols and records take more than " + amount(limits_.max_memory) + " bytes");
    }
}

// ---------------------------------------------------------------- runs

void Engine::run(const Limits& limits, std::function<void()> interrupt) {
    limits_ = limits;
    interrupt_ = std::move(interrupt);
    begin_ = std::chrono::steady_clock::now();
    // after a run that was cut short, or where rules count or call the host, only a fresh start gives what a fresh start gives
    if (broken_ || (side_effects_ && !evaluated_.empty())) start_over();
    broken_ = true;
    for (RelationState& state : states_) state.replaced = false;
    check();
    for (std::size_t i = 0; i < strata_.size(); ++i) evaluate(static_cast<int>(i));
    check();
    for (std::size_t i = 0; i < states_.size(); ++i) {
        RelationData& data = *db_.relations[i];
        states_[i].seen = data.eqrel ? data.eqrel->events() : data.table.visible;
        data.table.delta_begin = data.table.visible;
        if (data.eqrel) data.eqrel->delta_since(data.eqrel->events());
    }
    broken_ = false;
    complete_ = true;
    interrupt_ = nullptr;
    limits_ = {};
}

void Engine::settle() {
    start_over();
    ++stage_;
    for (std::size_t i = 0; i < states_.size(); ++i) {
        InsertSink sink(*db_.relations[i], gathered_);
        if (keeps_facts(static_cast<int>(i))) for_each_fact(static_cast<int>(i), [&](const Value* row) { sink.put(row); });
        sink.flush();
        close_round(static_cast<int>(i));
    }
    broken_ = true;  // a run has to begin from the facts
}

// Forget what was derived; keep what was given.
void Engine::start_over() {
    forget_touched();
    for (char& flag : in_stratum_) flag = 0;
    for (std::size_t i = 0; i < states_.size(); ++i) {
        RelationState& state = states_[i];
        RelationData& data = *db_.relations[i];
        state.seen = 0;
        if (keeps_facts(static_cast<int>(i))) {
            data.table.clear();
            if (data.eqrel) data.eqrel->clear();
        } else {
            data.table.delta_begin = 0;
            data.table.visible = 0;
            data.table.births.clear();
        }
    }
    evaluated_.assign(strata_.size(), 0);
    machine_.next_id = 0;
}

}  // namespace dl
