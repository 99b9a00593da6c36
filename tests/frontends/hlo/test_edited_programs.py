"""HLO programs with something edited that changes what they compute are never proved equal; other spellings are."""
# ruff: noqa: E501 (tables of HLO text)

from __future__ import annotations

import pytest

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.pairing.export import tables
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.readers import hlo
from scalify_dl.report.conclude import conclude

X = "%x = f32[4,6]{1,0} parameter(0)"
K = "%k = f32[4,6]{1,0} parameter(1)"
ZERO = "%z = f32[] constant(0)"
PREDS = "%x = pred[4]{0} parameter(0); %k = pred[4]{0} parameter(1)"
SIGNAL = "%x = f32[1,8,1]{2,1,0} parameter(0); %k = f32[3,1,1]{2,1,0} parameter(1)"
ROWS = "%i = s32[2,1]{1,0} parameter(1); %u = f32[2,6]{1,0} parameter(2)"
TABLE = "%x = f32[2,3]{1,0} parameter(0); %c = f32[2,3]{1,0} constant({{1,2,3},{4,5,6}}); ROOT %y = f32[2,3]{1,0} add(%x, %c)"


def function(name: str, body: str) -> str:
    """A computation; instructions are apart by `;`."""
    return f"%{name} {{\n" + "\n".join(f"  {line.strip()}" for line in body.split(";")) + "\n}\n"


def module(body: str, before: str = "", header: str = "") -> str:
    """A module with an entry."""
    return f"HloModule m{header}\n\n{before}\nENTRY " + function("main", body)


def scalar(body: str) -> str:
    """A function %f of two numbers."""
    return function("f", f"%a = f32[] parameter(0); %b = f32[] parameter(1); {body}")


SUM = scalar("ROOT %s = f32[] add(%a, %b)")
ORDERED = "ROOT %s = pred[] compare(%a, %b), direction=LT"
NO_MINUS = "; ".join(
    f"%zero{v} = f32[] constant(0); %is{v} = pred[] compare(%{v}, %zero{v}), direction=EQ; %c{v} = f32[] select(%is{v}, %zero{v}, %{v})"
    for v in "ab"
)
"""%ca and %cb: the numbers, 0 where they are -0."""


def keyed(*names: str) -> str:
    """Ordered by XLA's integer keys."""
    return (
        "; ".join(
            f"%i{k} = s32[] bitcast-convert(%{v}); %n{k} = s32[] constant(0); %m{k} = pred[] compare(%i{k}, %n{k}), direction=LT;"
            f"%o{k} = s32[] constant(2147483647); %x{k} = s32[] xor(%i{k}, %o{k}); %k{k} = s32[] select(%m{k}, %x{k}, %i{k})"
            for k, v in enumerate(names)
        )
        + "; ROOT %s = pred[] compare(%k0, %k1), direction=LT"
    )


BRANCHES = function("p1", "%a = f32[4,6]{1,0} parameter(0); ROOT %s = f32[4,6]{1,0} add(%a, %a)") + function(
    "p2", "%a = f32[4,6]{1,0} parameter(0); ROOT %s = f32[4,6]{1,0} multiply(%a, %a)"
)


def root(line: str, *given: str, before: str = "", header: str = "") -> str:
    """A module of a matrix %x and an instruction."""
    return module("; ".join((X, *given, f"ROOT %y = {line}")), before, header)


def reduced(f: str, start: str = "0", dims: str = "1") -> str:
    return root(
        f"f32[4]{{0}} reduce(%x, %z), dimensions={{{dims}}}, to_apply=%f", f"%z = f32[] constant({start})", before=f
    )


def scattered(body: str, more: str = "") -> str:
    return root(
        "f32[4,6]{1,0} scatter(%x, %i, %u), update_window_dims={1}, inserted_window_dims={0}, "
        f"scatter_dims_to_operand_dims={{0}}, index_vector_dim=1, to_apply=%f{more}",
        *ROWS.split("; "),
        before=scalar(body),
    )


def windows_put(inserted: int) -> str:
    """Windows of two elements along the dim that is not inserted."""
    return scattered("ROOT %s = f32[] add(%a, %b)").replace("inserted_window_dims={0}", f"inserted_window_dims={{{inserted}}}").replace(
        "%u = f32[2,6]{1,0}", "%u = f32[2,2]{1,0}"
    )


