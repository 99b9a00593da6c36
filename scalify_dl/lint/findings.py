"""What a lift, the rules and a run say of a program, put to `datalog/lift.dl`, and its answers in words."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import islice
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.finding import Finding, Happening
from scalify_dl.ir.graph import Graph, Op, Tensor
from scalify_dl.ir.layout import Digit, Layout, Pending, Window, dims_written
from scalify_dl.ir.vocabulary import COLLECTIVES, ELEMENTWISE, RANDOM
from scalify_dl.prove.pipeline import Analysis
from scalify_dl.prove.verdict import Verdict
from scalify_dl.pysouffle import Program

from .anywhere import alike_by, counts_more, fits_anywhere, lies_anywhere
from .collectives import exchanged
from .costs import cost_rows, read_costs
from .cuts import cut_rows, read_cuts
from .expected import Boundary
from .given import Given
from .grid import Grid
from .judge import Result, computes, held_rows
from .lift import LIFTING, Lifted, Stopped
from .lines import lines
from .masks import of_mask, strays
from .origins import Origins
from .rules import lint_rules
from .spmd import read_types, type_rows
from .words import holds_words, suggestion

if TYPE_CHECKING:
    from scalify_dl.oracle.program import Shard

    from .numbers import Run

Row = tuple[object, ...]
OF_PLACES = frozenset(("placed-differently", "whole-dim", "reduces-blocks", "multiple", "added-per-rank"))
"""Kinds of violations that may be no more than a wrong word about an input."""
NOTHING_KNOWN = "what it is of one device's values is not known"
"""Why an output is open that was not lifted."""
FOLLOWED = 200
"""So many values that are made of other ranks' blocks are looked at in a run."""
_layout = lru_cache(4096)(Layout.parse)


def live(dist: Graph, ends: Iterable[Boundary]) -> set[Op]:
    """Ops that lead to an output that is looked at."""
    maker = {t: op for op in dist.ops for t in op.results}
    found: set[Op] = set()
    stack = [end.port.tensor for end in ends]
    while stack:
        op = maker.get(stack.pop())
        if op is not None and op not in found:
            found.add(op)
            stack += op.operands
    return found


