"""Whether premises can hold together: what `shard` and `range` rows say of inputs.

A `shard` row says, for every rank and every element of a piece of a distributed tensor, which baseline element it
holds. Several distributed tensors may hold one baseline element. An element of which two rows speak would make two
baseline elements equal: whatever follows from that is no proof.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import prod

from scalify_dl.ir.dtypes import integers_of, is_integer
from scalify_dl.ir.layout import Layout, Pending, Window, parse_piece

from .model import Facts
from .problems import error, first

Span = tuple[int, int]


def check_premises(facts: Facts) -> None:
    """InputError for the first premise that another one contradicts, or that no value of its type can meet."""
    _said_once(facts)
    _types(facts)
    _ranges(facts)


def overlap(ours: Sequence[Window], theirs: Sequence[Window]) -> str | None:
    """The elements that two pieces of a tensor share, as `dim:lo:hi` texts; None where there are none."""
    spans: dict[int, Span] = {w.dim: (w.lo, w.hi) for w in ours}
    for w in theirs:
        lo, hi = spans.get(w.dim, (w.lo, w.hi))
        spans[w.dim] = max(lo, w.lo), min(hi, w.hi)
        if spans[w.dim][0] >= spans[w.dim][1]:
            return None
    return ", ".join(f"{d}:{lo}:{hi}" for d, (lo, hi) in sorted(spans.items())) or "all of it"


def _said_once(facts: Facts) -> None:
    """No element of a distributed tensor is placed by two rows."""
    rows = facts["shard"]
    counts = Counter(row[0] for row in rows)
    if len(counts) == len(rows):
        return
    seen: dict[str, list[tuple[int, tuple[Window, ...]]]] = {}
    for n, (dist, piece, base, *_) in enumerate(rows):
        if counts[dist] == 1:
            continue
        windows = parse_piece(piece)
        for other, theirs in seen.setdefault(dist, []):
            shared = overlap(windows, theirs)
            if shared is not None:
                _, line = facts.place("shard", other)
                where = f"line {line}" if line else f"row {other + 1}"
                raise error(
                    facts,
                    "shard",
                    n,
                    f"two rows say what `{dist}` holds ({shared}): `{base}` here, `{rows[other][2]}` in {where}",
                    expected="every element of a distributed tensor placed once",
                    hint="together they say that two baseline values are equal, from which anything follows",
                )
        seen[dist].append((n, windows))


def _types(facts: Facts) -> None:
    """Both tensors of a row hold the same kind of numbers, scaled by no more than these can be."""
    dtypes: dict[str, str] = {tensor: dtype for tensor, _, dtype, _ in facts["tensor"]}
    for n, (dist, _, base, _, text, _) in enumerate(facts["shard"]):
        ours, theirs = dtypes[dist], dtypes[base]
        if ours != theirs and not (is_integer(ours) and is_integer(theirs)):
            raise error(
                facts,
                "shard",
                n,
                f"`{dist}` is {ours}, `{base}` is {theirs}",
                expected="one element type; integers may have different widths",
            )
        if " *" in text:
            scale = Layout.parse(text).scale
            if scale == 0 or (ours == "pred" or is_integer(ours)):
                raise error(
                    facts, "shard", n, f"the layout `{text}` scales {ours} by {scale}", column=5,
                    expected="no scale" if scale else "a scale that is not 0",
                )  # fmt: skip


def _ranges(facts: Facts) -> None:
    """A range is not empty, is one of an integer that nothing computes, and agrees with the type and with what the
    tensor holds."""
    rows = facts["range"]
    if not rows:
        return
    dtypes: dict[str, str] = {tensor: dtype for tensor, _, dtype, _ in facts["tensor"]}
    found: dict[str, Span] = {}
    for n, (tensor, lo, hi, _) in enumerate(rows):
        if not is_integer(dtypes[tensor]):
            raise error(facts, "range", n, f"`{tensor}` is {dtypes[tensor]}", expected="an integer input")
        least, most = (held := integers_of(dtypes[tensor])).start, held.stop
        if max(lo, least) >= min(hi, most):
            raise error(
                facts,
                "range",
                n,
                f"no {dtypes[tensor]} lies in {lo} ≤ x < {hi}",
                column=2,
                expected=f"lo < hi, within {least} ≤ x < {most}",
            )
        found[tensor] = lo, hi
    regions = {row[2] for row in facts["region"]}
    inputs = {tensor for graph, _, tensor in facts["input"] if graph not in regions}
    constants = {op for op, _, kind in facts["op"] if kind == "constant"}
    given = inputs | {tensor for op, _, tensor in facts["result"] if op in constants}
    computed = found.keys() - given
    if computed:
        at = first(rows, 0, computed)
        raise error(facts, "range", at, f"`{rows[at][0]}` is computed", expected="an input of a program")
    _agree(facts, found)


def _agree(facts: Facts, bounds: dict[str, Span]) -> None:
    """What rows say of the numbers of one baseline element, by the bounds of what holds it, leaves some."""
    said: dict[str, list[tuple[str, tuple[Window, ...], Span]]] = {}
    for base in {row[2] for row in facts["shard"]} & bounds.keys():
        said[base] = [(base, (), bounds[base])]
    for n, (dist, _, base, piece, text, _) in enumerate(facts["shard"]):
        span = _of_whole(bounds[dist], text) if dist in bounds else None
        if span is None:
            continue
        windows = parse_piece(piece)
        for other, theirs, (c, d) in said.setdefault(base, []):
            if max(span[0], c) >= min(span[1], d) and overlap(windows, theirs) is not None:
                (a, b), of = span, f"`{base}`, of which it is a part," if other == base else f"`{other}`, as `{base}`,"
                raise error(
                    facts, "shard", n, f"`{dist}` lies in {a} ≤ x < {b}, {of} in {c} ≤ x < {d}",
                    expected="ranges that agree",
                )  # fmt: skip
        said[base].append((dist, windows, span))


def _of_whole(span: Span, text: str) -> Span | None:
    """Where a value lies if every rank's part of it lies there; None where that is not known."""
    pending = [e for _, entries in Layout.parse(text).axes for e in entries if isinstance(e, Pending)]
    if any(entry.reducer not in ("sum", "max", "min") for entry in pending):
        return None
    parts = prod(entry.size for entry in pending if entry.reducer == "sum")
    return parts * span[0], parts * (span[1] - 1) + 1
