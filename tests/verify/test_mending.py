"""Wrong programs: the edit that mends them is found, tried and proved; its place leads the causes."""

from __future__ import annotations

import pytest

from scalify_dl.audit.pair import Pair
from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.facts.schema import TABLES
from scalify_dl.facts.validate import check_meaning
from scalify_dl.mend.draft import Edit
from scalify_dl.mend.mend import mend_around
from scalify_dl.mend.propose import MAIN
from scalify_dl.mend.verbs import apply
from scalify_dl.mend.window import windows
from scalify_dl.prove.normal_forms import depths
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse, fact_relations
from scalify_dl.prove.verdict import Report, Verdict
from scalify_dl.pysouffle import Program, rules_dir
from scalify_dl.report.conclude import conclude
from tests.adversarial.programs import RIGHT, WRONG
from tests.verify.bug_lines import STEPS, cases, needs_steps


def facts(name: str) -> Facts:
    return tables_of({**WRONG, **RIGHT}[name]())


def tables_of(pair: Pair) -> Facts:
    tables = pair.tables()
    return Facts({table: [tuple(row) for row in rows] for table, rows in tables.items()})


def report(tables: Facts) -> Report:
    return conclude(analyse(tables, Options()))


def test_relations_of_mending_that_are_named_as_tables_of_facts_are_these_tables() -> None:
    """A relation of its own by the name of a table got the table's rows: bad input, of every captured step."""
    rules = Program.from_source((rules_dir() / MAIN).read_text("utf-8"), name=MAIN, include_dirs=[rules_dir()])
    for relation, table in fact_relations(rules).items():
        assert len(rules.relations[relation].attributes) == len(TABLES[table].columns), relation


MENDED = {
    "all_reduce_across_stages": ("all-reduce", "other ranks", "all-reduce over tp"),
    "bias_added_on_every_rank": ("add", "it counts 2 times", "after all-reduce, once"),
    "column_parallel_backward_without_all_reduce": ("dot", "is never summed", "all-reduce(sum) over tp after dot"),
    "loss_not_transferred_from_the_last_stage": ("select", "is never summed", "all-reduce(sum) over pp"),
    "maximum_of_partial_sums": ("all-reduce", "combines with max", "reduce with sum"),
    "mean_over_data_parallel_ranks_not_divided": ("all-reduce", "a factor 2 enters here", "by 1/2"),
    "softmax_on_a_partial_sum": ("reduce", "before these are summed", "all-reduce(sum) over tp between dot and reduce"),
    "first_rows_of_a_whole_weight_for_every_shard": ("slice", "this rank's own part", "own index along tp"),
}


@pytest.mark.parametrize("name", MENDED)
def test_the_edit_that_proves_a_wrong_program_leads(name: str) -> None:
    kind, sentence, advice = MENDED[name]
    found = report(facts(name))
    assert found.verdict is Verdict.REFUTED
    first = found.frontier[0]
    assert first.kind == kind
    assert any(sentence in text for text in first.found), first.found
    assert any(advice in text for text in first.suggestion), first.suggestion
    assert any("PROVED" in text for text in first.tried)


@pytest.mark.parametrize("name", MENDED)
def test_a_long_program_is_mended_as_a_short_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    short = report(facts(name))
    monkeypatch.setattr("scalify_dl.report.conclude.LARGE", 0)
    long = report(facts(name))
    assert [(o.tensor, o.verdict) for o in long.outputs] == [(o.tensor, o.verdict) for o in short.outputs]
    said = [[(c.op, c.found, c.suggestion, c.tried) for c in found.frontier] for found in (long, short)]
    assert said[0] == said[1]


def a_sum_that_lacks_between_layers(layers: int, wrong: int) -> Pair:
    """Layers of two products and a sum over tp; one of the sums is left out."""
    pair = Pair({"tp": 2})
    x, dx = pair.input((4, 8))
    for layer in range(layers):
        (v, dv), (w, dw) = pair.input((8, 16), {1: "tp"}), pair.input((16, 8), {0: "tp"})
        part, dpart = x, dx
        for right, dright in ((v, dv), (w, dw)):
            contracted = {"lhs_contracting_dims": [1], "rhs_contracting_dims": [0]}
            part = pair.base.emit("dot", [part, right], **contracted)
            dpart = pair.dist.emit("dot", [dpart, dright], **contracted)
            part, dpart = pair.base.emit("tanh", [part]), pair.dist.emit("tanh", [dpart]) if dright is dv else dpart
        if layer != wrong:
            dpart = pair.dist.emit("all-reduce", [dpart], reducer="sum", groups=pair.groups("tp"))
        x, dx = pair.base.emit("add", [x, part]), pair.dist.emit("add", [dx, pair.dist.emit("tanh", [dpart])])
    pair.outputs(x, dx)
    return pair