def judged(
    analysis: Analysis, start: Given, lifted: Lifted, dist: Graph, grid: Grid, ends: Sequence[Boundary],
    ids: dict[Tensor, str], op_ids: dict[Op, str],
) -> Result:  # fmt: skip
    """The result: findings, verdict, what is missing."""
    alive = live(dist, ends)
    used = {t for op in alive for t in op.operands} | {end.port.tensor for end in ends}
    corr = held_rows(analysis)
    by_parts = {(d, b) for d, piece, b, _, _ in analysis.rows("corr") if piece}  # of values side by side
    layouts: dict[tuple[str, str], str] = {}
    for d, b, text in sorted(corr):
        layouts.setdefault((d, b), text)
    stops = [stop for stop in lifted.stops if stop.op in alive]
    placed = {d for d, _, verdict, _ in analysis.rows("output_verdict") if verdict == "PROVED"}
    unfit = {ids[e.port.tensor] for e in ends if not e.fits}
    placed -= unfit
    open_ends = [e for e in ends if e.held is not None and ids[e.port.tensor] not in placed]
    asked_of = {t for stop in stops if stop.kind != "lemma" for t in stop.op.operands}
    asked_of |= {end.port.tensor for end in ends} | {op.result for op in lifted.masks}
    misdealt = [op for op in lifted.other_blocks if op in alive]
    of_others = list(islice(_made_of(misdealt, dist), FOLLOWED))
    asked_of.update(of_others)

    @cache
    def run() -> Run:
        from .numbers import Run  # with numpy: most programs are proved without

        return Run(analysis, _supposed(asked_of, lifted, grid, ids, layouts))

    rows: dict[str, list[Row]] = defaultdict(list)
    for op in alive:
        if op.kind == "collective-permute" and exchanged(grid, {to: rank for rank, to in op.pairs or ()}) is None:
            rows["goes_round"].append((op_ids[op],))
        rows["lint_op"].append((op_ids[op], op.kind, int(computes(op))))
        rows["reads"] += [(op_ids[op], pos, ids[t]) for pos, t in enumerate(op.operands)]
        rows["makes"] += [(op_ids[op], ids[t]) for t in op.results if t in used]
    for tensor, held in lifted.held.items():
        d, b = ids[tensor], ids[held.base]
        rows["supposed"].append((d, b))
        if (held.free and held.calm) or tensor in lifted.fixed:
            rows["fits_any"].append((d,))
        found = layouts.get((d, b))
        if found is None and tensor in asked_of and run().agrees(d):
            found = str(held.layout(grid)) if held.along is None else None
            rows["agrees"].append((d,))
        elif found is not None:
            rows["proved"].append((d, b))
        parts = held.along is not None and (d, b) in by_parts
        if parts:
            rows["proved"].append((d, b))
        if found is not None:
            rows["entry"] += [(d, *entry) for entry in _entries(found)]
            scale = _layout(found).scale
            rows["times"].append((d, scale.numerator, scale.denominator))
    rows["of_rank"] = [(ids[t],) for t in (*lifted.ranked, *lifted.mixed)]
    rows |= cut_rows(alive, stops, lifted, ids, op_ids)
    rows["stopped"] = [(op_ids[stop.op], stop.kind) for stop in stops]
    named = [stop for stop in stops if stop.kind != "lemma"]
    alike, makers = alike_by(run, ids), {t: op for op in dist.ops for t in op.results}
    for stop in named:
        if _contradicted(stop, lifted, run, ids, op_ids[stop.op]) and not lies_anywhere(stop, lifted, makers, alike):
            rows["contradicted"].append((op_ids[stop.op],))
    rows["other_blocks"] = [(op_ids[op],) for op in misdealt]
    rows["rolled"] = [(op_ids[op],) for op in misdealt if op in lifted.rolled]
    rows["contradicted"] += [
        (op_ids[op],) for op in misdealt
        if op.result in lifted.held and run().contradicts(ids[op.result], ids[lifted.held[op.result].base], [])
    ]  # fmt: skip
    rows["denied"] = [(ids[t],) for t in dict.fromkeys(of_others) if run().denies(ids[t])]
    rows["dealt"] = [(op_ids[op],) for op in lifted.dealt if op in alive]
    masks = [op for op in lifted.masks if op in alive]
    rows["strays"] = [(op_ids[op],) for op in masks if strays(op, lifted, run, ids, layouts)]
    rows["boundary"] = [(ids[end.port.tensor],) for end in ends]
    rows["placed"] = [(d,) for d in placed]
    asked = [(ids[e.port.tensor], ids[e.held.base]) for e in open_ends if e.held is not None and e.fits]
    shapes = {
        ids[e.port.tensor] for e in open_ends
        if e.held is not None and not e.fits and not e.held.free and not fits_anywhere(e, alike)
    }  # fmt: skip
    several = {ids[e.port.tensor]: e.port.tensor for e in open_ends if e.held is not None and e.held.scale != 1}
    other = run().different(asked) if asked else []
    other = [d for d in other if d not in several or not counts_more(several[d], lifted, makers, alike)]
    rows["differs"] = [(d,) for d in (*other, *shapes)]  # by its shape alone it is not as asked
    drawn = _drawn(dist)
    rows["disagree"] = [
        (ids[e.port.tensor],) for e in ends
        if e.stated and ids[e.port.tensor] not in placed and e.port.tensor not in drawn
        and run().disagree(ids[e.port.tensor], _layout(e.wanted))
    ]  # fmt: skip
    rows["one_way"] = [(ids[t],) for t in lifted.one_way]
    if lifted.one_way or lifted.other_blocks:
        rows["lies_alike"] = [(op_ids[op], ids[t]) for op in alive for t in op.operands if _lies_alike(op, t, lifted)]
    rows["guess"] = [(ids[port.tensor],) for port in start.guessed if port.tensor in used]
    rows["of_type"] = list(type_rows(alive, lifted, grid, ids))
    rows |= cost_rows(dist, grid, ids, op_ids)
    program = lint_rules().fresh()
    for relation, facts in rows.items():
        program.insert(relation, list(dict.fromkeys(facts)))
    program.run()
    result = _result(program, analysis, start, lifted, dist, grid, ends, ids, op_ids, layouts, stops)
    if dist.types or dist.transitions:  # nobody else asks
        result.sure = _sure(dist, start, lifted, grid, ids, corr, {row[0] for row in rows["fits_any"]})
    if result.verdict is Verdict.UNKNOWN:
        result.borne = _borne(stops, run, ids)
    return result