def sorted_by(body: str, dim: int = 1) -> str:
    return root(f"f32[4,6]{{1,0}} sort(%x), dimensions={{{dim}}}, to_apply=%f", before=scalar(body))


def loop(limit: str = "3", step: str = "1", says: str = "", direction: str = "LT") -> str:
    """x doubled again and again."""
    type_ = "(s32[], f32[4,6]{1,0})"
    body = (
        f"%p = {type_} parameter(0); %i = s32[] get-tuple-element(%p), index=0; %v = f32[4,6]{{1,0}} get-tuple-element(%p), index=1;"
        f"%one = s32[] constant({step}); %j = s32[] add(%i, %one); %w = f32[4,6]{{1,0}} add(%v, %v); ROOT %t = {type_} tuple(%j, %w)"
    )
    test = (
        f"%p = {type_} parameter(0); %i = s32[] get-tuple-element(%p), index=0; %n = s32[] constant({limit});"
        f"ROOT %c = pred[] compare(%i, %n), direction={direction}"
    )
    return module(
        f"{X}; %z = s32[] constant(0); %t = {type_} tuple(%z, %x); %w = {type_} while(%t), condition=%test, body=%body{says};"
        "ROOT %y = f32[4,6]{1,0} get-tuple-element(%w), index=1",
        function("body", body) + function("test", test),
    )


def branch(index: str, names: str = "branch_computations={%p1, %p2}") -> str:
    return root(f"f32[4,6]{{1,0}} conditional(%i, %x, %x), {names}", f"%i = {index}", before=BRANCHES)


def gathered(more: str = "", start: int = 0) -> str:
    return root(
        f"f32[3,6]{{1,0}} gather(%x, %i), offset_dims={{1}}, collapsed_slice_dims={{0}}, start_index_map={{{start}}}, "
        f"index_vector_dim=1, slice_sizes={{1,6}}{more}",
        "%i = s32[3,1]{1,0} parameter(1)",
    )


def convolved(window: str) -> str:
    return module(
        f"{SIGNAL}; ROOT %y = f32[1,6,1]{{2,1,0}} convolution(%x, %k), window={{{window}}}, dim_labels=b0f_0io->b0f"
    )


def scaled(by: int) -> str:
    return root(
        "f32[4,6]{1,0} multiply(%x, %b)",
        f"%e = f32[] constant({by})",
        "%b = f32[4,6]{1,0} broadcast(%e), dimensions={}",
    )


PARTS = ", num_partitions=4"
GLOBAL = ", channel_id=1, use_global_device_ids=true"


def everywhere(groups: str, how: str = GLOBAL, f: str = SUM) -> str:
    """The sum of equal values over groups of four ranks."""
    return root(f"f32[4,6]{{1,0}} all-reduce(%x), replica_groups={groups}{how}, to_apply=%f", before=f, header=PARTS)


def by_rank(groups: str, how: str = GLOBAL) -> str:
    """The sum of x times the rank's number."""
    given = ("%p = u32[] partition-id()", "%q = f32[] convert(%p)", "%b = f32[4,6]{1,0} broadcast(%q), dimensions={}",
             "%v = f32[4,6]{1,0} multiply(%x, %b)")  # fmt: skip
    return root(
        f"f32[4,6]{{1,0}} all-reduce(%v), replica_groups={groups}{how}, to_apply=%f", *given, before=SUM, header=PARTS
    )


def permuted(pairs: str) -> str:
    return root(f"f32[4,6]{{1,0}} collective-permute(%x), source_target_pairs={pairs}, channel_id=1", header=PARTS)


def called(opcode: str, f: str = "multiply") -> str:
    inner = function("f", f"%q = f32[4,6]{{1,0}} parameter(0); ROOT %s = f32[4,6]{{1,0}} {f}(%q, %q)")
    return root(f"f32[4,6]{{1,0}} {opcode}(%st)", "%st = ((f32[4,6]{1,0}), f32[4,6]{1,0}, u32[]) async-start(%x), calls=%f",
                "%c = (f32[4,6]{1,0}, f32[4,6]{1,0}, u32[]) copy-start(%x)", before=inner).replace("copy-done(%st)", "copy-done(%c)")  # fmt: skip


