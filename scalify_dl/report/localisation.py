"""Root causes in words: the frontier ops, what their operands hold and what the baseline does there.

The rules say which ops are root causes and, where they can, what is wrong with them. Here that is joined with names,
source lines and attributes for people to read; nothing is decided.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from scalify_dl.facts.names import BY_VALUES, SEPARATOR, readable
from scalify_dl.prove.verdict import RootCause
from scalify_dl.prove.view import Correspondences, OpView, Row, View

from .pattern import holds, pattern, piece_words
from .place import Places

_MOST = 3
"""Pieces of one operand that are worth reading; of the whole, what tells most is enough."""


_WORD = re.compile(rf"([\s,;:(){SEPARATOR}]+)")
_FRACTION = re.compile(r"(?<![\w/.])(-?\d{5,})/(\d{5,})(?![\w/.])")
_LAYOUT = re.compile(r"(?<!\S)(\[[\dr:x,]*\])+\|[\w.]+=\S+( \*-?\d+/\d+)?")
_LITERAL = re.compile(r"(\{+[-0-9.e+, ]{1,60}),[-0-9.e+infa,{} ]{60,}\}")
"""A literal that is too long to be read: its first numbers, and the rest."""


def named(texts: Iterable[str], view: View) -> list[str]:
    """Texts with the names that people know in place of ids."""

    def words(text: str) -> list[str]:
        return [part if n % 2 else view.told(part) for n, part in enumerate(_WORD.split(text))]

    return [readable("".join(words(_brief(text)))) for text in texts]


def _drawn(layout: re.Match[str]) -> str:
    try:
        return pattern(layout[0])
    except ValueError:  # something else that looks like one
        return layout[0]


def with_patterns(text: str) -> str:
    """A text in which layouts are patterns."""
    return _LAYOUT.sub(_drawn, text)


def _brief(text: str) -> str:
    """A text in which a long literal is its first numbers, a long fraction (of a root, say) a decimal, a layout its
    pattern."""
    text = with_patterns(text)
    return _FRACTION.sub(lambda m: f"{int(m[1]) / int(m[2]):.7g}", _LITERAL.sub(r"\1, …}", text))


def _texts(rows: Iterable[Row], view: View) -> dict[str, list[str]]:
    """Texts by op, sorted, with the names that people know in place of ids."""
    out: dict[str, set[str]] = defaultdict(set)
    for op, text in rows:
        out[op].update(named([text], view))
    return {op: sorted(texts) for op, texts in out.items()}


def _placement_notes(view: View, ops: list[str]) -> dict[str, list[str]]:
    """For every op, what was guessed about the placement of inputs above it: of the nearest with a guess.

    An input that was placed is no fused weight where nothing is sliced out of it.
    """
    sliced = {tensor for _, tensor, _ in view.results("leads_to_slice")}
    placed = {row[0] for row in view.facts("shard")} - sliced
    notes = {tensor: text for tensor, text in view.facts("placement_note") if tensor not in placed}
    if not notes:
        return {}
    maker = {tensor: op for op, _, tensor in view.facts("result")}
    made: dict[str, list[str]] = defaultdict(list)
    for tensor, op in maker.items():
        made[op].append(tensor)
    reads: dict[str, list[str]] = defaultdict(list)
    for op, _, tensor in view.facts("operand"):
        reads[op].append(tensor)
    out = {}
    for op in ops:
        level, seen = [op], {op}
        found = [f"{view.name(t)}: {notes[t]}" for t in made[op] if t in notes]
        while level and not found:
            tensors = [t for o in level for t in reads[o]]
            found = [f"{view.name(t)} was {notes[t]}" for t in dict.fromkeys(tensors) if t in notes]
            level = [maker[t] for t in tensors if t in maker and maker[t] not in seen]
            seen.update(level)
        out[op] = found
    return out


BY_SHAPE = ("reshape", "broadcast")
"""Kinds that say by the shape of their result what they do."""


def _attribute(values: tuple[object, ...]) -> str:
    return str(values[0]) if len(values) == 1 else f"[{', '.join(map(str, values))}]"


def _call(op: OpView, view: View) -> str:
    """The op as one reads it in a dump: `slice(dot.52) limit=[…] start=[…]`."""
    attributes = "".join(f" {k}={_attribute(v)}" for k, v in sorted(op.attributes.items()) if len(str(v)) < 200)
    shape = f" to {[*view.shape(op.results[0])]}" if op.kind in BY_SHAPE and op.results else ""
    types = [view.types.get(tensor, "?") for tensor in (*op.operands, *op.results)]
    cast = f" from {types[0]} to {types[-1]}" if op.kind == "convert" and len(types) == 2 else ""
    return f"{op.kind}({', '.join(view.name(t) for t in op.operands)}){attributes}{shape}{cast}"


def attributes_apart(op: OpView, base: OpView) -> list[tuple[str, str, str]]:
    """Attributes that are not the same, with both values; they may differ rightly where a dim is split."""
    if op.kind != base.kind:
        return []
    keys = sorted(op.attributes.keys() | base.attributes.keys())
    mine, theirs = op.attributes.get, base.attributes.get
    return [
        (key, _brief(_attribute(mine(key, ("absent",)))), _brief(_attribute(theirs(key, ("absent",)))))
        for key in keys
        if mine(key) != theirs(key)
    ]


def differences(op: OpView, base: OpView) -> list[str]:
    """The same in words."""
    return [f"{key} {mine}, in the baseline {theirs}" for key, mine, theirs in attributes_apart(op, base)]


def _plainness(view: View, tensor: str, row: Row, read: Sequence[str]) -> tuple[bool, bool, bool, bool, int]:
    """What is easier to read comes first: the whole of a value that people named, else what the counterpart reads,
    else of the same name; few digits."""
    _, base, base_piece, layout = row
    named = base in view.output_names
    return bool(base_piece), not named, base not in read, view.name(base) != view.name(tensor), len(layout)


def _operand_words(view: View, op: OpView, base: OpView | None, held: Correspondences) -> list[str]:
    words = []
    for i, tensor in enumerate(op.operands):
        read = base.operands if base is not None else ()
        known = sorted(held.get(tensor, []), key=lambda r: (*_plainness(view, tensor, r, read), r))
        whole = [row for row in known if not row[0]]
        rows = whole[:1] or known[:_MOST]
        texts = []
        for piece, base_tensor, base_piece, layout in rows:
            mine = f"({piece_words(piece)}) " if piece else ""
            what = holds(layout, view.label(base_tensor), base_piece, view.ranks.get(base_tensor, 0))
            texts.append(f"{mine}holds {what}")
        if len(known) > len(rows) and not whole:
            texts.append(f"and {len(known) - len(rows)} more")
        words.append(f"{i}: {view.label(tensor)} " + ("; ".join(texts) or "holds nothing that is known"))
    return words


def misheld_inputs(view: View, outputs: Iterable[str]) -> list[RootCause]:
    """Inputs above these outputs of which ranks do not hold what would be theirs."""
    notes = {t: text.partition(BY_VALUES)[2] for t, text in view.facts("placement_note") if BY_VALUES in text}
    above = view.above(outputs) if notes else set()
    readers: dict[str, str] = {}
    for op, _, tensor in view.facts("operand"):
        if tensor in notes:
            readers.setdefault(tensor, op)
    ops = view.ops(set(readers.values()))
    found = []
    for tensor, text in notes.items():
        if tensor in above:
            reader = ops.get(readers.get(tensor, ""))
            name, own = view.told(tensor), _OTHER_BLOCK.search(text)
            found.append(
                RootCause(
                    op="", name=view.name(tensor), kind="input", source=reader.source if reader else (), operands=(),
                    expected=(), found=(text,), suggestion=(_OWN.format(name=name),) if own else (),
                    lemma_missing=None, results=(tensor,), called=view.input_name(tensor),
                )
            )  # fmt: skip
    return found


_OTHER_BLOCK = re.compile(r"rank \d+ holds block \d+ of \d+ of dim \d+, not block \d+")
_OWN = "give every rank its own block of {name}: it is handed another one than its place on the mesh says"


def once(causes: Iterable[RootCause]) -> list[RootCause]:
    """Causes of which the same is said, as one (what a reader makes several ops of, say)."""
    found: dict[RootCause, RootCause] = {}
    for cause in causes:
        said = replace(cause, op="", results=(), base_op="")
        first = found.get(said)
        found[said] = cause if first is None else replace(first, results=(*first.results, *cause.results))
    return list(found.values())


def follows_from(cause: RootCause, inputs: Sequence[RootCause], view: View) -> bool:
    """Whether an op without an advice of its own reads an input that is misheld, or what turns it: it is no cause
    besides."""
    misheld = {tensor for one in inputs for tensor in one.results}
    read = {view.source(tensor) for op, _, tensor in view.facts("operand") if op == cause.op} if misheld else set()
    return not cause.suggestion and not cause.lemma_missing and bool(misheld & read)


def _no_rule(op: OpView, kind: str) -> str:
    why = "; ".join(map(str, op.attributes.get("reason", ())))
    return f"no rule says what `{kind}` computes{f' ({why})' if why else ''}; --rules adds one"


def root_causes(view: View) -> list[RootCause]:
    """The frontier of the proof, in the order of the graph's `op` table, each op with what there is to say about it."""
    return root_causes_of(view, [row[0] for row in view.results("frontier")], dict(view.results("base_match")))


