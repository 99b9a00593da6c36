// How an engine evaluates its strata: rounds, deltas, and what to do when facts come after a run.
#include <algorithm>

#include "engine.hpp"
#include "subsumption.hpp"

namespace dl {

bool Engine::changed(int index) const {
    const RelationData& data = *db_.relations[static_cast<std::size_t>(index)];
    const std::size_t now = data.eqrel ? data.eqrel->events() : data.table.visible;
    return now != states_[static_cast<std::size_t>(index)].seen;
}

bool Engine::has_delta(int index) const {
    const RelationData& data = *db_.relations[static_cast<std::size_t>(index)];
    return data.eqrel ? data.eqrel->has_delta() : data.table.delta_begin != data.table.visible;
}

bool Engine::is_empty(int index) const {
    const RelationData& data = *db_.relations[static_cast<std::size_t>(index)];
    return data.eqrel ? data.eqrel->elements() == 0 : data.table.visible == 0;
}

void Engine::evaluate(int at) {
    const Stratum& stratum = strata_[static_cast<std::size_t>(at)];
    const auto begin = std::chrono::steady_clock::now();
    if (evaluated_.empty()) evaluated_.assign(strata_.size(), 0);
    ++plan_epoch_;
    ++machine_.epoch;
    bool replaced = false, input_grew = false, other_changed = false, new_facts = false;
    for (const int r : stratum.positive) {
        replaced = replaced || states_[static_cast<std::size_t>(r)].replaced;
        input_grew = input_grew || changed(r);
    }
    for (const int r : stratum.other) other_changed = other_changed || states_[static_cast<std::size_t>(r)].replaced || changed(r);
    for (const int r : stratum.relations) {
        const RelationState& state = states_[static_cast<std::size_t>(r)];
        const RelationData& data = relation(r);
        if (state.facts ? state.facts->visible != state.facts->size() : data.table.visible != data.table.size()) new_facts = true;
    }
    const bool first = !evaluated_[static_cast<std::size_t>(at)];
    if (!first && !replaced && !input_grew && !other_changed && !new_facts) return;

    for (const int r : stratum.relations) in_stratum_[static_cast<std::size_t>(r)] = 1;
    const bool afresh = first || replaced || other_changed || !stratum.monotone;
    if (afresh) {
        if (!first)
            for (const int r : stratum.relations) states_[static_cast<std::size_t>(r)].replaced = true;
        evaluate_afresh(stratum);
    } else {
        resume(stratum);
    }
    fixpoint(at);
    finish(stratum);
    for (const int r : stratum.relations) in_stratum_[static_cast<std::size_t>(r)] = 0;
    evaluated_[static_cast<std::size_t>(at)] = 1;
    stratum_statistics_[static_cast<std::size_t>(at)].seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Facts and the rules that do not read their own stratum.
void Engine::evaluate_afresh(const Stratum& stratum) {
    ++stage_;
    for (const int r : stratum.relations) {
        RelationState& state = states_[static_cast<std::size_t>(r)];
        RelationData& data = relation(r);
        if (state.replaced) {
            data.table.clear();
            if (data.eqrel) data.eqrel->clear();
            state.seen = 0;
        }
        if (state.facts) {
            InsertSink sink(data, gathered_);
            for (Row row = 0; row < state.facts->size(); ++row) sink.put(state.facts->row(row));
            sink.flush();
            state.facts->visible = state.facts->size();
        }
    }
    for (const int rule : stratum.rules) {
        const auto& atoms = atoms_of(rule);
        const bool reads_own = std::any_of(atoms.begin(), atoms.end(), [&](int r) { return in_stratum_[static_cast<std::size_t>(r)]; });
        if (!reads_own) run_version(rule, -1, false);
    }
    end_round(stratum.relations);
    forget_touched();
    subsume_given(stratum);
}

// More facts came since the last run, none went: what follows from the new ones is all that is new.
void Engine::resume(const Stratum& stratum) {
    ++stage_;
    for (const int r : stratum.relations) {
        RelationState& state = states_[static_cast<std::size_t>(r)];
        if (!state.facts) continue;
        InsertSink sink(relation(r), gathered_);
        for (Row row = state.facts->visible; row < state.facts->size(); ++row) sink.put(state.facts->row(row));
        sink.flush();
        state.facts->visible = state.facts->size();
    }
    for (const int rule : stratum.rules) {
        const auto& atoms = atoms_of(rule);
        for (std::size_t k = 0; k < atoms.size(); ++k)
            if (!in_stratum_[static_cast<std::size_t>(atoms[k])] && has_delta(atoms[k])) run_version(rule, static_cast<int>(k), false);
    }
    end_round(stratum.relations);
    forget_touched();
}

void Engine::forget_touched() {
    for (const int r : touched_) states_[static_cast<std::size_t>(r)].touched = false;
    touched_.clear();
}

// Who reads which relation of a stratum. Rules that read an empty relation derive nothing: those of lower strata stay
// as they are, those of this one are waited for.
void Engine::set_readers(const Stratum& stratum) {
    for (const int r : stratum.relations) {
        readers_[static_cast<std::size_t>(r)].clear();
        waiting_[static_cast<std::size_t>(r)].clear();
        states_[static_cast<std::size_t>(r)].concerns.reset();
        states_[static_cast<std::size_t>(r)].small_rounds = 0;
    }
    for (const int rule : stratum.rules) {
        const auto& atoms = atoms_of(rule);
        const auto own = [&](int r) { return in_stratum_[static_cast<std::size_t>(r)] != 0; };
        if (std::any_of(atoms.begin(), atoms.end(), [&](int r) { return !own(r) && is_empty(r); })) continue;
        lacking_[static_cast<std::size_t>(rule)] = 0;
        for (std::size_t k = 0; k < atoms.size(); ++k) {
            const auto r = static_cast<std::size_t>(atoms[k]);
            if (!own(atoms[k])) continue;
            readers_[r].emplace_back(rule, static_cast<int>(k));
            if (!is_empty(atoms[k])) continue;
            ++lacking_[static_cast<std::size_t>(rule)];
            waiting_[r].push_back(rule);
        }
    }
}

// What rules the few rows of this round's delta may concern; null: all of them, as far as is known. Rules that do more
// than to derive rows, or note what their comparisons rest on, are run in any case.
const Concerns* Engine::concerns(int r) {
    RelationState& state = states_[static_cast<std::size_t>(r)];
    const auto& readers = readers_[static_cast<std::size_t>(r)];
    const RelationData& data = relation(r);
    if (readers.size() < kReaders || side_effects_ || db_.formulas || data.eqrel) return nullptr;
    if (data.table.visible - data.table.delta_begin > kFewRows) return nullptr;
    if (!state.concerns) {
        if (++state.small_rounds < kManyRounds) return nullptr;
        std::vector<Concerns::Reader> rules;
        for (const auto& [rule, atom] : readers) rules.push_back({&flat(rule), literal(rule, atom)});
        state.concerns = std::make_unique<Concerns>(program_, db_, r, rules, in_stratum_);
    }
    state.concerns->look(data.table);
    return state.concerns.get();
}

// Where an atom of a rule is in its flat body.
int Engine::literal(int rule, int atom) {
    const std::vector<FlatLiteral>& body = flat(rule).body;
    for (std::size_t i = 0; i < body.size(); ++i)
        if (body[i].kind == FlatLiteral::Kind::Atom && atom-- == 0) return static_cast<int>(i);
    return -1;
}

// A relation that was empty has rows now.
void Engine::stop_waiting(int relation) {
    std::vector<int>& waiting = waiting_[static_cast<std::size_t>(relation)];
    if (waiting.empty() || is_empty(relation)) return;
    for (const int rule : waiting) --lacking_[static_cast<std::size_t>(rule)];
    waiting.clear();
}

void Engine::fixpoint(int at) {
    const Stratum& stratum = strata_[static_cast<std::size_t>(at)];
    ++rounds_;
    ++stratum_statistics_[static_cast<std::size_t>(at)].rounds;
    if (!stratum.recursive) return;
    set_readers(stratum);
    std::vector<int> active;
    for (const int r : stratum.relations)
        if (has_delta(r)) active.push_back(r);
    while (!active.empty()) {
        ++stage_;
        ++rounds_;
        ++stratum_statistics_[static_cast<std::size_t>(at)].rounds;
        if (timing) measured_ = std::chrono::steady_clock::now();
        for (const int r : active) {
            const auto& readers = readers_[static_cast<std::size_t>(r)];
            const Concerns* concerns = this->concerns(r);
            for (std::size_t k = 0; k < readers.size(); ++k) {
                const auto& [rule, atom] = readers[k];
                if (lacking_[static_cast<std::size_t>(rule)] == 0 && (!concerns || concerns->of(k))) execute(rule, atom, true);
            }
        }
        // what was new is old now, what came is new
        for (const int r : active) {
            RelationState& state = states_[static_cast<std::size_t>(r)];
            if (!state.touched) {
                state.touched = true;
                touched_.push_back(r);
            }
        }
        end_round(touched_);
        for (const int r : touched_) stop_waiting(r);
        active.clear();
        subsume_coming(stratum);
        bool limit_reached = false;
        for (const int r : touched_) {
            if (has_delta(r)) active.push_back(r);
            const std::uint64_t most = states_[static_cast<std::size_t>(r)].limit;
            limit_reached = limit_reached || (most > 0 && relation(r).rows() >= most);
        }
        forget_touched();
        if (limit_reached) return;
        std::sort(active.begin(), active.end());
    }
}

void Engine::end_round(const std::vector<int>& relations) {
    for (const int r : relations) close_round(r);
}

void Engine::close_round(int r) {
    RelationState& state = states_[static_cast<std::size_t>(r)];
    RelationData& data = relation(r);
    std::size_t rows;
    if (data.eqrel) {
        data.eqrel->next_round(stage_);
        rows = data.eqrel->pairs();
    } else {
        data.table.next_round();
        if (data.table.delta_begin != data.table.visible) data.table.births.push_back({data.table.visible, stage_});
        rows = data.table.visible;
    }
    if (rows >= state.replan_at) {
        ++plan_epoch_;
        state.replan_at = static_cast<Row>(std::min<std::size_t>(rows * 4, kNoRow));
    }
}

void Engine::finish(const Stratum& stratum) {
    for (const int r : stratum.relations) {
        RelationState& state = states_[static_cast<std::size_t>(r)];
        RelationData& data = relation(r);
        if (data.table.any_dead()) data.table.compact();
        if (data.eqrel) data.eqrel->delta_since(std::min(state.seen, data.eqrel->events()));
        else data.table.delta_begin = static_cast<Row>(std::min<std::size_t>(state.seen, data.table.visible));
        state.replan_at = std::max<Row>(64, data.table.visible);
        state.concerns.reset();
    }
}

// Run a rule, one atom ranging over the delta (none: -1), unless it can derive nothing.
void Engine::run_version(int index, int atom, bool old_before_delta) {
    const std::vector<int>& atoms = atoms_of(index);
    for (const int r : atoms)
        if (is_empty(r)) return;
    if (atom >= 0 && !has_delta(atoms[static_cast<std::size_t>(atom)])) return;
    if (timing) measured_ = std::chrono::steady_clock::now();
    execute(index, atom, old_before_delta);
}

void Engine::execute(int index, int atom, bool old_before_delta) {
    RuleState& state = rules_[static_cast<std::size_t>(index)];
    const Rule& rule = program_.rules[static_cast<std::size_t>(index)];
    Version& version = state.versions[static_cast<std::size_t>(atom + 1)];
    RuleStatistics& statistics = rule_statistics_[static_cast<std::size_t>(index)];
    if (db_.formulas) db_.formulas->rule = index;
    try {
        if (!version.plan || (version.planned_at != plan_epoch_ && outdated(*version.plan, db_))) {
            if (atom >= 0 && version.literal < 0) version.literal = literal(index, atom);
            version.plan = make_plan({flat(index), version.literal, in_stratum_, Step::Kind::Emit, {}, old_before_delta}, db_);
        }
        version.planned_at = plan_epoch_;
        RelationData& head = relation(rule.head.relation);
        if (rule.kind == Rule::Kind::Subsume) {
            DominatedSink sink(head.table, dominated_);
            machine_.run(*version.plan, state.flat->head, sink);
        } else {
            InsertSink sink(head, gathered_);
            machine_.run(*version.plan, state.flat->head, sink);
            statistics.derived += sink.derived;
            statistics.inserted += sink.inserted;
            RelationState& relation_state = states_[static_cast<std::size_t>(rule.head.relation)];
            if (!relation_state.touched && (sink.inserted > 0 || (head.eqrel && sink.derived > 0))) {
                relation_state.touched = true;
                touched_.push_back(rule.head.relation);
            }
        }
        ++statistics.runs;
        if (db_.patterns.has_errors()) warn_of_patterns(rule);
        if (timing) {  // from the end of one rule to that of the next: one look at the clock each
            const auto now = std::chrono::steady_clock::now();
            statistics.seconds += std::chrono::duration<double>(now - measured_).count();
            measured_ = now;
        }
    } catch (const EvaluationError& error) {
        throw EvaluationError(std::string(error.what()) + "\n  in the rule " + describe(rule));
    }
}

}  // namespace dl