def named_alike(inner: str) -> str:
    """A start whose name stands in a called function, too."""
    start = "%st = (f32[4,6]{1,0}, f32[4,6]{1,0}, u32[]) copy-start(%q)"
    f = function(
        "f",
        f"%p = f32[4,6]{{1,0}} parameter(0); %q = f32[4,6]{{1,0}} add(%p, %p); {start.replace('%st', inner)}; ROOT %s = f32[4,6]{{1,0}} copy-done({inner})",
    )
    return root(
        "f32[4,6]{1,0} copy-done(%st)", start.replace("%q", "%x"), "%w = f32[4,6]{1,0} call(%x), to_apply=%f", before=f
    )


TWICE, SQUARE, SAME = (
    root("f32[4,6]{1,0} add(%x, %x)"),
    root("f32[4,6]{1,0} multiply(%x, %x)"),
    root("f32[4,6]{1,0} copy(%x)"),
)
MINUS, DOT = (
    root("f32[4,6]{1,0} subtract(%x, %k)", K),
    "f32[4,4]{1,0} dot(%x, %k), lhs_contracting_dims={1}, rhs_contracting_dims={1}",
)
LESS = "pred[4,6]{1,0} compare(%x, %k), direction=LT"
NUMBERS = "%x = s32[4]{0} parameter(0); %k = s32[4]{0} parameter(1); ROOT %y = pred[4]{0} compare(%x, %k), direction=LT"
CALL = 'f32[4,6]{1,0} custom-call(%x), custom_call_target="k"'
BOTH = 'f32[4,6]{1,0} custom-call(%x, k), custom_call_target="k"'
TOP = "(f32[4,2]{1,0}, s32[4,2]{1,0}) topk(%x), k=2"
RNG = "%a = f32[] constant(0); %b = f32[] constant(1); ROOT %y = f32[8]{0} rng(%a, %b), distribution="
LOGIC = "ROOT %y = pred[4]{0} or(%z, %k)"
COPIED = "; ROOT %y = f32[24]{0} bitcast(%c)"

