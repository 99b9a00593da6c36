"""What shapes say about sizes: equations between the dims of operands and results, and the attributes of ops.

These are the shape rules of `docs/facts.md` read backwards as well as forwards. Dims of different sizes in the capture
are never made the same, so a scalar where a tensor may stand needs no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from scalify_dl.ir.alike import Around, alike, windows
from scalify_dl.ir.vocabulary import words

from .unify import Cell, Unifier
from .wiring import Op, Wiring

SIZED = words(
    """start limit stride low high interior slice_sizes sizes window_size window_stride window_pad_low window_pad_high
    window_dilation base_dilation feature_group_count batch_group_count k trip_count value"""
)
"""Attributes that count elements; the others of the vocabulary number dims and operands."""
Group = tuple[list[int], list[int]]
"""Dims of the operand and of the result of a reshape that have the same elements."""


def dim(tensor: str, position: int) -> Cell:
    """The cell of a dim."""
    return ("dim", tensor, position)


def attribute(op: Op, key: str, position: int) -> Cell:
    """The cell of an attribute; on the first rank, where it depends on the rank."""
    if (key, position) in op.by_rank:
        return ("rank", op.name, key, position, "")
    return ("attr", op.name, key, position)


def step(op: Op, key: str, position: int, axis: str) -> Cell:
    """The cell of what an attribute grows by from one position on an axis to the next."""
    return ("rank", op.name, key, position, axis)


class Shapes:
    """Adds the equations of ops to a unifier.

    `bare` leaves out what is only likely: that a slice or window of all of a dim is one at every size, and that
    dims which a reshape leaves alone stay so (`x.reshape(4, -1)` has as many elements whatever the 4 is).
    """

    def __init__(self, wiring: Wiring, unifier: Unifier, bare: bool = False) -> None:
        self.wiring = wiring
        self.unifier = unifier
        self.bare = bare
        self._rules: dict[str, Callable[[Op], None]] = {
            "slice": self._slice,
            "pad": self._pad,
            "concatenate": self._concatenate,
            "reduce-window": self._windows,
            "convolution": self._convolution,
            "gather": self._gather,
            "dynamic-slice": self._dynamic_slice,
            "top-k": self._top_k,
            "while": self._loop,
            "conditional": self._branches,
            "all-gather": self._all_gather,
            "reduce-scatter": self._reduce_scatter,
            "all-to-all": self._all_to_all,
        }

    def add(self, op: Op) -> None:
        """The equations of one op; those of a reshape are `reshape`'s, and other kinds have none."""
        for pair in alike(self._around(op)):
            self.unifier.same(*pair)
        if op.kind in self._rules:
            self._rules[op.kind](op)

    def reshape(self, op: Op, groups: Sequence[Group]) -> None:
        """Groups of dims have the same elements; from the right, a dim that divides another is a factor of it."""
        u = self.unifier
        shapes = [(tensor, self.wiring.shape[tensor]) for tensor in (op.operands[0], op.results[0])]
        if self.bare or any(1 in shape for _, shape in shapes):  # groups may leave these out
            u.product(*([dim(tensor, i) for i in range(len(shape))] for tensor, shape in shapes))
        for here, there in () if self.bare else groups:
            left = [dim(op.operands[0], i) for i in here]
            right = [dim(op.results[0], i) for i in there]
            # one element may be what is left of a dim that is cut: a factor of any other
            whole = all(u.value[cell] > 1 for cell in (*left, *right))
            while whole and len(left) > 1 and len(right) > 1:
                a, b = left[-1], right[-1]
                less, more = sorted((u.value[a], u.value[b]))
                if more % less:
                    break
                left.pop()
                right.pop()
                if less == more:
                    u.same(a, b)
                    continue
                longer, long, short = (left, a, b) if u.value[a] == more else (right, b, a)
                longer.append(u.add(("factor", op.name, len(left), len(right)), more // less))
                u.product([long], [longer[-1], short])
            u.product(left, right)

    def _same(self, a: str, b: str) -> None:
        """All dims of two tensors, position by position."""
        shape = self.wiring.shape
        if len(shape[a]) == len(shape[b]):
            for position in range(len(shape[a])):
                self.unifier.same(dim(a, position), dim(b, position))

    def _around(self, op: Op) -> Around[Cell]:
        operands, results = (
            [[dim(tensor, i) for i in range(len(self.wiring.shape[tensor]))] for tensor in side]
            for side in (op.operands, op.results)
        )
        return Around(op.kind, operands, results, op.list)

    def _slice(self, op: Op) -> None:
        """limit - start = size * stride, on every rank; a slice of all of a dim is one at every size."""
        x, out = op.operands[0], op.results[0]
        values = self.unifier.value
        for i, size in enumerate(self.wiring.shape[x]):
            start, limit, stride = (attribute(op, key, i) for key in ("start", "limit", "stride"))
            if self.wiring.shape[out][i] == size and start[0] == "attr" and not self.bare:
                self.unifier.same(limit, dim(x, i))
            if stride not in values or values[stride] == 1:
                self.unifier.total([(1, limit), (-1, start), (-1, dim(out, i))])
                for axis in self.wiring.axes:
                    ends = [step(op, key, i, axis) for key in ("start", "limit")]
                    if all(cell in values for cell in ends):
                        self.unifier.same(*ends)
            else:
                length = self.unifier.add(("length", op.name, i), values[limit] - values[start])
                self.unifier.total([(1, limit), (-1, start), (-1, length)])
                self.unifier.product([length], [dim(out, i), stride])

    def _pad(self, op: Op) -> None:
        x, out = op.operands[0], op.results[0]
        for i in range(len(self.wiring.shape[x])):
            low, high, interior = (attribute(op, key, i) for key in ("low", "high", "interior"))
            between = self.unifier.value.get(interior, 0)
            terms = [(1, low), (1, high), (1 + between, dim(x, i)), (-1, dim(out, i))]
            self.unifier.total([(c, cell) for c, cell in terms if cell in self.unifier.value], -between)

    def _concatenate(self, op: Op) -> None:
        out, along = op.results[0], op.number("dimension", 0)
        self.unifier.total([*((1, dim(x, along)) for x in op.operands), (-1, dim(out, along))])

    def _window(self, op: Op, size: Cell, result: Cell, i: int) -> None:
        """One dim of a window: result * stride = size + padding - (window - 1) * dilation, where that has no rest."""
        keys = ("window_size", "window_stride", "window_pad_low", "window_pad_high", "window_dilation", "base_dilation")
        cells = dict(zip(keys, (attribute(op, key, i) for key in keys), strict=True))
        value = {key: self.unifier.value.get(cell, 0 if "pad" in key else 1) for key, cell in cells.items()}
        if value["window_stride"] == value["window_dilation"] == value["base_dilation"] == 1:
            terms = [(1, size), (-1, result), (1, cells["window_pad_low"]), (1, cells["window_pad_high"])]
            terms.append((-1, cells["window_size"]))
            constant = 1 if cells["window_size"] in self.unifier.value else 0
            self.unifier.total([(c, cell) for c, cell in terms if cell in self.unifier.value], constant)
        elif value["window_stride"] == value["window_size"] and not value["window_pad_low"] | value["window_pad_high"]:
            self.unifier.product([size], [result, cells["window_stride"]])

    def _windows(self, op: Op) -> None:
        x, out = op.operands[0], op.results[0]
        for i in range(len(self.wiring.shape[out])):
            self._window(op, dim(x, i), dim(out, i), i)

    def _convolution(self, op: Op) -> None:
        x, w, out = *op.operands[:2], op.results[0]
        at = op.number
        pairs = zip(op.list("input_spatial"), op.list("output_spatial"), strict=False)
        for i, (source, target) in enumerate(pairs):
            self._window(op, dim(x, source), dim(out, target), i)
        for kernel, i in zip(op.list("kernel_spatial"), op.numbers.get("window_size", {}), strict=False):
            self.unifier.same(dim(w, kernel), attribute(op, "window_size", i))
        self.unifier.same(dim(x, at("input_batch", 0)), dim(out, at("output_batch", 0)))
        groups = attribute(op, "feature_group_count", 0)
        counted = [groups] if groups in self.unifier.value else []
        inner = dim(w, at("kernel_input_feature", 1))
        self.unifier.product([dim(x, at("input_feature", 1))], [inner, *counted])

    def _gather(self, op: Op) -> None:
        self._windows_of(op, "slice_sizes")

    def _dynamic_slice(self, op: Op) -> None:
        self._windows_of(op, "sizes")

    def _windows_of(self, op: Op, key: str) -> None:
        """Windows have the sizes of an attribute; those that are all of a dim are so at every size."""
        for i, whole, part in windows(self._around(op)):
            self.unifier.same(attribute(op, key, i), part)
            if self.unifier.value[whole] != 1 and not self.bare:
                self.unifier.same(whole, part)

    def _top_k(self, op: Op) -> None:
        for out in op.results:
            self.unifier.same(attribute(op, "k", 0), dim(out, len(self.wiring.shape[out]) - 1))

    def _loop(self, op: Op) -> None:
        for position, tensor in enumerate(op.operands):
            self._same(tensor, op.results[position])
            for graph in op.regions:
                self._same(tensor, self.wiring.inputs[graph][position])
            self._same(tensor, self.wiring.outputs[op.regions[-1]][position])

    def _branches(self, op: Op) -> None:
        given = iter(op.operands[1:])
        for graph in op.regions:
            for tensor in self.wiring.inputs.get(graph, []):
                self._same(next(given), tensor)
            for tensor, result in zip(self.wiring.outputs[graph], op.results, strict=True):
                self._same(tensor, result)

    def _members(self, op: Op) -> list[Cell]:
        """How many ranks a group has."""
        axes = self.wiring.group_axes(op)
        if axes is not None:
            return [("axis", axis) for axis in axes]
        ranks = prod(map(self.wiring.ranks.size, self.wiring.axes))
        count = max((len(group) for group in op.groups.values()), default=ranks)
        cell = self.unifier.add(("members", op.name), count)
        self.unifier.constant(cell)
        return [cell]

    def _scaled(self, op: Op, more: int | None, less: int | None) -> None:
        """The result is as the operand, `more` times the group, `less` divided by it."""
        x, out = op.operands[0], op.results[0]
        group = self._members(op)
        for i in range(len(self.wiring.shape[x])):
            above, below = (group if i == which and more != less else [] for which in (more, less))
            self.unifier.product([dim(x, i), *above], [dim(out, i), *below])

    def _all_gather(self, op: Op) -> None:
        self._scaled(op, op.number("dimension", 0), None)

    def _reduce_scatter(self, op: Op) -> None:
        self._scaled(op, None, op.number("dimension", 0))

    def _all_to_all(self, op: Op) -> None:
        self._scaled(op, op.number("concat_dimension", 0), op.number("split_dimension", 0))


def minimal_groups(here: Sequence[int], there: Sequence[int]) -> list[Group]:
    """The smallest groups of dims with as many elements, from the left; dims of one element belong to none."""
    groups: list[Group] = []
    left = [i for i, size in enumerate(here) if size != 1]
    right = [i for i, size in enumerate(there) if size != 1]
    while left and right:
        group: Group = [left.pop(0)], [right.pop(0)]
        a, b = here[group[0][0]], there[group[1][0]]
        while a != b and (left if a < b else right):
            if a < b:
                group[0].append(left.pop(0))
                a *= here[group[0][-1]]
            else:
                group[1].append(right.pop(0))
                b *= there[group[1][-1]]
        if a != b:
            return []
        groups.append(group)
    return groups if not left and not right else []


def groups_with_ones(here: Sequence[int], there: Sequence[int]) -> list[Group]:
    """Minimal groups, and dims of one element, which may be what is left of a dim that is cut: as many between two
    groups on both sides are the same ones, else they may be factors of either group, which then are one."""
    groups = minimal_groups(here, there)
    out: list[Group] = []
    for place in range(len(groups) + 1):
        left, right = (_between(side, [g[i] for g in groups], place) for i, side in enumerate((here, there)))
        following = groups[place : place + 1]
        if len(left) == len(right):
            out += [([i], [j]) for i, j in zip(left, right, strict=True)]
            out += [(list(a), list(b)) for a, b in following]
            continue
        glue = out.pop() if place and out else ([], [])
        for a, b in [(left, right), *following]:
            glue = glue[0] + list(a), glue[1] + list(b)
        out.append(glue)
    return out


def _between(shape: Sequence[int], groups: Sequence[Sequence[int]], place: int) -> list[int]:
    """Dims of one element before a group, and after the one before."""
    start = groups[place - 1][-1] + 1 if place else 0
    stop = groups[place][0] if place < len(groups) else len(shape)
    return [i for i in range(start, stop) if shape[i] == 1]