def root_causes_of(view: View, wanted: Iterable[str], counterparts: Mapping[str, str]) -> list[RootCause]:
    """These ops as causes; `counterparts` are the baseline ops that they most likely implement."""
    frontier = set(wanted)
    if not frontier:
        return []
    match = {op: base for op, base in counterparts.items() if op in frontier}
    ops = view.ops(frontier | set(match.values()))
    held = view.correspondences({t for op in frontier if op in ops for t in ops[op].operands})
    unsupported: dict[str, str] = dict(view.results("unsupported"))
    said = {key: _texts(view.results(f"diag_{key}"), view) for key in ("expected", "found", "suggestion")}
    guessed = _placement_notes(view, sorted(frontier))
    places = Places(view)
    out = []
    for op in (op for op in ops.values() if op.op in frontier):
        base = ops.get(match.get(op.op, ""))
        expected, found = said["expected"].get(op.op, []), said["found"].get(op.op, [])
        missing = unsupported.get(op.op)
        if base is not None and not expected:
            expected = [_call(base, view)]
        if not found and missing is None:
            found = (differences(op, base) if base is not None else []) or [_call(op, view)]
        out.append(
            RootCause(
                op=op.op,
                name=op.name,
                kind=op.kind,
                source=op.source,
                operands=tuple(_operand_words(view, op, base, held)),
                expected=tuple(expected),
                found=tuple(found),
                suggestion=tuple(said["suggestion"].get(op.op, [])),
                inputs=tuple(guessed.get(op.op, [])),
                lemma_missing=None if missing is None else _no_rule(op, missing),
                base_op=base.op if base else "",
                base_name=base.name if base else "",
                base_source=base.source if base else (),
                results=op.results,
                called=(called := next((view.output_names[t] for t in op.results if t in view.output_names), "")),
                module=places.module(op.operands, op.results),
                feeds="" if called else places.feeds(op.results),
            )
        )
    return out