EDITED = {
    "bitcast to another layout": (root("f32[6,4]{1,0} bitcast(%x)"), root("f32[6,4]{0,1} bitcast(%x)")),
    "bitcast from another layout": (module(f"{X}; %c = f32[4,6]{{1,0}} copy(%x){COPIED}"), module(f"{X}; %c = f32[4,6]{{0,1}} copy(%x){COPIED}")),
    "tiles": (root("f32[24]{0} bitcast(%x)"), module("%x = f32[4,6]{1,0:T(2,2)} parameter(0); ROOT %y = f32[24]{0:T(2)} bitcast(%x)")),
    "zeros of both signs": (root(LESS, K), root(f"{LESS}, type=TOTALORDER", K)),
    "signed numbers as unsigned": (module(NUMBERS), module(f"{NUMBERS}, type=UNSIGNED")),
    "slice stride": (root("f32[4,3]{1,0} slice(%x), slice={[0:4], [0:3]}"), root("f32[4,3]{1,0} slice(%x), slice={[0:4], [0:6:2]}")),
    "slice out of range": (root("f32[4,6]{1,0} slice(%x), slice={[0:4], [0:6]}"), root("f32[4,6]{1,0} slice(%x), slice={[0:4], [0:12]}")),
    "declared otherwise": (root("f32[4,3]{1,0} slice(%x), slice={[0:4], [0:3]}"), root("f32[4,3]{1,0} slice(%x), slice={[0:4], [0:4]}")),
    "pad inside": (root("f32[4,11]{1,0} pad(%x, %z), padding=0_0x0_5", ZERO), root("f32[4,11]{1,0} pad(%x, %z), padding=0_0x0_0_1", ZERO)),
    "dot algorithm": (root(DOT, K), root(f"{DOT}, algorithm=dot_bf16_bf16_f32", K)),
    "dot sparsity": (root(DOT, K), root(f"{DOT}, sparsity=L.1@2:4", K)),
    "an attribute nobody knows": (TWICE, root("f32[4,6]{1,0} add(%x, %x), saturating=true")),
    "operands swapped": (MINUS, root("f32[4,6]{1,0} subtract(%k, %x)", K)),
    "an operand without its sign": (root(BOTH, K), root(BOTH.replace("k)", "%x)"), K)),
    "parameters renumbered": (MINUS, MINUS.replace("parameter(0)", "parameter(2)").replace("parameter(1)", "parameter(0)").replace("parameter(2)", "parameter(1)")),
    "two roots": (TWICE, module(f"{X}; ROOT %y = f32[4,6]{{1,0}} add(%x, %x); ROOT %z = f32[4,6]{{1,0}} multiply(%x, %x)")),
    "another root": (TWICE, module(f"{X}; %y = f32[4,6]{{1,0}} add(%x, %x); ROOT %z = f32[4,6]{{1,0}} multiply(%x, %x)")),
    "reducer twice": (reduced(SUM), reduced(scalar("%t = f32[] add(%a, %b); ROOT %s = f32[] add(%t, %b)"))),
    "reducer of one side": (reduced(SUM), reduced(scalar("ROOT %s = f32[] add(%a, %a)"))),
    "reducer in a narrower type": (reduced(SUM), reduced(scalar("%c = bf16[] convert(%a); %d = bf16[] convert(%b); %e = bf16[] add(%c, %d); ROOT %s = f32[] convert(%e)"))),
    "reducer with a narrower sum": (reduced(SUM), reduced(scalar("%e = f32[] add(%a, %b); %h = f16[] convert(%e); ROOT %s = f32[] convert(%h)"))),
    "maximum in a narrower type": (reduced(scalar("ROOT %s = f32[] maximum(%a, %b)"), "-inf"), reduced(scalar("%c = f16[] convert(%a); %d = f16[] convert(%b); %e = f16[] maximum(%c, %d); ROOT %s = f32[] convert(%e)"), "-inf")),
    "maximum by narrower keys": (reduced(scalar("ROOT %s = f32[] maximum(%a, %b)"), "-inf"), reduced(scalar("%c = f16[] convert(%a); %d = f16[] convert(%b); %g = pred[] compare(%c, %d), direction=GE; ROOT %s = f32[] select(%g, %a, %b)"), "-inf")),
    "reduce from 1": (reduced(SUM), reduced(SUM, "1")),
    "reduce another dim": (reduced(SUM), reduced(SUM, dims="0")),
    "scatter keeps the old": (scattered("ROOT %s = f32[] copy(%b)"), scattered("ROOT %s = f32[] copy(%a)")),
    "scatter rounds the new": (scattered("ROOT %s = f32[] copy(%b)"), scattered("%h = bf16[] convert(%b); ROOT %s = f32[] convert(%h)")),
    "scatter along another dim": (windows_put(0), windows_put(1)),
    "sort descending": (sorted_by(ORDERED), sorted_by(ORDERED.replace("LT", "GT"))),
    "sort by narrower keys": (sorted_by(ORDERED), sorted_by("%c = bf16[] convert(%a); %d = bf16[] convert(%b); ROOT %s = pred[] compare(%c, %d), direction=LT")),
    "sort by total order": (sorted_by(ORDERED), sorted_by(ORDERED.replace("direction=LT", "direction=LT, type=TOTALORDER"))),
    "sort by keys": (sorted_by(ORDERED), sorted_by(keyed("a", "b"))),
    "sort another dim": (sorted_by(ORDERED), sorted_by(ORDERED, 0)),
    "one step more": (loop(), loop("4")),
    "steps that the dump says": (loop(), loop(says=', backend_config={"known_trip_count":{"n":"4"}}')),
    "longer steps": (loop(), loop(step="2")),
    "one step more, by its test": (loop(), loop(direction="LE")),
    "steps that nobody counts": (loop(direction="NE"), loop("4", direction="NE", says=', backend_config={"known_trip_count":{"n":"3"}}')),
    "a branch out of range": (TWICE, branch("s32[] constant(5)")),
    "a branch before the first": (TWICE, branch("s32[] constant(-1)")),
    "true and false": (SQUARE, branch("pred[] constant(true)", "true_computation=%p1, false_computation=%p2")),
    "branches swapped": (branch("s32[] parameter(1)"), branch("s32[] parameter(1)", "branch_computations={%p2, %p1}")),
    "a value from outside": (TWICE, root("f32[4,6]{1,0} add(%v, %v)", "%t = token[] after-all()", "%o = (f32[4,6]{1,0}, token[]) infeed(%t)", "%v = f32[4,6]{1,0} get-tuple-element(%o), index=0")),
    "a call with side effects": (root(f"{CALL}, custom_call_has_side_effect=true"),) * 2,
    "a call's configuration": (root(f'{CALL}, backend_config="1"'), root(f'{CALL}, backend_config="2"')),
    "the smallest": (root(f"{TOP}, largest=true"), root(f"{TOP}, largest=false")),
    "sizes that are values": (TWICE, root("f32[<=4,6]{1,0} add(%x, %x)")),
    "a size that is set": (TWICE, root("f32[4,6]{1,0} add(%d, %d)", "%n = s32[] constant(2)", "%d = f32[4,6]{1,0} set-dimension-size(%x, %n), dimensions={0}")),
    "what is started": (TWICE, called("async-done")),
    "a start that nobody understands": (SQUARE, called("async-done").replace("calls=%f", "calls=%f, odd=1")),
    "done of another start": (SQUARE, called("copy-done")),
    "a start of the same name": (TWICE, named_alike("%st")),
    "branches of a boolean": (SQUARE, branch("pred[] constant(true)")),
    "two ways of an index": (SQUARE, branch("s32[] constant(1)", "true_computation=%p2, false_computation=%p1")),
    "the device's number": (TWICE, root("f32[4,6]{1,0} add(%x, %b)", "%p = u32[] partition-id()", "%q = f32[] convert(%p)", "%b = f32[4,6]{1,0} broadcast(%q), dimensions={}", header=PARTS)),
    "a baseline of several devices": (root("f32[4,6]{1,0} add(%x, %b)", "%p = u32[] partition-id()", "%q = f32[] convert(%p)", "%b = f32[4,6]{1,0} broadcast(%q), dimensions={}", header=PARTS), root("f32[4,6]{1,0} copy(%x)", header=PARTS)),
    "a table's order": (module(TABLE), module(TABLE.replace("5,6", "6,5"))),
    "an infinity's sign": (module(TABLE.replace("1,2", "inf,2")), module(TABLE.replace("1,2", "-inf,2"))),
    "a sum of booleans is no xor": (module(f"{PREDS}; ROOT %y = pred[4]{{0}} xor(%x, %k)"), module(f"{PREDS}; ROOT %y = pred[4]{{0}} add(%x, %k)")),
    "twice a boolean is not zero": (module(f"{PREDS}; %z = pred[4]{{0}} xor(%x, %x); {LOGIC}"), module(f"{PREDS}; %z = pred[4]{{0}} add(%x, %x); {LOGIC}")),
    "gather from another dim": (gathered(), gathered(start=1)),
    "gather of nothing": (gathered(), gathered().replace("slice_sizes={1,6}", "slice_sizes={0,6}")),
    "gather's mode": (gathered(), gathered(", mode=fill")),
    "a random distribution": (module(f"{RNG}rng_uniform"), module(f"{RNG}rng_normal")),
    "a format by its bits": (root("f32[4,6]{1,0} reduce-precision(%x), exponent_bits=8, mantissa_bits=7"), root("f32[4,6]{1,0} reduce-precision(%x), exponent_bits=5, mantissa_bits=10")),
    "a window turned round": (convolved("size=3"), convolved("size=3 rhs_reversal=1")),
    "a window turned twice": (convolved("size=3 rhs_reversal=1"), convolved("size=3 rhs_reversal=2")),
    "a window nobody knows": (convolved("size=3"), convolved("size=3 symmetric_padding=1")),
    "groups of all": (scaled(2), everywhere("{{0,1,2,3}}")),
    "groups as an iota": (scaled(2), everywhere("[1,4]<=[4]")),
    "a maximum over groups": (scaled(2), everywhere("{{0,1},{2,3}}", f=scalar("ROOT %s = f32[] maximum(%a, %b)"))),
    "numbers over pairs": (scaled(6), by_rank("{{0,3},{1,2}}")),
    "numbers over turned pairs": (scaled(2), by_rank("[2,2]<=[2,2]T(1,0)")),
    "groups of replicas": (scaled(6), by_rank("{{0,1,2,3}}", "")),
    "device ids without a channel": (scaled(6), by_rank("{{0,1,2,3}}", ", use_global_device_ids=true")),
    "a line is no ring": (SAME, permuted("{{0,1},{1,2},{2,3}}")),
}  # fmt: skip