def test_edits_of_a_long_program_are_sought_on_a_part_of_it() -> None:
    found = analyse(tables_of(a_sum_that_lacks_between_layers(60, 30)), Options())
    part = next(windows(found))
    check_meaning(part)
    assert 0 < len(part["op"]) < len(found.facts["op"]) / 2
    stops = {op for (op,) in found.rows("frontier")}
    made = {tensor for op, _, tensor in found.facts["result"] if op in stops}
    assert {dist for dist, _, _ in part["expect"]} == made
    around = mend_around(found, [row[:2] for row in found.facts["expect"]], lambda text: None)
    assert around is not None
    mending, place = around
    assert place is not None
    assert mending.proved == 1
    assert [edit.verb for tried in mending.tried for edit in tried.proposal.edits] == ["reduce"]


def test_formulas_of_values_far_from_what_is_proved_are_not_looked_for() -> None:
    tables = tables_of(a_sum_that_lacks_between_layers(3, 1))
    (dist, _, _) = tables["expect"][0]
    inputs = {tensor for _, _, tensor in tables["input"]}
    assert depths(tables, inputs)[dist] == 17  # of five or six in a layer
    assert depths(tables, {*inputs, dist})[dist] == 0


def norms_that_nobody_adds_up() -> Pair:
    """The root of a sum of squares, folded from zero, of two shards."""
    pair, made = Pair({"dp": 2}), []
    (x, dx), (y, dy) = pair.input((4, 2), {0: "dp"}), pair.input((6,), {0: "dp"})
    for g, shards in ((pair.base, (x, y)), (pair.dist, (dx, dy))):
        total = g.constant(0.0, "f32")
        for one in shards:
            squares = g.emit("multiply", [one, one])
            norm = g.emit("reduce", [squares], dimensions=list(range(len(one.shape))), reducer="sum")
            total = g.emit("add", [total, norm])
        made.append(g.emit("sqrt", [total]))
    pair.outputs(*made)
    return pair


def columns_that_are_gathered_as_rows() -> Pair:
    """Shards of columns are gathered on a new first dim, and reshaped."""
    pair = Pair({"dp": 2})
    x, dx = pair.input((3, 8), {1: "dp"})
    base, dist = pair.base, pair.dist
    blocks = dist.emit("reshape", [dx], shape=(1, 3, 4))
    whole = dist.emit("all-gather", [blocks], dimension=0, groups=pair.groups("dp"))
    pair.outputs(base.emit("sine", [x]), dist.emit("sine", [dist.emit("reshape", [whole], shape=(3, 8))]))
    return pair


def test_a_sum_that_is_folded_from_zero_is_summed_as_a_whole() -> None:
    first = report(tables_of(norms_that_nobody_adds_up())).frontier[0]
    assert first.tried == ("with this edit the output is PROVED",)
    assert any("all-reduce(sum) over dp" in text for text in first.suggestion)


def test_dims_in_another_order_are_turned_before_a_reshape() -> None:
    first = report(tables_of(columns_that_are_gathered_as_rows())).frontier[0]
    assert first.kind == "reshape"
    assert first.tried == ("with this edit the output is PROVED",)
    assert any(text.startswith("move dim 1 to place 0 before") for text in first.suggestion), first.suggestion


def test_an_edit_that_mends_nothing_is_not_said_to() -> None:
    found = report(facts("rows_of_every_block_read_by_ids_of_the_first"))
    assert found.verdict is Verdict.REFUTED
    assert found.frontier
    assert all(not cause.tried for cause in found.frontier)


@pytest.mark.parametrize("verb", ["reduce", "scale", "skip"])
def test_an_edited_program_is_a_program(verb: str) -> None:
    tables = facts("mean_over_data_parallel_ranks_not_divided")
    ((reducing, _, _),) = [row for row in tables["op"] if row[2] == "all-reduce"]
    result = next(t for op, _, t in tables["result"] if op == reducing)
    target, numbers = (reducing, (0, 1)) if verb == "skip" else (result, (1, 2))
    edited = apply(tables, [Edit(reducing, verb, target, "dp" if verb == "reduce" else "", *numbers, "")])
    check_meaning(edited)
    assert tables["op"] != edited["op"]
    assert facts("mean_over_data_parallel_ranks_not_divided").tables == tables.tables


@needs_steps
@pytest.mark.parametrize("name", ["03_dp_pmean wrong1", "03_dp_pmean wrong2", "04_ddp_hooks wrong1.rec"])
def test_the_bug_of_a_training_step_is_on_its_line(name: str) -> None:
    if "pmean" in name:
        pytest.importorskip("jaxlib", reason="StableHLO is parsed by jaxlib")
    case = cases(STEPS)[name]
    first = report(case.facts()).frontier[0]
    assert first.source[0].line in case.lines
    assert any("no output differs" in text or "PROVED" in text for text in first.tried)


def test_what_is_made_of_other_inputs_too_is_no_function_to_copy() -> None:
    """It was followed to an input that nothing makes, and the report ended in a KeyError."""
    pair = Pair({"tp": 2})
    (x, shard), (w, _) = pair.input((4,)), pair.input((4,))
    pair.outputs(pair.base.emit("multiply", [x, w]), pair.dist.emit("negate", [shard]))
    tables = tables_of(pair)
    ((dist, base, _),) = tables["expect"]
    (op,) = [op for op, _, tensor in tables["result"] if tensor == dist]
    with pytest.raises(InputError, match="too"):
        apply(tables, [Edit(op, "function", dist, f"base/x0;{base}", 0, 1, "function")])
