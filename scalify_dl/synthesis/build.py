"""The distributed program of least communication that a program of one device has, between given placements.

    found = distribute(base, Mesh.parse("tp=4"), relations)
    found.verdict, found.graph, found.by_axis

Every op becomes one op on blocks, or on parts of a sum; between them, collectives. What is found is put to the rules of
`verify`: it is shown as PROVED only if they prove it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Annotation, Graph, Op, Port, Tensor
from scalify_dl.ir.layout import Digit, Entry, Pending, Repl
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import AxisPart, Placement
from scalify_dl.ir.programs import Program
from scalify_dl.ir.shapes import check
from scalify_dl.ir.transitions import own_block
from scalify_dl.lint.factors import factors_of
from scalify_dl.pairing.export import tables
from scalify_dl.pairing.pairing import find, listing
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.normalise import normalise
from scalify_dl.readers.relations import InputRelation, OutputRelation, Relations

from .choices import choices
from .layouts import PARTS, WHOLE, Layout, Link, Step, Ways, fits, local
from .search import Found, cheapest, events, width


@dataclass
class Distributed:
    """What was found: the program, whether it is proved, what its collectives send. `least` is false where the search
    was cut short."""

    graph: Graph
    verdict: Verdict
    least: bool
    cost: float
    steps: list[tuple[str, Step]] = field(default_factory=list)
    """Value, and what is done to it."""
    by_axis: dict[str, int] = field(default_factory=dict)
    assumptions: list[tuple[str, str]] = field(default_factory=list)


def distribute(
    base: Graph, mesh: Mesh, relations: Relations | None = None, links: Mapping[str, Link] | None = None
) -> Distributed:
    """Looks for it. InputError where placements do not fit, or nothing leads from one to the other."""
    relations = relations or Relations()
    normalise(base)
    check(base)
    given = {p.tensor: _layout(p, n, relations.inputs, base.inputs, mesh) for n, p in enumerate(base.inputs)}
    wanted = [(p.tensor, _layout(p, n, relations.outputs, base.outputs, mesh)) for n, p in enumerate(base.outputs)]
    said = factors_of(base, mesh, base.ops)
    ways = Ways(mesh, dict(links or {}))
    values = [*given, *(t for op in base.ops for t in op.results)]
    ways.know((t.shape, width(t)) for t in values)
    apart = _of_no_input(base)
    of = {op: choices(op, said.get(op), mesh)[: 1 if op in apart else None] for op in base.ops}
    found = cheapest(events(base, of, given, wanted), ways)
    if not found.turns:
        raise InputError("no distributed program leads from these placements to those")
    made = _built(base, found, ways, given, wanted)
    facts = tables(base, [made.graph], mesh, relations)
    analysis = analyse(facts, Options())
    proved = [row[2] for row in analysis.rows("output_verdict")]
    made.verdict = Verdict.PROVED if proved and set(proved) == {"PROVED"} else Verdict.UNKNOWN
    inputs = {tensor for _, _, tensor in facts["input"]}  # where these lie is what was asked for
    rows = {(str(t), str(text)) for t, text, _ in analysis.rows("assumption")}
    made.assumptions = sorted(row for row in rows if row[0] not in inputs or not row[1].startswith("corresponds to"))
    return made


def _of_no_input(base: Graph) -> set[Op]:
    """Ops of constants alone, whose blocks are had for nothing."""
    known: set[Tensor] = set()
    found = set()
    for op in base.ops:
        if known.issuperset(op.operands):
            found.add(op)
            known.update(op.results)
    return found


def _layout(
    port: Port, position: int, said: Sequence[InputRelation | OutputRelation], ports: Sequence[Port], mesh: Mesh
) -> Layout:  # fmt: skip
    """The placement of an input or an output: as it is said, else as the dump has it, else whole."""
    placement: Annotation | None = port.placement
    for relation in said:
        found = find(ports, relation.key)
        if not found:
            raise relation.place.error(f"nothing is called `{relation.key}`", expected=f"one of {listing(ports)}")
        if position in found:
            if isinstance(relation.dims, tuple) or getattr(relation, "parts", None) is not None:
                raise relation.place.error(f"{relation.key}: parts side by side are not distributed")
            placement = Placement(relation.dims or {}, getattr(relation, "pending", {}))
    words = tuple(WHOLE for _ in mesh.axes)
    name = port.path or port.tensor.name
    if placement is not None:
        asked = placement.layout(port.tensor.shape, mesh)
        words = tuple(_word(entries) for _, entries in asked.axes)
        if _layout_of(words, port.tensor.shape, mesh) != asked:
            raise InputError(f"the placement of `{name}` is not in blocks over whole axes", expected="in their order")
    if not fits(words, port.tensor.shape, mesh):
        raise InputError(f"{port.tensor.type} `{name}` cannot be cut like this", expected="blocks of one size")
    return words


def _word(entries: Sequence[Entry]) -> int:
    """One axis of a layout."""
    (entry,) = entries if len(entries) == 1 else (Repl(1),)
    return entry.dim if isinstance(entry, Digit) else PARTS if isinstance(entry, Pending) else WHOLE


def _layout_of(words: Layout, shape: tuple[int, ...], mesh: Mesh) -> object:
    """Such a placement as the rules know it."""
    names = [axis for axis, _ in mesh.axes]
    dims = {d: [AxisPart(a) for a, word in zip(names, words, strict=True) if word == d] for d in set(words) if d >= 0}
    pending = {a: "sum" for a, word in zip(names, words, strict=True) if word == PARTS}
    return Placement(dims, pending).layout(shape, mesh)


def _built(
    base: Graph, found: Found, ways: Ways, given: Mapping[Tensor, Layout], wanted: Sequence[tuple[Tensor, Layout]]
) -> Distributed:  # fmt: skip
    """The program that the turns say."""
    mesh = ways.mesh
    p = Program("dist", mesh)
    made = Distributed(p.graph, Verdict.UNKNOWN, found.complete, 0)
    sent: dict[str, int] = defaultdict(int)
    env: dict[Tensor, dict[Layout, Tensor]] = {}
    for port in base.inputs:
        layout = given[port.tensor]
        placed = p.graph.input(port.tensor.name, port.tensor.dtype, local(layout, port.tensor.shape, mesh),
                               path=port.path, placement=port.placement, range=port.range)  # fmt: skip
        env[port.tensor] = {layout: placed}
    outputs: dict[tuple[Tensor, Layout], Tensor] = {}
    at = {t: next(iter(row)) for t, row in env.items()}

    def placed_as(value: Tensor, layout: Layout) -> Tensor:
        have, here = env[value], at[value]
        for step in ways.way(value.shape, width(value), here, layout):
            if step.layout not in have:
                have[step.layout] = _step(p, step, have[here], value)
                made.steps.append((value.name, step))
                made.cost += step.cost
                sent[mesh.axes[step.axis][0]] += step.cost
            here = step.layout
        return have[layout]

    for event, choice, stays in found.turns:
        operands = [placed_as(t, layout) for t, layout in zip(event.reads, choice.needs, strict=True)]
        if isinstance(event.what, Op):
            results = _op(p.graph, event.what, operands, [
                (t.dtype, local(layout, t.shape, mesh)) for t, layout in zip(event.makes, choice.makes, strict=True)
            ])  # fmt: skip
            for t, layout, result in zip(event.makes, choice.makes, results, strict=True):
                env[t], at[t] = {layout: result}, layout
        elif operands:
            outputs[event.what, choice.needs[0]] = operands[0]
        at |= stays
    for port, end in zip(base.outputs, wanted, strict=True):
        p.graph.output(outputs[end], path=port.path, placement=port.placement)
    made.by_axis = dict(sent)
    check(p.graph)
    return made


def _op(
    graph: Graph, op: Op, operands: Sequence[Tensor], types: Sequence[tuple[str, tuple[int, ...]]]
) -> Sequence[Tensor]:  # fmt: skip
    """The op on what a rank has."""
    numbers = {key: list(values) for key, values in op.numbers.items()}
    if op.kind == "slice":
        uncut = [n == size for n, size in zip(op.result.shape, op.operands[0].shape, strict=True)]
        numbers["limit"] = [n if whole else limit for n, whole, limit in
                            zip(operands[0].shape, uncut, numbers["limit"], strict=True)]  # fmt: skip
    elif op.kind == "gather":
        sizes = zip(operands[0].shape, op.operands[0].shape, numbers["slice_sizes"], strict=True)
        numbers["slice_sizes"] = [have if asked == full else asked for have, full, asked in sizes]
    made = graph.add(op.kind, operands, types, name=op.name, numbers=numbers, symbols=op.symbols, regions=op.regions,
                     source=op.source)  # fmt: skip
    for old, new in zip(op.results, made.results, strict=True):
        new.literal = old.literal
    return made.results


def _step(p: Program, step: Step, x: Tensor, value: Tensor) -> Tensor:
    axis = p.mesh.axes[step.axis][0]
    name = f"{value.name}.{step.verb}.{axis}"
    if step.verb == "slice":
        return own_block(p, x, step.to, axis)
    if step.verb == "all-reduce":
        made = p.all_reduce(x, axis)
    elif step.verb == "reduce-scatter":
        made = p.reduce_scatter(x, axis, step.to)
    elif step.verb == "all-gather":
        made = p.all_gather(x, axis, step.dim)
    else:
        made = p.all_to_all(x, axis, step.to, step.dim)
    made.name = p.graph.ops[-1].name = name
    p.graph.ops[-1].source = ()
    return made