RIGHT = {
    "bitcast that transposes": (root("f32[6,4]{0,1} transpose(%x), dimensions={1,0}"), root("f32[6,4]{0,1} bitcast(%x)")),
    "bitcast that reshapes": (root("f32[24]{0} reshape(%x)"), root("f32[24]{0} bitcast(%x)")),
    "operands without signs": (MINUS, root("f32[4,6]{1,0} subtract(x, k)", K)),
    "operands of both spellings": (MINUS, root("f32[4,6]{1,0} subtract(%x, k)", K)),
    "operands with types": (MINUS, root("f32[4,6]{1,0} subtract(f32[4,6]{1,0} %x, f32[4,6]{1,0} k)", K)),
    "no root: the last": (TWICE, module(f"{X}; %y = f32[4,6]{{1,0}} add(%x, %x)")),
    "a reducer in a wider type": (reduced(SUM), reduced(scalar("%c = f64[] convert(%a); %d = f64[] convert(%b); %e = f64[] add(%c, %d); ROOT %s = f32[] convert(%e)"))),
    "no batching dims": (scattered("ROOT %s = f32[] add(%a, %b)"), scattered("ROOT %s = f32[] add(%a, %b)", ", input_batching_dims={}")),
    "sort by total order, without -0": (sorted_by(ORDERED), sorted_by(f"{NO_MINUS}; ROOT %s = pred[] compare(%ca, %cb), direction=LT, type=TOTALORDER")),
    "sort by keys, without -0": (sorted_by(ORDERED), sorted_by(f"{NO_MINUS}; {keyed('ca', 'cb')}")),
    "steps that the dump says": (loop(), loop(says=', backend_config={"known_trip_count":{"n":"3"}}')),
    "what is started": (SQUARE, called("async-done")),
    "starts of two names": (SAME, named_alike("%other")),
    "starts of one name": (SAME, named_alike("%st")),
    "memory that is used again": (TWICE, TWICE.replace("HloModule m", "HloModule m, input_output_alias={ {}: (0, {}, may-alias) }")),
    "a table that lies otherwise": (module(TABLE), module(TABLE.replace("%c = f32[2,3]{1,0}", "%c = f32[2,3]{0,1}"))),
    "a sum of booleans": (module(f"{PREDS}; ROOT %y = pred[4]{{0}} or(%x, %k)"), module(f"{PREDS}; ROOT %y = pred[4]{{0}} add(%x, %k)")),
    "sorted indices": (gathered(), gathered(", indices_are_sorted=true")),
    "pairs": (scaled(2), everywhere("{{0,1},{2,3}}")),
    "pairs as an iota": (scaled(2), everywhere("[2,2]<=[4]")),
    "pairs as a turned iota": (scaled(2), everywhere("[2,2]<=[2,2]T(1,0)")),
    "a ring": (SAME, permuted("{{0,1},{1,2},{2,3},{3,0}}")),
}  # fmt: skip


