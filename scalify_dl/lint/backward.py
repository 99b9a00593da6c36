"""Gradients that a program computes against those that are derived of its forward part.

The program was lifted: collectives are gone, and what is left is one program of one device. Of its outputs that are no
gradients the backward is derived; both are compared as two programs. A collective that is not the adjoint of the
forward's either leaves no program of one device (a violation of its own) or another gradient than the derived one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scalify_dl.adjoint import NoAdjoint, backward
from scalify_dl.adjoint.run import ONE
from scalify_dl.adjoint.tiles import join_tiles
from scalify_dl.errors import InputError
from scalify_dl.finding import Finding, Happening
from scalify_dl.ir.copies import copied
from scalify_dl.ir.graph import Graph, Op, Port, Tensor
from scalify_dl.ir.programs import Program
from scalify_dl.oracle import load_program, run_trial, shrink
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS, elements
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.shrink.extents import Conflict
from scalify_dl.pairing.export import tables
from scalify_dl.pairing.pairing import find, listing
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.relations import Relations

from .given import COTANGENT, GRADIENT
from .judge import Result
from .lines import lines

Array = np.ndarray[Any, Any]
TOLERANCE = 1e-6


@dataclass
class Compared:
    """What became of each gradient, by the name of its output: proved, different, alike in numbers, or unknown."""

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    derived: Graph | None = None

    @property
    def verdict(self) -> Verdict:
        """Of all of them."""
        found = set(self.verdicts.values())
        if Verdict.REFUTED in found:
            return Verdict.REFUTED
        return Verdict.PROVED if found == {Verdict.PROVED} and not self.missing else Verdict.UNKNOWN


def compare_backward(result: Result, dist: Graph, relations: Relations, options: Options) -> Compared:
    """Derives the backward of what was lifted, and compares. InputError where it is not said which outputs are
    gradients."""
    names = [port.path or port.tensor.name for port in dist.outputs]
    wrt = _gradients(dist, relations)
    held = {end.port.tensor: end.held.base for end in result.boundaries if end.held is not None and end.held.calm}
    bases = [held.get(port.tensor) for port in dist.outputs]
    inputs = [port.tensor for port in result.baseline.inputs]
    given = _cotangents(dist, relations, names, wrt)
    found = Compared()
    asked = [n for n in wrt if bases[n] is not None]
    found.missing += [f"`{names[n]}` is nothing of one device's" for n in wrt if bases[n] is None]
    if not asked:
        return found
    joint = Graph("derived", inputs=list(result.baseline.inputs), ops=list(result.baseline.ops),
                  lookups_fail=dist.lookups_fail)  # fmt: skip
    p = Program("derived", ONE, joint)
    seeds: dict[Tensor, Tensor] = {}
    for n, seed in given.items():
        base = bases[n]
        if base is None:
            found.missing.append(f"`{names[n]}` is nothing of one device's")
            return found
        one = inputs[seed] if seed is not None else p.full(1.0, base.shape, base.dtype)
        seeds[base] = p.add(seeds[base], one) if base in seeds else one
    try:
        made = backward(p, seeds, [inputs[wrt[n]] for n in asked])
    except NoAdjoint as error:
        found.missing.append(error.message)
        return found
    recovered = _copy(result.baseline, [(names[n], bases[n]) for n in asked])
    for n, gradient in zip(asked, made, strict=True):
        x = inputs[wrt[n]]
        joint.output(gradient if gradient is not None else p.full(0, x.shape, x.dtype), path=names[n])
    _live(joint)
    if not any(op.kind == "pad" for op in result.baseline.ops):  # gradients of slices are written as here
        join_tiles(joint)
        _live(joint)
    found.derived = joint
    _judge(found, joint, recovered, [names[n] for n in asked], [_maker(dist, n) for n in asked], options)
    return found


def with_backward(result: Result, dist: Graph, relations: Relations, options: Options) -> Result:
    """A result to which is added what is said of gradients."""
    found = compare_backward(result, dist, relations, options)
    result.findings += found.findings
    result.missing += found.missing
    result.gradients_of |= found.verdicts
    if result.verdict is not Verdict.REFUTED and found.verdict is not Verdict.PROVED:
        result.verdict = found.verdict
    return result


def _gradients(dist: Graph, relations: Relations) -> dict[int, int]:
    """Output → the input whose gradient it is."""
    found: dict[int, int] = {}
    paths = {port.path: n for n, port in enumerate(dist.inputs) if port.path is not None}
    for relation in relations.gradients:
        ends, starts = find(dist.outputs, relation.output), find(dist.inputs, relation.input)
        for ports, key, some in ((dist.outputs, relation.output, ends), (dist.inputs, relation.input, starts)):
            if len(some) != 1:
                raise relation.place.error(f"gradients: `{key}` names {len(some)} values",
                                           expected=f"one of {listing(ports)}")  # fmt: skip
        found[ends[0]] = starts[0]
    for n, port in enumerate(dist.outputs):
        of = paths.get((port.path or "").removeprefix(GRADIENT)) if (port.path or "").startswith(GRADIENT) else None
        if of is not None:
            found.setdefault(n, of)
    if not found:
        raise InputError("no output is known to be a gradient", file=dist.file,
                         expected="`gradients: {OUTPUT: INPUT}` in the relations file")  # fmt: skip
    return found


def _cotangents(
    dist: Graph, relations: Relations, names: Sequence[str], wrt: Mapping[int, int]
) -> dict[int, int | None]:
    """Output → the input that holds its cotangent; None: it is 1."""
    paths = {port.path: n for n, port in enumerate(dist.inputs)}
    found: dict[int, int | None] = {
        n: paths[COTANGENT + name] for n, name in enumerate(names) if COTANGENT + name in paths and n not in wrt
    }
    for relation in relations.cotangents:
        ends = find(dist.outputs, relation.output)
        starts = [None] if relation.input == "1" else find(dist.inputs, relation.input)
        if len(ends) != 1 or len(starts) != 1:
            raise relation.place.error(f"cotangents: `{relation.output}: {relation.input}` is no output and input")
        found[ends[0]] = starts[0]
    if found:
        return found
    scalars = [n for n, port in enumerate(dist.outputs)
               if n not in wrt and not port.tensor.shape and port.tensor.dtype[0] in "fb"]  # fmt: skip
    if len(scalars) != 1:
        raise InputError("it is not known of which output the gradients are", file=dist.file,
                         expected="`cotangents: {OUTPUT: 1}` in the relations file, or an input for 1")  # fmt: skip
    return {scalars[0]: None}


def _maker(dist: Graph, output: int) -> Op | None:
    tensor = dist.outputs[output].tensor
    return next((op for op in dist.ops if tensor in op.results), None)


def _copy(graph: Graph, outputs: Sequence[tuple[str, Tensor | None]]) -> Graph:
    """The same program with these outputs, sharing nothing."""
    made = Graph("recovered", lookups_fail=graph.lookups_fail)
    known: dict[Tensor, Tensor] = {}
    for port in graph.inputs:
        known[port.tensor] = copy(port.tensor)
        made.inputs.append(Port(known[port.tensor], port.path, None, port.range))
    made.ops = [copied(op, known, "") for op in graph.ops]
    for name, tensor in outputs:
        assert tensor is not None
        made.output(known[tensor], path=name)
    _live(made)
    return made


def _live(graph: Graph) -> None:
    """Leaves out what no output depends on."""
    maker = {t: op for op in graph.ops for t in op.results}
    kept: set[Op] = set()
    stack = [port.tensor for port in graph.outputs]
    while stack:
        op = maker.get(stack.pop())
        if op is not None and op not in kept:
            kept.add(op)
            stack += op.operands
    graph.ops = [op for op in graph.ops if op in kept]


def _judge(
    found: Compared, derived: Graph, recovered: Graph, names: Sequence[str], makers: Sequence[Op | None],
    options: Options,
) -> None:  # fmt: skip
    facts = tables(derived, [recovered], ONE, Relations())
    analysis = analyse(facts, options)
    pairs_of = [(d.tensor, b.tensor) for d, b in zip(recovered.outputs, derived.outputs, strict=True)]
    ids = dict(zip(dict.fromkeys(pairs_of), [(str(d), str(b)) for d, b, *_ in facts["expect"]], strict=True))
    expected = [ids[pair] for pair in pairs_of]
    proved = {str(row[0]) for row in analysis.rows("output_verdict") if row[2] == "PROVED"}
    numbers = _numbers(facts.tables, expected) if any(d not in proved for d, _ in expected) else {}
    for name, (d, _), op in zip(names, expected, makers, strict=True):
        if d in proved:
            found.verdicts[name] = Verdict.PROVED
            continue
        pairs = numbers.get(d)
        if pairs is None or not all(np.isfinite(x).all() for pair in pairs for x in pair):
            found.verdicts[name] = Verdict.UNKNOWN
            found.missing.append(f"`{name}`: the rules do not prove it the derived gradient, and no run says")
        elif all(np.abs(x - y).max(initial=0) <= TOLERANCE * max(1, np.abs(x).max(initial=0)) for x, y in pairs):
            found.verdicts[name] = Verdict.UNKNOWN
            found.missing.append(f"`{name}`: it is the derived gradient in numbers, which is not proved")
        else:
            found.verdicts[name] = Verdict.REFUTED
            found.findings.append(_finding(name, op, _factor(pairs)))


def _numbers(
    facts: Mapping[str, Any], expected: Sequence[tuple[str, str]]
) -> dict[str, list[tuple[Array, Array]]]:
    """Derived and computed gradients in runs on reals, which lie on no step; nothing where it cannot be run."""
    found: dict[str, list[tuple[Array, Array]]] = {}
    try:
        program = load_program(facts)
        if elements(program) > DIRECT_ELEMENTS:
            program = shrink(program, [], 2).program
        for seed in (1, 2):
            trial = run_trial(program, seed, "reals", keep_base=[b for _, b in expected],
                              keep_dist=[d for d, _ in expected])  # fmt: skip
            for d, b in expected:
                if d not in trial.invented and b not in trial.invented:
                    found.setdefault(d, []).append((trial.baseline[b], trial.distributed[d][0]))
    except (Unsupported, Deadlock, Conflict, InputError, MemoryError, KeyError):
        return {}
    return found


def _factor(pairs: Sequence[tuple[Array, Array]]) -> float | None:
    """By how much the computed gradient is too large, where that is one number."""
    ratios = list(_ratios(pairs))
    return ratios[0] if ratios and np.allclose(ratios, ratios[0], rtol=1e-4) else None


def _ratios(pairs: Sequence[tuple[Array, Array]]) -> Iterator[float]:
    for derived, computed in pairs:
        large = np.abs(derived) > 1e-3 * np.abs(derived).max(initial=0)
        yield from (computed[large] / derived[large]).ravel().tolist()


def _finding(name: str, op: Op | None, factor: float | None) -> Finding:
    places = lines(op) if op is not None else ()
    text = f"a gradient that is not the derived one: `{name}`"
    mended = None
    if factor is not None:
        mended = f"divide by {factor:.6g}" if abs(factor) > 1e-9 else None
        text += f" is {factor:.6g} times the gradient that follows from the forward part"
    return Finding("other-gradient", "error", text, (Happening(None, name, (places or ("",))[0]),),
                   op=op.name if op is not None else None, name=name, source=places,
                   suggestion=mended)  # fmt: skip
