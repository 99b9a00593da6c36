"""Which outputs are checked, against what, and in which placement."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Assumption, Graph, Port, Tensor
from scalify_dl.ir.layout import Layout, Pending
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.placement import Inexpressible, Placement, Rearranged
from scalify_dl.readers.relations import OutputRelation, Relations

from .pairing import Finder, by_order_alone, find_value, listing, pair_rest
from .patterns import filled

Inputs = Mapping[int, tuple[int, bool]]
"""Which input of the baseline an input of the distributed program is, by position, and whether that is no guess."""


def expectations(
    base: Graph, dist: Graph, mesh: Mesh, relations: Relations, inputs: Inputs | None = None
) -> tuple[dict[tuple[Tensor, Tensor], str], list[Assumption]]:
    """Layout text (empty: the default) for every pair of a distributed output and a baseline value that is checked;
    and what was guessed in pairing them. `inputs` says which input is which. InputError where outputs cannot be
    paired, or are expected in two ways."""
    guessed: list[Assumption] = []
    if relations.outputs:
        rows = list(_stated(base, dist, mesh, relations))
    else:
        rows, guessed = _paired(base, dist, mesh, inputs or {})
    expected: dict[tuple[Tensor, Tensor], str] = {}
    for d, b, text in rows:
        held = expected.setdefault((d, b), text)
        if held != text and "" in (held, text) and _as_by_default(held or text):
            expected[d, b] = held or text
        elif held != text:
            raise InputError(
                f"`{d.name}` is returned twice and expected in two ways: `{expected[d, b] or 'the default'}` and"
                f" `{text or 'the default'}`",
                file=dist.file,
                hint="place it once under `outputs:` of the relations file",
            )
    return expected, guessed


def _as_by_default(text: str) -> bool:
    """Whether what a layout places is placed as by default, too: dims in order, each whole or in blocks, no more."""
    layout = Layout.parse(text)
    blocks = all(
        digit.dim == n and digit.stride == 1 and len(digits) == 1
        for n, digits in enumerate(layout.dims) for digit in digits
    )  # fmt: skip
    pending = any(isinstance(entry, Pending) for _, entries in layout.axes for entry in entries)
    return blocks and not pending and layout.scale == 1


def given_by(base: Graph, dist: Graph, dists: Sequence[Graph]) -> Graph:
    """The baseline without those outputs that this program of several does not give, but another one does (stages of a
    pipeline keep parts of the parameters). What is made of an input that it has (`written w`) it must give."""
    mine = {port.path for port in dist.outputs}
    held = {port.path for port in dist.inputs}
    theirs = {port.path for graph in dists for port in graph.outputs if port.path is not None}
    kept = [p for p in base.outputs if p.path in mine or p.path not in theirs or p.path.split(" ")[-1] in held]
    return base if len(kept) == len(base.outputs) else replace(base, outputs=kept)


def given_by_some(dists: Sequence[Graph]) -> list[str]:
    """Outputs that some of several programs give, and others do not."""
    given = [{port.path for port in graph.outputs if port.path is not None} for graph in dists]
    return sorted({path for paths in given for path in paths if any(path not in other for other in given)})


def following(base: Graph, dist: Graph, inputs: Inputs) -> dict[int, tuple[int, bool]]:
    """Outputs about inputs of another name than in the baseline (their gradients, what they hold in the end): they
    pair as these do."""
    names = {dist.inputs[d].path: (base.inputs[b].path, sure) for d, (b, sure) in inputs.items()}
    theirs = {port.path: n for n, port in enumerate(base.outputs) if port.path}
    found = {}
    for n, port in enumerate(dist.outputs):
        about, _, name = (port.path or "").rpartition(" ")
        other, sure = names.get(name, (name, True))
        partner = theirs.get(f"{about} {other}")
        if about and partner is not None and other != name:
            found[n] = (partner, sure)
    return found


def put_together(
    base: Graph, dist: Graph, mesh: Mesh, relations: Relations, inputs: Inputs | None = None
) -> None:
    """Outputs whose annotation makes something of the ranks' values that no layout says (in another order, added up).

    It becomes an op that nobody knows: what the ranks hold at the default placement is not what the program gives."""
    if relations.outputs:
        return
    pairs = _pairs(base, dist, inputs or {})
    for position in sorted(pairs):
        port, partner = dist.outputs[position], base.outputs[pairs[position][0]].tensor
        try:
            _annotated(port, partner, mesh, position)
        except Rearranged as error:
            port.placement = None
            port.tensor = dist.emit(
                "unknown:put-together", [port.tensor], dtype=port.tensor.dtype, shape=partner.shape, why=error.message
            )


Row = tuple[Tensor, Tensor, str]


def _pairs(base: Graph, dist: Graph, inputs: Inputs) -> dict[int, tuple[int, bool]]:
    given = following(base, dist, inputs)
    pairs = {d: b for d, (b, _) in given.items()}
    return pair_rest(base.outputs, dist.outputs, pairs, (), "output", dist.file or dist.name or "outputs") | given


def _paired(
    base: Graph, dist: Graph, mesh: Mesh, inputs: Inputs
) -> tuple[list[Row], list[Assumption]]:
    """All outputs, paired by path or position."""
    pairs = _pairs(base, dist, inputs or {})
    if not pairs:
        raise InputError("no outputs to check", file=dist.file, hint="name one under `outputs:` in the relations file")
    rows, guessed = [], []
    doubtful = set(by_order_alone(base.outputs, dist.outputs, pairs))
    for position in sorted(pairs):
        port, partner = dist.outputs[position], base.outputs[pairs[position][0]]
        rows.append((port.tensor, partner.tensor, _annotated(port, partner.tensor, mesh, position)))
        if position in doubtful:
            text = f"output `{port.path}` is compared with `{partner.path}`, by their order: their names differ"
            guessed.append(Assumption(port.tensor, text, "order"))
    return rows, guessed


def _stated(base: Graph, dist: Graph, mesh: Mesh, relations: Relations) -> Iterator[Row]:
    """The outputs of the relations file."""
    said: dict[int, OutputRelation] = {}
    ports = Finder(dist.outputs)
    for relation in relations.outputs:
        positions = ports.find(relation.key)
        if not positions:
            raise relation.place.error(
                f"outputs: no distributed output `{relation.key}`", expected=f"one of {listing(dist.outputs)}"
            )
        for position in positions:
            if position in said:
                raise relation.place.twice(
                    f"outputs: the expectation of distributed output #{position} is stated", said[position].place
                )
            said[position] = relation
            tensor = dist.outputs[position].tensor
            if relation.base is not None:
                called = filled(relation.base, relation.key, dist.outputs[position])
                partner = find_value(base, called, relation.place)
            elif position < len(base.outputs):
                partner = base.outputs[position].tensor
            else:
                raise relation.place.error(
                    f"outputs: {relation.key}: the baseline has no output #{position}", hint="give `base:`"
                )
            if relation.dims is None and not relation.pending:
                yield tensor, partner, ""
                continue
            try:
                layout = Placement(relation.dims or {}, relation.pending).layout(partner.shape, mesh)
            except InputError as error:
                raise relation.place.error(f"outputs: {relation.key}: {error.message}") from None
            if layout.local_shape != tensor.shape:
                raise relation.place.error(
                    f"outputs: {relation.key}: the baseline's {partner.type} placed so is {list(layout.local_shape)},"
                    f" the distributed output is {tensor.type}"
                )
            yield tensor, partner, str(layout)


def _annotated(port: Port, base: Tensor, mesh: Mesh, position: int) -> str:
    """The layout that the dump says an output has; empty where it does not say, or not as a layout."""
    if port.placement is None:
        return ""
    what = f"output #{position} `{port.path or port.tensor.name}`"
    try:
        layout = port.placement.layout(base.shape, mesh)
    except Rearranged:
        raise
    except Inexpressible:
        return ""
    except InputError as error:
        raise InputError(f"{what}: {error.message}", file=error.file, hint=error.hint or "is --mesh right?") from None
    if layout.local_shape != port.tensor.shape:
        raise InputError(
            f"{what} is {port.tensor.type}; the baseline's {base.type}, placed as the dump says, is"
            f" {list(layout.local_shape)} on every rank",
            hint="do the two programs return the same values in the same order?",
        )
    return str(layout)