def _made_of(ops: Sequence[Op], dist: Graph) -> Iterator[Tensor]:
    """What some ops make, and what is made of that, the nearest first."""
    readers: dict[Tensor, list[Op]] = defaultdict(list)
    for op in dist.ops:
        for t in op.operands:
            readers[t].append(op)
    front = list(dict.fromkeys(t for op in ops for t in op.results))
    seen = set(front)
    while front:
        yield from front
        front = list(dict.fromkeys(t for f in front for op in readers[f] for t in op.results if t not in seen))
        seen.update(front)


def _drawn(dist: Graph) -> set[Tensor]:
    """What may hang on random numbers, which ranks may draw apart."""
    found: set[Tensor] = set()
    for op in dist.ops:
        if op.kind in RANDOM or op.regions or not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _sure(
    dist: Graph, start: Given, lifted: Lifted, grid: Grid, ids: dict[Tensor, str], corr: set[tuple[str, str, str]],
    loose: Collection[object],
) -> set[Tensor]:  # fmt: skip
    """Values that are proved to be as they were lifted, that are so in no other placement, and rest on no guess."""
    guessed = {port.tensor for port in start.guessed}
    for op in dist.ops:
        if not guessed.isdisjoint(op.operands):
            guessed.update(op.results)
    return {
        t for t, held in lifted.held.items() if t not in guessed and ids[t] not in loose and held.along is None
        and (ids[t], ids[held.base], str(held.layout(grid))) in corr
    }  # fmt: skip


def _lies_alike(op: Op, tensor: Tensor, lifted: Lifted) -> bool:
    """Whether an operand of an elementwise op lies in blocks wherever the result does, and could not lie otherwise; one
    of a product, wherever what it is summed up with does."""
    mine, made = lifted.held.get(tensor), lifted.held.get(op.results[0])
    if op.kind == "dot" and mine is not None:
        others = [h for t in op.operands if t is not tensor and (h := lifted.held.get(t)) is not None]
        return made is not None and any(
            isinstance(e, Digit) and isinstance(f, Digit)
            for h in others for e, f in zip(h.mesh, mine.mesh, strict=True)
        )
    if mine is None or made is None or op.kind not in ELEMENTWISE:
        return False
    cut = [(e, f) for e, f in zip(mine.mesh, made.mesh, strict=True) if isinstance(f, Digit)]
    return bool(cut) and all(e == f and f.dim not in mine.free for e, f in cut if isinstance(f, Digit))


def _borne(stops: Iterable[Stopped], run: Callable[[], Run], ids: dict[Tensor, str]) -> dict[Tensor, Layout]:
    """Where results of ops that stopped are, by a run, what one device makes of what the operands hold."""
    found = {}
    for stop in stops:
        if stop.kind != "unclear" and stop.probe is not None and stop.probe.results[0] in ids:
            value, counterpart = ids[stop.op.results[0]], ids[stop.probe.results[0]]
            layout = run().placement(value, counterpart, [ids[t] for t in stop.op.operands])
            if layout is not None:
                found[stop.op.results[0]] = layout
    return found


def _supposed(
    tensors: Iterable[Tensor], lifted: Lifted, grid: Grid, ids: dict[Tensor, str], proved: dict[tuple[str, str], str]
) -> list[Shard]:
    """What is supposed of values and not proved, as correspondences that a run may bear out."""
    from scalify_dl.oracle.program import Shard

    found = []
    for tensor in dict.fromkeys(tensors):
        held = lifted.held.get(tensor)
        if held is None or (ids[tensor], ids[held.base]) in proved:
            continue
        if held.along is None:
            found.append(Shard(ids[tensor], (), ids[held.base], (), held.layout(grid)))
        for p in held.parts:
            here, there = Window(held.along or 0, p.lo, p.hi), Window(held.along or 0, p.base_lo, p.base_hi)
            found.append(Shard(ids[tensor], (here,), ids[held.base], (there,), held.part(p, grid).layout(grid)))
    return found


def _entries(text: str) -> Iterable[tuple[str, str, int]]:
    for axis, entries in _layout(text).axes:
        for entry in entries:
            if isinstance(entry, Digit):
                yield axis, "digit", entry.dim
            elif isinstance(entry, Pending) and entry.size > 1:
                yield axis, entry.reducer, -1


