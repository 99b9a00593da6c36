"""Which op of a large program plays which role in which of many equal blocks: a guess, on which no proof rests."""

from __future__ import annotations

from collections import Counter, defaultdict, deque

import numpy as np

from .joint import Joint

Array = np.ndarray[tuple[int], np.dtype[np.int64]]
FEWEST = 4
"""Blocks of a kind, at least."""
ROUNDS = 24


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


def _mixed(values: np.ndarray, by: int) -> np.ndarray:
    with np.errstate(over="ignore"):
        values = (values ^ (values >> np.uint64(29))) * np.uint64(0xBF58476D1CE4E5B9 + 2 * by)
        return values ^ (values >> np.uint64(32))


def colours(joint: Joint, edges: Edges) -> np.ndarray:
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
    colour, best, still = own, 0, 0
    for _ in range(ROUNDS):
        with np.errstate(over="ignore"):
            new = _mixed(colour, 5) + own
            for other, slot, ends, by in ways:
                sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mixed(colour[other] ^ slot, by))])
                new = new + _mixed(sums[ends[1:]] - sums[ends[:-1]], by + 6)
        colour = _mixed(new, 7)
        many = int((np.unique(colour, return_counts=True)[1] >= FEWEST).sum())
        still = still + 1 if many <= best else 0
        best = max(best, many)
        if still >= 2:
            break
    return colour


def depths(joint: Joint) -> list[int]:
    """The longest way to each node."""
    found: list[int] = []
    for reads in joint.reads:
        found.append(1 + max((found[node] for node, _ in reads if node >= 0), default=0))
    return found


class Roles:
    """`role[node]` (-1: none) and `block[node]`: the number of the block, whatever the order of the blocks is."""

    def __init__(self, role: list[int], block: list[int], count: int) -> None:
        self.role, self.block, self.count = role, block, count


def roles(joint: Joint, edges: Edges) -> Roles | None:
    """Roles of nodes; None where nothing repeats."""
    _, inverse, counts = np.unique(colours(joint, edges), return_inverse=True, return_counts=True)
    tally: Counter[int] = Counter()
    for size in counts[counts >= FEWEST].tolist():
        tally[size] += size
    if not tally:
        return None
    usual = max(tally, key=lambda size: (sum(tally[s] for s in range(int(size * 0.8), size + 1)), size))
    fits = (counts >= max(FEWEST, int(usual * 0.8))) & (counts <= usual)
    repeated = fits[inverse]
    if repeated.sum() < len(joint.ops) * 0.4:
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
    near: list[list[tuple[int, int]]] = [[] for _ in role]
    for s, t, slot in zip(edges.source.tolist(), edges.target.tolist(), edges.slot.tolist(), strict=True):
        near[s].append((t, slot + 1))
        near[t].append((s, -slot - 1))
    queue = deque(seed)
    for n, node in enumerate(seed):
        block[node] = n
    while queue:  # each is of the block of the seed that is nearest
        node = queue.popleft()
        for other, _ in near[node]:
            if block[other] == _NO and role[other] >= 0:
                block[other] = block[node]
                queue.append(other)
    _again(near, role, block, seed[len(seed) // 2])
    for node, b in enumerate(block):
        if b == _NO:
            role[node] = -1
    _extended(joint, near, role, block)
    return Roles(role, block, len(members))


_NO = -(10**9)
Near = list[list[tuple[int, int]]]


def _again(near: Near, role: list[int], block: list[int], first: int) -> None:
    """Numbers blocks from one node on, by how far most neighbours of these roles lie apart: at the ends of the chain
    the nearest seed is the one of another block."""
    tally: dict[tuple[int, int, int], Counter[int]] = defaultdict(Counter)
    for node, r in enumerate(role):
        if r >= 0 and block[node] != _NO:
            for other, slot in near[node]:
                if role[other] >= 0 and block[other] != _NO:
                    tally[r, slot, role[other]][block[other] - block[node]] += 1
    apart = {key: found.most_common(1)[0][0] for key, found in tally.items()}
    start = block[first]
    block[:] = [_NO] * len(block)
    block[first] = start
    queue = deque([first])
    while queue:
        node = queue.popleft()
        for other, slot in near[node]:
            if role[other] >= 0 and block[other] == _NO and (by := apart.get((role[node], slot, role[other]))) is not None:
                block[other] = block[node] + by
                queue.append(other)


def _extended(joint: Joint, near: Near, role: list[int], block: list[int]) -> None:
    """Roles of what lies beside, as far as it looks like more of the same."""
    kinds = joint.kinds
    tally: dict[tuple[int, int, int], Counter[tuple[int, int]]] = defaultdict(Counter)
    for node, r in enumerate(role):
        if r >= 0:
            for other, slot in near[node]:
                if role[other] >= 0:
                    tally[r, slot, kinds[other]][role[other], block[other] - block[node]] += 1
    steps = {}
    for key, found in tally.items():
        (to, most), *rest = found.most_common(2)
        if not rest or rest[0][1] * 4 < most:
            steps[key] = to
    queue = deque(node for node, r in enumerate(role) if r >= 0 and any(role[o] < 0 for o, _ in near[node]))
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
