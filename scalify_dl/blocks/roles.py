"""Which op of a large program plays which role in which of many equal blocks: a guess, on which no proof rests."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .joint import Joint

Numbers = NDArray[np.uint64]
FEWEST = 4
"""Blocks of a kind, at least."""
PART = 0.25
"""How much of the programs has to repeat."""
ROUNDS = 24


Near = list[list[tuple[int, int]]]
"""By node: what it reads and what reads it, each with the slot, negative for what it reads."""


class Edges:
    """What reads what: from `source` to `target`, at `slot` (a number for operand and result)."""

    def __init__(self, joint: Joint) -> None:
        source, target, slot = [], [], []
        for node, reads in enumerate(joint.reads):
            for n, (made_by, result) in enumerate(reads):
                if made_by >= 0:
                    source.append(made_by)
                    target.append(node)
                    slot.append(n * 64 + result)
        self.source = np.array(source, np.int64)
        self.target = np.array(target, np.int64)
        self.slot = np.array(slot, np.int64)

    def near(self, count: int) -> Near:
        """What is beside each node."""
        node = np.stack([self.source, self.target], axis=1).ravel()
        other = np.stack([self.target, self.source], axis=1).ravel()
        slot = np.stack([self.slot + 1, -self.slot - 1], axis=1).ravel()
        order = np.argsort(node, kind="stable")
        ends = np.searchsorted(node[order], np.arange(count + 1)).tolist()
        beside = [*zip(other[order].tolist(), slot[order].tolist(), strict=True)]
        return [beside[a:b] for a, b in pairwise(ends)]

    def border(self, role: list[int]) -> list[int]:
        """Nodes of a role beside nodes of none."""
        inside = np.array(role) >= 0
        source, target = inside[self.source], inside[self.target]
        nodes: list[int] = np.unique(
            np.concatenate([self.source[source & ~target], self.target[target & ~source]])
        ).tolist()
        return nodes


def _mixed(values: Numbers, by: int) -> Numbers:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9 + 2 * by)
        mixed: Numbers = values ^ (values >> np.uint64(32))
        return mixed


def colours(joint: Joint, edges: Edges) -> Numbers:
    """Numbers that are equal for nodes which look alike some steps around, until more steps tell no more apart of what
    repeats."""
    count = len(joint.ops)
    own = _mixed(np.array(joint.kinds, np.uint64) + np.uint64(1), 1)
    slots = _mixed(edges.slot.astype(np.uint64) + np.uint64(77), 2)
    ways = []
    for a, b, by in ((edges.source, edges.target, 3), (edges.target, edges.source, 4)):
        order = np.argsort(b, kind="stable")
        ends = np.searchsorted(b[order], np.arange(count + 1))
        ways.append((a[order], slots[order], ends, by))
    colour, told, best, still = own, own, 0, 0
    for _ in range(ROUNDS):
        with np.errstate(over="ignore"):
            new = _mixed(colour, 5) + own
            for other, slot, ends, by in ways:
                sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(colour[other] ^ slot, by))])
                new = new + _mixed(sums[ends[1:]] - sums[ends[:-1]], by + 6)
        colour = _mixed(new, 7)
        many = int((np.unique(colour, return_counts=True)[1] >= FEWEST).sum())
        still = still + 1 if many <= best else 0
        if many > best:
            told, best = colour, many
        if still >= 2:
            break
    return told


def depths(joint: Joint) -> list[int]:
    """The longest way to each node."""
    found: list[int] = []
    for reads in joint.reads:
        most = 0
        for node, _ in reads:
            if node >= 0 and found[node] > most:
                most = found[node]
        found.append(most + 1)
    return found


class Roles:
    """`role[node]` (-1: none) and `block[node]`: the number of the block, whatever the order of the blocks is; what is
    beside each node."""

    def __init__(self, role: list[int], block: list[int], count: int, near: Near) -> None:
        self.role, self.block, self.count, self.near = role, block, count, near


def roles(joint: Joint, edges: Edges) -> Roles | None:
    """Roles of nodes; None where nothing repeats."""
    _, inverse, counts = np.unique(colours(joint, edges), return_inverse=True, return_counts=True)
    tally: Counter[int] = Counter()
    for size in counts[counts >= FEWEST].tolist():
        tally[size] += size
    if not tally:
        return None
    usual = max(tally, key=lambda size: (sum(tally[s] for s in range(size // 2, size + 1)), -size))
    fits = (counts >= max(FEWEST, usual // 2)) & (counts <= usual)
    repeated = fits[inverse]
    if repeated.sum() < len(joint.ops) * PART:
        return None
    dense = np.cumsum(fits) - 1
    role: list[int] = np.where(repeated, dense[inverse], -1).tolist()
    depth = depths(joint)
    members: dict[int, list[int]] = defaultdict(list)
    for node, r in enumerate(role):
        if r >= 0:
            members[r].append(node)
    block = [_NO] * len(role)
    seed = None
    for _, found in sorted(members.items(), key=lambda item: (-len(item[1]), item[1][0])):
        if joint.ops[found[0]] is not None and len({depth[node] for node in found}) == len(found):
            seed = sorted(found, key=depth.__getitem__)
            break
    if seed is None:
        return None
    near = edges.near(len(role))
    queue = deque(seed)
    for n, node in enumerate(seed):
        block[node] = n
    while queue:  # each is of the block of the seed that is nearest
        node = queue.popleft()
        for other, _ in near[node]:
            if block[other] == _NO and role[other] >= 0:
                block[other] = block[node]
                queue.append(other)
    middle = len(seed) // 2
    _again(edges, near, role, block, [*seed[middle:], *seed[:middle]])
    for node, b in enumerate(block):
        if b == _NO:
            role[node] = -1
    _extended(joint, edges, near, role, block)
    return Roles(role, block, len(members), near)


_NO = -(10**9)


def _apart(edges: Edges, role: list[int], block: list[int]) -> dict[tuple[int, int, int], Counter[int]]:
    """By role, slot and role of what is beside: how far the blocks lie apart, and how often."""
    roles_, blocks = np.array(role), np.array(block)
    both = (roles_[edges.source] >= 0) & (roles_[edges.target] >= 0)
    both &= (blocks[edges.source] != _NO) & (blocks[edges.target] != _NO)
    source, target = edges.source[both], edges.target[both]
    rows = np.stack([roles_[source], edges.slot[both] + 1, roles_[target], blocks[target] - blocks[source]])
    least = rows.min(axis=1, initial=0, keepdims=True)
    spans = [int(n) for n in (rows - least).max(axis=1, initial=0) + 1]
    packed, counts = np.unique(np.ravel_multi_index(list(rows - least), spans), return_counts=True)
    unpacked = np.stack(np.unravel_index(packed, spans)) + least
    tally: dict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    for (r, slot, other, by), count in zip(unpacked.T.tolist(), counts.tolist(), strict=True):
        tally[r, slot, other][by] += count
        tally[other, -slot, r][-by] += count
    return tally


def _again(edges: Edges, near: Near, role: list[int], block: list[int], seeds: list[int]) -> None:
    """Numbers blocks from one node on, by how far most neighbours of these roles lie apart: at the ends of the chain
    the nearest seed is the one of another block. Where another one parts the chain, from the next node on."""
    apart = {key: found.most_common(1)[0][0] for key, found in _apart(edges, role, block).items()}
    known = [block[first] for first in seeds]
    block[:] = [_NO] * len(block)
    for first, number in zip(seeds, known, strict=True):
        if block[first] != _NO:
            continue
        block[first] = number
        queue = deque([first])
        while queue:
            node = queue.popleft()
            for other, slot in near[node]:
                if block[other] == _NO and role[other] >= 0:
                    by = apart.get((role[node], slot, role[other]))
                    if by is not None:
                        block[other] = block[node] + by
                        queue.append(other)


def _extended(joint: Joint, edges: Edges, near: Near, role: list[int], block: list[int]) -> None:
    """Roles of what lies beside, as far as it looks like more of the same."""
    kinds = joint.kinds
    kind_of = {r: kinds[node] for node, r in enumerate(role)}
    tally: dict[tuple[int, int, int], Counter[tuple[int, int]]] = defaultdict(Counter)
    for (r, slot, other), found in _apart(edges, role, block).items():
        for by, count in found.items():
            tally[r, slot, kind_of[other]][other, by] += count
    steps: dict[tuple[int, int, int], tuple[int, int]] = {}
    for key, places in tally.items():
        (usual, most), *rest = places.most_common(2)
        if not rest or rest[0][1] * 4 < most:
            steps[key] = usual
    queue = deque(edges.border(role))
    taken = {(r, block[node]) for node, r in enumerate(role) if r >= 0}
    while queue:
        node = queue.popleft()
        for other, slot in near[node]:
            if role[other] < 0 and (to := steps.get((role[node], slot, kinds[other]))) is not None:
                place = to[0], block[node] + to[1]
                if place not in taken:
                    taken.add(place)
                    role[other], block[other] = place
                    queue.append(other)


def taken_in(joint: Joint, found: Roles, pairs: Iterable[tuple[int, int]]) -> None:
    """What no block has and touches one block alone, or two that are neighbours, becomes part of it: of one that is
    otherwise than the rest. What shares an input, or is a pair (of outputs), goes together."""
    _with_neighbours(joint, found)
    role, block, near = found.role, found.block, found.near
    beyond: dict[int, list[int]] = defaultdict(list)
    for d, b in pairs:
        beyond[d].append(b)
        beyond[b].append(d)
    seen: set[int] = set()
    for first in range(len(joint.ops)):
        if role[first] >= 0 or first in seen:
            continue
        part, left, beside = [first], [first], Counter[int]()
        seen.add(first)
        while left:
            node = left.pop()
            for other in (*(other for other, _ in near[node]), *beyond[node]):
                if role[other] >= 0:
                    beside[block[other]] += joint.ops[other] is not None
                elif other not in seen:
                    seen.add(other)
                    part.append(other)
                    left.append(other)
        at = [b for b, count in beside.most_common() if count]
        if at and max(at) - min(at) <= 1 and len(part) <= MOST:
            for node in part:
                role[node], block[node] = found.count, at[0]
                found.count += 1


def _with_neighbours(joint: Joint, found: Roles) -> None:
    """What is of one program alone, at an end of the chain, goes to the block beside it."""
    role, block = found.role, found.block
    sides: dict[int, set[int]] = defaultdict(set)
    for node, r in enumerate(role):
        if r >= 0 and joint.ops[node] is not None:
            sides[block[node]].add(joint.sides[node])
    alone = {b for b, of in sides.items() if len(of) == 1}
    for node, r in enumerate(role):
        if r >= 0 and block[node] in alone:
            beside = [block[other] for other, _ in found.near[node] if role[other] >= 0 and block[other] not in alone]
            if beside:
                role[node], block[node] = found.count, Counter(beside).most_common(1)[0][0]
                found.count += 1


MOST = 400
"""Ops that a block takes in, at most."""