def _contradicted(stop: Stopped, lifted: Lifted, run: Callable[[], Run], ids: dict[Tensor, str], op: str) -> bool:
    """Whether a run says that the result of an op that stopped is none of the values of one device that it could be:
    what the op makes of the whole values, or, of one that moves values, the value itself."""
    result, operands = ids[stop.op.results[0]], [ids[t] for t in stop.op.operands]
    bases = [ids[lifted.held[t].base] for t in stop.op.operands if t in lifted.held]
    if stop.probe is None and stop.op.kind not in LIFTING and len(bases) == len(operands):
        return run().not_of_whole(op, result, bases, operands)
    counterparts = [ids[t] for t in stop.probe.results[:1] if t in ids] if stop.probe is not None else bases[:1]
    return bool(counterparts) and all(run().contradicts(result, c, operands) for c in counterparts)


def _result(
    program: Program, analysis: Analysis, start: Given, lifted: Lifted, dist: Graph, grid: Grid,
    ends: Sequence[Boundary], ids: dict[Tensor, str], op_ids: dict[Op, str], layouts: dict[tuple[str, str], str],
    stops: Sequence[Stopped],
) -> Result:  # fmt: skip
    words = {str(kind): str(text) for kind, text in program.relation("violation_kind")}
    by_op = {op_ids[op]: op for op in dist.ops}
    reason = {op_ids[stop.op]: stop for stop in stops}
    position = {op: n for n, op in enumerate(dist.ops)}
    maker = {t: op for op in dist.ops for t in op.results}
    findings, missing, origins = [], [], Origins(dist, lifted)
    for name, kind, level in sorted(program.relation("finding"), key=lambda r: (position[by_op[str(r[0])]], r[1])):
        op, stop = by_op[str(name)], reason.get(str(name))
        text = stop.text if stop is not None else "the rules do not prove what it was lifted to"
        if kind == "other-blocks":
            text = f"{words[str(kind)]}: {lifted.other_blocks[op]}" + ("; or a roll is meant" * (level == "note"))
            findings.append(replace(_finding(op, str(kind), text, lifted, grid, origins), level=str(level)))
        elif level == "error" and stop is not None:
            findings.append(_finding(op, str(kind), f"{words[str(kind)]}: {text}", lifted, grid, origins))
        elif level == "error":
            findings.append(of_mask(op, str(kind), words[str(kind)], lifted, maker))
        else:
            place = f" ({lines(op)[0]})" if lines(op) else ""
            missing.append(f"`{op.name}` ({op.kind}){place}: {text}")
    ports = {ids[end.port.tensor]: end for end in ends}
    open_ends: dict[Tensor, Verdict] = {}
    for value, kind, level in sorted(program.relation("open_output")):
        end = ports[str(value)]
        open_ends[end.port.tensor] = Verdict.REFUTED if level == "error" else Verdict.UNKNOWN
        if level == "error":
            findings.append(_output(end, str(kind), maker.get(end.port.tensor), grid, origins))
        elif kind == "guess":
            missing.append(f"output `{_name(end)}` rests on inputs whose placement nobody says")
        elif end.held is None or not missing:
            missing.append(f"output `{_name(end)}`: {_why_open(end, grid)}")
    missing += [f"input `{t.name}`: {why}" for t, why in start.unplaced.items()]
    missing += [f"input `{p.tensor.name}` is taken to be whole on every rank: say it under `inputs:` of the relations"
                " file, `{dims: {}}`" for p in start.guessed]  # fmt: skip
    ((verdict,),) = list(program.relation("verdict")) or [("UNKNOWN",)]
    if analysis.stopped:
        missing.append(analysis.stopped)
        verdict = "UNKNOWN" if verdict == "PROVED" else verdict
    if list(analysis.rows("inconsistent")):
        raise InputError("what is said of the inputs contradicts itself")
    findings += [
        Finding(note.kind, "note", note.text, op=op_ids[note.op], name=note.op.name, source=lines(note.op))
        for note in lifted.notes
    ]
    costs, moved = read_costs(program, dist, op_ids)
    findings += moved + read_cuts(program, position, op_ids)
    proved = {str(v) for v, _ in layouts}
    counted = [op for op in live(dist, ends) if computes(op)]
    shown = [p.tensor for p in dist.inputs]
    shown += [t for op in dist.ops if op.kind in COLLECTIVES for t in op.results] + [e.port.tensor for e in ends]
    return Result(
        Verdict(str(verdict)), findings, lifted, lifted.base, grid, list(ends), _assumptions(analysis),
        missing if verdict != "PROVED" else [], len(counted),
        sum(all(ids[t] in proved for t in op.results[:1]) for op in counted), analysis.stats(),
        shown, read_types(program, ids, shown), open_ends, analysis.view, costs,
    )  # fmt: skip


