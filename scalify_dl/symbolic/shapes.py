"""What shapes say about sizes: equations between the dims of operands and results, and the attributes of ops.

These are the shape rules of `docs/facts.md` read backwards as well as forwards. Dims of different sizes in the capture
are never made the same, so a scalar where a tensor may stand needs no special case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from scalify_dl.facts.vocabulary import ELEMENTWISE, words

from .unify import Cell, Unifier
from .wiring import Op, Wiring

SIZED = words(
    """start limit stride low high interior slice_sizes sizes window_size window_stride window_pad_low window_pad_high
    window_dilation base_dilation feature_group_count batch_group_count k trip_count value"""
)
"""Attributes that count elements; the others of the vocabulary number dims and operands."""
ALIKE = ELEMENTWISE | words("reverse cumulative sort all-reduce collective-permute collective-broadcast dropout-mask")
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
    """Adds the equations of ops to a unifier."""

    def __init__(self, wiring: Wiring, unifier: Unifier) -> None:
        self.wiring = wiring
        self.unifier = unifier
        self._rules: dict[str, Callable[[Op], None]] = {
            "broadcast": self._broadcast,
            "transpose": self._transpose,
            "slice": self._slice,
            "pad": self._pad,
            "concatenate": self._concatenate,
            "reduce": self._reduce,
            "reduce-window": self._windows,
            "convolution": self._convolution,
            "dot": self._dot,
            "gather": self._gather,
            "scatter": self._scatter,
            "select-and-scatter": self._like_first,
            "dynamic-slice": self._dynamic_slice,
            "dynamic-update-slice": self._like_first,
            "top-k": self._top_k,
            "attention": self._attention,
            "attention-backward": self._attention_backward,
            "while": self._loop,
            "conditional": self._branches,
            "all-gather": self._all_gather,
            "reduce-scatter": self._reduce_scatter,
            "all-to-all": self._all_to_all,
        }

    def add(self, op: Op) -> None:
        """The equations of one op; those of a reshape are `reshape`'s, and other kinds have none."""
        if op.kind in ALIKE:
            first = op.results[0]
            for tensor in (*op.operands, *op.results[1:]):
                self._same(tensor, first)
        elif op.kind in self._rules:
            self._rules[op.kind](op)

    def reshape(self, op: Op, groups: Sequence[Group]) -> None:
        """Groups of dims have the same elements; from the right, a dim that divides another is a factor of it."""
        u = self.unifier
        shapes = [(tensor, self.wiring.shape[tensor]) for tensor in (op.operands[0], op.results[0])]
        if any(1 in shape for _, shape in shapes):  # groups may leave these out
            u.product(*([dim(tensor, i) for i in range(len(shape))] for tensor, shape in shapes))
        for here, there in groups:
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

    def _dims(self, pairs: Sequence[tuple[str, int, str, int]]) -> None:
        for a, i, b, j in pairs:
            self.unifier.same(dim(a, i), dim(b, j))

    def _like_first(self, op: Op) -> None:
        self._same(op.operands[0], op.results[0])

    def _broadcast(self, op: Op) -> None:
        x, out = op.operands[0], op.results[0]
        self._dims([(x, i, out, j) for i, j in enumerate(op.list("dimensions"))])

    def _transpose(self, op: Op) -> None:
        x, out = op.operands[0], op.results[0]
        self._dims([(x, i, out, j) for j, i in enumerate(op.list("dimensions"))])

    def _slice(self, op: Op) -> None:
        """limit - start = size * stride, on every rank; a slice of all of a dim is one at every size."""
        x, out = op.operands[0], op.results[0]
        values = self.unifier.value
        for i, size in enumerate(self.wiring.shape[x]):
            start, limit, stride = (attribute(op, key, i) for key in ("start", "limit", "stride"))
            if self.wiring.shape[out][i] == size and start[0] == "attr":
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
        for i in range(len(self.wiring.shape[out])):
            if i != along:
                self._dims([(x, i, out, i) for x in op.operands])
        self.unifier.total([*((1, dim(x, along)) for x in op.operands), (-1, dim(out, along))])

    def _reduce(self, op: Op) -> None:
        gone = set(op.list("dimensions"))
        for x in op.operands[: len(op.results)]:
            kept = [i for i in range(len(self.wiring.shape[x])) if i not in gone]
            for out in op.results:
                self._dims([(x, i, out, j) for j, i in enumerate(kept)])

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
        self._dims([(x, at("input_batch", 0), out, at("output_batch", 0))])
        self._dims([(w, at("kernel_output_feature", 0), out, at("output_feature", 1))])
        groups = attribute(op, "feature_group_count", 0)
        counted = [groups] if groups in self.unifier.value else []
        inner = dim(w, at("kernel_input_feature", 1))
        self.unifier.product([dim(x, at("input_feature", 1))], [inner, *counted])

    def _dot(self, op: Op) -> None:
        (a, b), out = op.operands[:2], op.results[0]
        batch = [op.list("lhs_batch_dims"), op.list("rhs_batch_dims")]
        contracted = [op.list("lhs_contracting_dims"), op.list("rhs_contracting_dims")]
        for here, there in zip(batch[0] + contracted[0], batch[1] + contracted[1], strict=True):
            self._dims([(a, here, b, there)])
        made = [(a, i) for i in batch[0]]
        for tensor, side in ((a, 0), (b, 1)):
            used = {*batch[side], *contracted[side]}
            made += [(tensor, i) for i in range(len(self.wiring.shape[tensor])) if i not in used]
        self._dims([(tensor, i, out, j) for j, (tensor, i) in enumerate(made)])

    def _indexed(self, op: Op, windows: str, keys: tuple[str, str, str], windowed: str) -> list[int]:
        """Dims of the windows of a gather or scatter; those of `windowed` outside of them are those of the indices."""
        collapsed, batching, indices_batching = (op.list(key) for key in keys)
        x, indices = op.operands[:2]
        inside = op.list(windows)
        vector = op.number("index_vector_dim", len(self.wiring.shape[indices]))
        outside = [i for i in range(len(self.wiring.shape[windowed])) if i not in inside]
        sources = [i for i in range(len(self.wiring.shape[indices])) if i != vector]
        self._dims([(indices, i, windowed, j) for i, j in zip(sources, outside, strict=False)])
        self._dims([(x, i, indices, j) for i, j in zip(batching, indices_batching, strict=False)])
        return [i for i in range(len(self.wiring.shape[x])) if i not in {*collapsed, *batching}]

    def _gather(self, op: Op) -> None:
        x, out = op.operands[0], op.results[0]
        keys = ("collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims")
        whole = self._indexed(op, "offset_dims", keys, out)
        for i, j in zip(whole, op.list("offset_dims"), strict=False):
            self.unifier.same(attribute(op, "slice_sizes", i), dim(out, j))
            if self.wiring.shape[x][i] != 1:  # windows that are all of a dim are so at every size
                self.unifier.same(dim(x, i), dim(out, j))

    def _scatter(self, op: Op) -> None:
        self._same(op.operands[0], op.results[0])
        keys = ("inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims")
        self._indexed(op, "update_window_dims", keys, op.operands[2])

    def _dynamic_slice(self, op: Op) -> None:
        x, out = op.operands[0], op.results[0]
        for i in op.numbers.get("sizes", {}):
            self.unifier.same(attribute(op, "sizes", i), dim(out, i))
            if self.wiring.shape[x][i] != 1:  # all of a dim is so at every size
                self.unifier.same(dim(x, i), dim(out, i))

    def _top_k(self, op: Op) -> None:
        x, last = op.operands[0], len(self.wiring.shape[op.operands[0]]) - 1
        for out in op.results:
            self._dims([(x, i, out, i) for i in range(last)])
            self.unifier.same(attribute(op, "k", 0), dim(out, last))

    def _attention(self, op: Op) -> None:
        """[batch…, heads, seq, head dim]; the result has the queries' positions and the values' width."""
        q, k, v = op.operands[:3]
        rank = len(self.wiring.shape[q])
        for i in range(rank - 2):
            self._dims([(q, i, k, i), (q, i, v, i)])
        self._dims([(q, rank - 1, k, rank - 1), (k, rank - 2, v, rank - 2)])
        for out in op.results:
            made = [(q, i) for i in range(rank - 1)] + [(v, rank - 1)]
            if len(self.wiring.shape[out]) < rank:
                made.pop()
            self._dims([(tensor, i, out, j) for j, (tensor, i) in enumerate(made)])

    def _attention_backward(self, op: Op) -> None:
        for x, gradient in zip(op.operands[1:4], op.results, strict=False):
            self._same(x, gradient)
        self._same(op.operands[0], op.operands[4])

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
