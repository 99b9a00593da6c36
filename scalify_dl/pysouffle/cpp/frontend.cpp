// The passes of the front end, in order.
#include "clause_checks.hpp"
#include "core.hpp"
#include "declarations.hpp"
#include "lower.hpp"
#include "parser.hpp"
#include "preprocessor.hpp"
#include "scopes.hpp"
#include "typing.hpp"

namespace dl {

CoreProgram compile_source(const SourceOptions& options) {
    const Source source = preprocess(options);
    Report report(source);
    ast::Arena arena;
    ast::Program program = parse(source, arena, report);
    report.throw_if_errors();

    Declarations declarations(program, report);
    declarations.word_size = options.word_size;
    const bool declared_well = report.error_count() == 0;
    CoreProgram core;
    if (declared_well) core = lower_declarations(program, declarations, source);

    for (ast::Clause* clause : program.clauses) {
        const std::size_t errors = report.error_count();
        check_names(clause, declarations, report);
        const std::vector<ClauseVariable> variables = resolve_variables(clause);
        warn_about_variables(clause, variables, report);
        if (report.error_count() > errors) continue;
        const RelationInfo* head = declarations.relation(clause->head->name);
        check_grounded(clause, variables, head->is_inline, report);
        const ClauseTypes types(clause, variables, declarations);
        check_types(clause, variables, types, declarations, report);
        if (declared_well && report.error_count() == errors)
            core.rules.push_back(lower_clause(clause, variables, types, declarations, source));
    }
    report.throw_if_errors();
    core.warnings = report.take_warnings();
    return core;
}

}  // namespace dl