def _assumptions(analysis: Analysis) -> list[tuple[str, str, str]]:
    view = analysis.view
    rows = {(view.name(t), text, why) for t, text, why in view.results("assumption")}
    return sorted(row for row in rows if row[2] not in ("given", "annotation", "name"))


def _happened(first: str, at: str, ops: Iterable[Op]) -> tuple[Happening, ...]:
    """Where it shows, and where it came from."""
    return (Happening(None, first, at), *(Happening(None, op.name, (lines(op) or ("",))[0]) for op in ops))


def _from(events: Sequence[Happening]) -> str:
    """Where it came from, in words."""
    places = dict.fromkeys(f"`{e.name}`" + (f" ({e.source})" if e.source else "") for e in events[1:])
    return f"it is so since {', '.join(list(places)[:3])}" if places else ""


def _finding(op: Op, kind: str, text: str, lifted: Lifted, grid: Grid, origins: Origins) -> Finding:
    held = [f"`{t.name}` holds {holds_words(lifted.held[t], grid)}" for t in op.operands if t in lifted.held]
    events = _happened(op.name, (lines(op) or ("",))[0], origins.of(op.operands))
    near = dict(origins.inputs(op.operands)) if kind in OF_PLACES else {}
    made = [f"input `{t.name}` is {holds_words(lifted.held[t], grid)}" for t in near if t in lifted.held][:6]
    text = "; ".join(filter(None, [text, *held, _from(events), *made]))
    events += tuple(Happening(None, t.name, (lines(reader) or ("",))[0]) for t, reader in near.items())
    return Finding(
        kind, "error", text, events, op=op.name, name=op.name, source=lines(op),
        suggestion=suggestion(kind, op, lifted, grid),
    )  # fmt: skip


def _name(end: Boundary) -> str:
    return end.port.path or end.port.tensor.name


def _why_open(end: Boundary, grid: Grid) -> str:
    if end.held is None:
        return NOTHING_KNOWN
    asked = f", asked for is {_asked(end)}" if end.stated else ""
    return f"it was lifted to {holds_words(end.held, grid)}, which is not proved{asked}"


def _asked(end: Boundary) -> str:
    """The layout that is asked of an output, in words."""
    dims, open_on = dims_written(end.wanted), [
        axis for axis, entries in Layout.parse(end.wanted).axes if any(isinstance(one, Pending) for one in entries)
    ]  # fmt: skip
    words = [f"cut as {dims}"] if dims != "{}" else []
    words += [f"parts of a sum over {', '.join(open_on)}"] if open_on else []
    return " and ".join(words) or "the whole on every rank"


def _output(end: Boundary, kind: str, op: Op | None, grid: Grid, origins: Origins) -> Finding:
    places = lines(op) if op is not None else ()
    first = end.port.tensor.name, (places or ("",))[0]
    if kind == "disagreeing-output":
        text = f"an output of which ranks hold different numbers where they should hold the same: `{_name(end)}`"
        return Finding(kind, "error", f"{text}; asked for is {_asked(end)}", _happened(*first, origins.of([])),
                       op=op.name if op is not None else None, name=_name(end), source=places)  # fmt: skip
    assert end.held is not None
    said = {
        "unreduced-output": "an output that is still to be reduced",
        "multiple-output": "an output that was counted several times",
        "misplaced-output": "an output that lies otherwise than it should",
    }[kind]
    asked = f"; asked for is {_asked(end)}" if end.stated else ""
    text = f"{said}: `{_name(end)}` holds {holds_words(end.held, grid)}{asked}"
    events = _happened(*first, origins.of([end.port.tensor]))
    text = "; ".join(filter(None, [text, _from(events)]))
    return Finding(kind, "error", text, events, op=op.name if op is not None else None, name=_name(end), source=places,
                   suggestion=suggestion(kind, op, None, grid, end.held))  # fmt: skip