def verdict(base: str, dist: str) -> str:
    """The verdict, or `refused`."""
    mesh = Mesh.parse(f"r={4 if PARTS in dist else 1}")
    try:
        facts = tables(hlo.read_text(base), [hlo.read_text(dist, mesh)], mesh)
    except InputError:
        return "refused"
    return conclude(analyse(facts, Options())).verdict.name


@pytest.mark.parametrize("name", EDITED)
def test_an_edit_that_changes_numbers_is_not_proved(name: str) -> None:
    assert verdict(*EDITED[name]) in ("REFUTED", "UNKNOWN", "refused")


@pytest.mark.parametrize("name", RIGHT)
def test_another_spelling_is_proved(name: str) -> None:
    assert verdict(*RIGHT[name]) == "PROVED"


@pytest.mark.parametrize(
    ("effect", "line"),
    [
        ("outfeed", "%o = token[] outfeed(%x, %t)"),
        ("custom-call f", '%o = f32[4,6] custom-call(%x), custom_call_target="f", custom_call_has_side_effect=true'),
    ],
)
def test_values_that_are_sent_elsewhere_are_listed(effect: str, line: str) -> None:
    graph = hlo.read_text(root("f32[4,6]{1,0} add(%x, %x)", "%t = token[] after-all()", line))
    assert [(a.text, a.why) for a in graph.assumptions] == [
        (f"what `{effect}` does besides giving results is not compared", "effect")
    ]
