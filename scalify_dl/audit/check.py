"""Checks correspondences against the numeric oracle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from scalify_dl.errors import InputError
from scalify_dl.ir.layout import Layout, piece_shape
from scalify_dl.oracle.addressing import layout_of, piece_of
from scalify_dl.oracle.compare import Mismatch, check
from scalify_dl.oracle.counterexample import DIRECT_ELEMENTS, elements
from scalify_dl.oracle.execute import Deadlock
from scalify_dl.oracle.inputs import ends, infinite
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.meaning.declared import Structure
from scalify_dl.oracle.program import Program, Shard, Tables, load_program
from scalify_dl.oracle.shrink import shrink
from scalify_dl.oracle.taint import invented_values
from scalify_dl.oracle.trial import Progress, Trial, is_exact, measure_noise, ranks_moved, run_trial

from .assumed import is_so

Row = tuple[str, str, str, str, str]
UNSTEADY = 2.0**-20
"""How far a value moves, relative to the largest one of the baseline, if rounding decides what it is."""
MOVED = 8
"""How often values are moved to see that."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What the audit says of one tuple.

    `verdict`: `true` (agreed in every trial), `false`, `undecided` (it differs, but rests on an invented meaning; or
    it could not be run), or `malformed` (unknown tensors, a layout that does not fit them). `text` is for people.
    """

    row: Row
    verdict: str
    text: str = ""
    seed: int = 0
    draw: str = ""
    sizes: str = ""
    mismatch: Mismatch | None = None


@dataclass(slots=True)
class Audit:
    """All findings. `interrupted`: Ctrl-C came; tuples that no trial contradicted so far count as `true`."""

    findings: list[Finding] = field(default_factory=list)
    trials: int = 0
    sizes: str = "own"
    problems: list[str] = field(default_factory=list)
    interrupted: bool = False

    @property
    def false(self) -> list[Finding]:
        """Tuples that are wrong: `false` and `malformed`."""
        return [f for f in self.findings if f.verdict in ("false", "malformed")]

    @property
    def counts(self) -> dict[str, int]:
        """Number of tuples by verdict."""
        return dict(Counter(f.verdict for f in self.findings))


def audit(
    facts: Tables | Program,
    corr: Iterable[Sequence[Any]],
    *,
    trials: int = 3,
    seed: int = 0,
    least: int = 2,
    declared: Mapping[str, Structure] | None = None,
    finite: Collection[str] | None = None,
    assumed: Collection[tuple[str, str]] = (),
    progress: Progress | None = None,
) -> Audit:
    """Checks every tuple of `corr` on `trials` random inputs; sizes are shrunk where the graphs are large.

    `facts` are fact tables (or a loaded program). Tuples about tensors that the graphs do not have are `malformed`.
    `declared` are the structures of opaque calls, by op: what rests on those is no longer undecided. `finite` are the
    inputs (of either side) that were taken for finite; where it is given, some trials put infinities into the others.
    `assumed` are values of which something was taken for granted (of `HOLDS`): a trial in which it is not so says
    nothing.
    """
    program = facts if isinstance(facts, Program) else load_program(facts)
    if finite is not None:
        bases = {row.base for row in program.shards if row.dist in finite}
        program = replace(program, finite=frozenset(bases.union(finite)))
    for op in (op for graph in program.graphs.values() for op in graph.ops):
        op.declared = (declared or {}).get(op.id)
    report = Audit()
    rows: dict[Row, Shard] = {}
    decided: dict[Row, Finding] = {}
    texts, roles = list(dict.fromkeys(_row(raw) for raw in corr)), _roles(program)
    for text in texts:
        try:
            rows[text] = _relation(program, roles, text)
        except InputError as error:
            decided[text] = Finding(text, "malformed", str(error))
    run = program
    if elements(program) > DIRECT_ELEMENTS:
        report.sizes = "shrunk"
        small = shrink(program, rows.values(), least)
        run = small.program
        for text in list(rows):
            relation = small.relation(rows[text])
            if relation is None:
                decided[text] = Finding(text, "malformed", "the layout does not fit the shapes of the tensors")
                del rows[text]
            else:
                rows[text] = relation
    try:
        _run(run, rows, decided, report, trials, seed, assumed, progress)
    except KeyboardInterrupt:
        report.interrupted = True
    report.findings = [decided.get(text) or Finding(text, "true") for text in texts]
    return report


def _row(raw: Sequence[Any]) -> Row:
    if len(raw) != 5:
        raise InputError(f"a row of {len(raw)} columns", expected="dist, dist_piece, base, base_piece, layout")
    a, b, c, d, e = map(str, raw)
    return a, b, c, d, e


def _relation(program: Program, roles: Mapping[str, str], text: Row) -> Shard:
    """The row, if it says something of these graphs; InputError with what does not fit."""
    row = Shard(text[0], piece_of(text[1]), text[2], piece_of(text[3]), layout_of(text[4]))
    shapes = []
    for tensor, piece, role in ((row.dist, row.dist_piece, "dist"), (row.base, row.base_piece, "base")):
        if tensor not in program.tensors:
            raise InputError(f"the graphs have no tensor `{tensor}`")
        if roles[tensor] != role:
            raise InputError(f"`{tensor}` is on the `{roles[tensor]}` side", expected=f"a tensor of the `{role}` side")
        try:
            shapes.append(piece_shape(piece, program.tensors[tensor].shape))
        except ValueError as error:
            raise InputError(str(error), expected="`dim:lo:hi[,dim:lo:hi…]` within the tensor") from None
    local, whole = shapes
    said = row.layout.axis_sizes
    if said != program.mesh:
        said_text, mesh = (", ".join(f"{a}={n}" for a, n in sizes.items()) for sizes in (said, program.mesh))
        raise InputError(
            f"the layout speaks of a mesh {said_text or 'without axes'}, the graphs have {mesh}",
            expected="one `|axis=…` for each axis, `r` and its size where it only replicates",
        )
    if row.layout.local_shape != local:
        raise InputError(
            f"the layout makes {list(row.layout.local_shape)} on every rank, the distributed value has {list(local)}"
        )
    gap = row.layout.gaps(whole) if not row.dist_piece else _outside(row.layout, whole)
    if gap:
        raise InputError(f"the layout does not fit the baseline's {list(whole)}: {gap}")
    return row


def _outside(layout: Layout, whole: Sequence[int]) -> str | None:
    """Which digits reach beyond the value; a piece may leave out elements, unlike the whole of a tensor."""
    last = [0] * len(whole)
    for digit in layout.digits():
        if digit.dim >= len(whole):
            return f"digit {digit} names baseline dim {digit.dim} of a tensor with {len(whole)} dims"
        last[digit.dim] += digit.stride * (digit.size - 1)
    for d, n in enumerate(whole):
        if last[d] >= n:
            return f"digits of baseline dim {d} reach element {last[d]} of {n}"
    return None


def _roles(program: Program) -> dict[str, str]:
    """The side of each tensor."""
    roles: dict[str, str] = {}
    for graph in program.graphs.values():
        for tensor in (*graph.inputs, *(result for op in graph.ops for result in op.results)):
            roles[tensor] = graph.role
    return roles


def _run(
    program: Program,
    rows: dict[Row, Shard],
    decided: dict[Row, Finding],
    report: Audit,
    trials: int,
    seed: int,
    assumed: Collection[tuple[str, str]],
    progress: Progress | None,
) -> None:
    named = {value for value, _ in assumed if value in program.tensors}
    keep_base, keep_dist = ({*named, *(getattr(r, side) for r in rows.values())} for side in ("base", "dist"))
    plan = [(seed + i, "reals") for i in range(trials)]
    if is_exact(program):
        plan[0] = (seed, "integers")
    if trials > 1 and ends(program):
        plan[-1] = (plan[-1][0], "ends")
    if infinite(program):
        plan.append((seed + trials, "infinite"))
    for number, how in plan:
        try:
            trial = run_trial(
                program,
                number,
                how,
                keep_base=keep_base,
                keep_dist=keep_dist,
                progress=progress,
                relations=rows.values(),
            )
        except (Unsupported, Deadlock, InputError, MemoryError) as error:
            report.problems.append(str(error))
            for text in rows:
                decided.setdefault(text, Finding(text, "undecided", str(error)))
            return
        report.trials += 1
        if not all(is_so(trial, value, why) for value, why in assumed):
            continue
        _compare_all(trial, rows, decided, report.sizes)


def _compare_all(trial: Trial, rows: dict[Row, Shard], decided: dict[Row, Finding], sizes: str) -> None:
    suspects: list[Row] = []
    floor = trial.floor
    for text, row in rows.items():
        if text in decided:
            continue
        try:
            if _wrong(trial, row, floor) is not None:
                suspects.append(text)
        except (InputError, IndexError, ValueError, KeyError) as error:
            decided[text] = Finding(text, "malformed", str(error), trial.seed, trial.how, sizes)
    if not suspects:
        return
    measure_noise(trial, {rows[text].base for text in suspects})
    reasons = invented_values(trial.program, trial.unplaced, trial.unpaired)
    found = {text: _wrong(trial, rows[text], trial.tolerance(rows[text].base)) for text in suspects}
    differing = [text for text in suspects if found[text] is not None]
    unsteady = _unsteady(trial, {text: rows[text] for text in differing}, rows.values())
    for text in differing:
        row, wrong = rows[text], found[text]
        if wrong is None or text in unsteady:
            continue
        reason = reasons.get(row.dist) or reasons.get(row.base)
        said = (
            f"rank {wrong.rank}, index {list(wrong.index)}: expected {wrong.expected}, actual {wrong.actual}"
            f" ({100 * wrong.share:.3g} % of elements wrong)"
        )
        decided[text] = Finding(
            text,
            "undecided" if reason else "false",
            f"{said}; {reason}" if reason else said,
            trial.seed,
            trial.how,
            sizes,
            wrong,
        )


def _unsteady(trial: Trial, rows: Mapping[Row, Shard], relations: Collection[Shard]) -> set[Row]:
    """Of which rows ranks hold something else where every computed value moves by one rounding: two sums of the same
    numbers in different order, asked for equality."""
    if trial.how == "integers" or not rows:
        return set()
    sizes = {}
    for text, row in rows.items():
        base = trial.baseline[row.base]
        sizes[text] = float(np.abs(base[np.isfinite(base)]).max(initial=0.0)) or 1.0
    found: set[Row] = set()
    for moved in ranks_moved(trial, {row.dist for row in rows.values()}, relations, range(MOVED)):
        for text in rows.keys() - found:
            held = trial.distributed[rows[text].dist]
            if any(_apart(value, moved[rows[text].dist][rank], sizes[text]) for rank, value in held.items()):
                found.add(text)
        if len(found) == len(rows):
            break
    return found


def _apart(value: np.ndarray[Any, Any], moved: np.ndarray[Any, Any], size: float) -> bool:
    if value.dtype.kind not in "fc":
        return bool((value != moved).any())
    with np.errstate(invalid="ignore"):  # infinities
        return bool((np.abs(value - moved) > UNSTEADY * size).any())


def _wrong(trial: Trial, row: Shard, tolerance: float) -> Mismatch | None:
    if row.base not in trial.baseline or row.dist not in trial.distributed:
        if trial.how == "infinite":
            return None  # a loop whose condition is never true of infinities
        raise InputError(
            f"`{row.base if row.base not in trial.baseline else row.dist}` is on the wrong side or never computed"
        )
    base, dist = trial.baseline[row.base], trial.distributed[row.dist]
    return check(
        base, row.base_piece, dist, row.dist_piece, row.layout, trial.program.coords, tolerance,
        trial.program.tensors[row.dist].dtype, extended=trial.how == "infinite",
    )  # fmt: skip
