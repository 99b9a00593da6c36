// The passes of the front end, in order.
#include "anonymous_records.hpp"
#include "clause_checks.hpp"
#include "components.hpp"
#include "core.hpp"
#include "declarations.hpp"
#include "inline.hpp"
#include "lower.hpp"
#include "parser.hpp"
#include "preprocessor.hpp"
#include "projections.hpp"
#include "scopes.hpp"
#include "stratify.hpp"
#include "typing.hpp"
#include "witnesses.hpp"

namespace dl {

CoreProgram compile_source(const SourceOptions& options, std::vector<FileLookup>* lookups) {
    const Source source = preprocess(options, lookups);
    Report report(source);
    ast::Arena arena;
    ast::Program program = parse(source, arena, report);
    report.throw_if_errors();
    instantiate_components(program, arena, report);
    report.throw_if_errors();
    project_unnamed_columns(program, arena);

    Declarations declarations(program, report);
    declarations.word_size = options.word_size;
    const bool declared_well = report.error_count() == 0;
    CoreProgram core;
    if (declared_well) core = lower_declarations(program, declarations, source);

    std::vector<ast::Clause*> definitions, callers;  // of inline relations
    for (ast::Clause* clause : program.clauses) {
        const std::size_t errors = report.error_count();
        check_names(clause, declarations, report);
        check_plan(clause, report);
        if (report.error_count() > errors) continue;
        const bool is_definition = declarations.relation(clause->head)->is_inline;
        std::vector<ClauseVariable> variables = resolve_variables(clause);
        warn_about_variables(clause, variables, report);
        export_witnesses(clause, variables, is_definition, arena);
        split_record_equations(clause, arena);
        ClauseTypes types(clause, variables, declarations);
        if (types.has_untyped_record() && substitute_records(clause, arena)) {
            variables = resolve_variables(clause);
            types = ClauseTypes(clause, variables, declarations);
        }
        check_grounded(clause, variables, is_definition, report);
        check_types(clause, variables, types, declarations, report);
        if (is_definition) definitions.push_back(clause);
        else if (mentions_inline(clause, declarations)) callers.push_back(clause);
        else if (declared_well && report.error_count() == errors)
            core.rules.push_back(lower_clause(clause, variables, types, declarations, source));
    }
    warn_about_empty_relations(program, declarations, report);
    check_inlining(program.clauses, declarations, report);
    check_stratification(program.clauses, declarations, report);
    const std::vector<std::int32_t> order = inline_order(definitions, declarations, report);
    report.throw_if_errors();

    for (ast::Clause* clause : inline_relations(definitions, callers, order, declarations, arena, report)) {
        split_record_equations(clause, arena);
        std::vector<ClauseVariable> variables = resolve_variables(clause);
        ClauseTypes types(clause, variables, declarations, true);
        // The atom that said what type a record has may be gone.
        if (types.has_untyped_record() && substitute_records(clause, arena)) {
            variables = resolve_variables(clause);
            types = ClauseTypes(clause, variables, declarations, true);
        }
        if (types.has_untyped_record())
            report.error(clause->begin, "after inlining, the type of a record in this clause is not known", "remove 'inline'");
        check_grounded(clause, variables, false, report);
        report.throw_if_errors();
        core.rules.push_back(lower_clause(clause, variables, types, declarations, source));
    }
    core.warnings = report.take_warnings();
    return core;
}

}  // namespace dl
