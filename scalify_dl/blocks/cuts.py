"""Where blocks begin and end: so that as few values as possible go from one to another.

Each role has an offset, which is added to the number of the block that its members were found near to. What a value
costs is how far the blocks lie apart that make and read it. The cheapest offsets are found in steps: in each, of all
sets of roles that may be moved by one, the one that saves most (a least closure, by augmenting paths).
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque

from .joint import Joint
from .roles import Roles

STEPS = 40


def move(joint: Joint, found: Roles) -> None:
    """Numbers blocks so that they begin in the best place."""
    spans = _spans(joint, found)
    offset = [0] * found.count
    low = [min(offset[r] + by for r, by in ends) for ends in spans]
    high = [max(offset[r] + by for r, by in ends) for ends in spans]
    for _ in range(STEPS):
        lows, roles_, highs = _best(spans, offset, low, high)
        if len(lows) <= len(highs):
            break
        for n in lows:
            low[n] += 1
        for n in highs:
            high[n] += 1
        for r in roles_:
            offset[r] += 1
    _settle(found, spans, offset)
    found.block = [b + offset[r] if r >= 0 else b for r, b in zip(found.role, found.block, strict=True)]


def _settle(found: Roles, spans: list[list[tuple[int, int]]], offset: list[int]) -> None:
    """Of places that cost alike the last one, so that both programs are cut at the same: an op goes with what it reads,
    where that costs no more."""
    of: dict[int, set[int]] = defaultdict(set)
    reads: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for n, ((maker, _), *ends) in enumerate(spans):
        of[maker].add(n)
        for r, by in ends:
            of[r].add(n)
            reads[r].append((maker, by))
    first = {r: node for node, r in reversed([*enumerate(found.role)])}

    def cost(r: int) -> int:
        places = ([offset[end] + by for end, by in spans[n]] for n in of[r])
        return sum(max(some) - min(some) for some in places)

    for r in sorted(reads, key=lambda r: first.get(r, 0)):
        wanted = {offset[maker] - by for maker, by in reads[r]}
        if len(wanted) == 1 and (to := wanted.pop()) != offset[r]:
            kept, before = offset[r], cost(r)
            offset[r] = to
            if cost(r) > before:
                offset[r] = kept


def _spans(joint: Joint, found: Roles) -> list[list[tuple[int, int]]]:
    """By value of a role: who makes and reads it, each with how far from the maker's block."""
    role, block = found.role, found.block
    members = Counter(role)
    tally = Counter([
        (role[made_by], result, r, block[node] - block[made_by])
        for node, r in enumerate(role)
        if r >= 0
        for made_by, result in joint.reads[node]
        if made_by >= 0 and role[made_by] >= 0
    ])  # fmt: skip
    often: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for (maker, result, r, by), count in tally.items():
        if count * 2 > members[maker]:
            often.setdefault((maker, result), [(maker, 0)]).append((r, by))
    return [*often.values()]


def _best(
    spans: list[list[tuple[int, int]]], offset: list[int], low: list[int], high: list[int]
) -> tuple[set[int], set[int], set[int]]:
    """The set that is best moved by one: lower ends (each saves one), roles, upper ends (each costs one)."""
    down: dict[int, list[int]] = {}
    up: dict[int, list[int]] = defaultdict(list)
    for n, ends in enumerate(spans):
        down[n] = [r for r, by in ends if offset[r] + by == low[n]]
        for r, by in ends:
            if offset[r] + by == high[n]:
                up[r].append(n)
    # flow of one from a lower end through roles to an upper end: residual ways go back along what flows
    flow_lr: Counter[tuple[int, int]] = Counter()  # lower end → role
    flow_rh: Counter[tuple[int, int]] = Counter()  # role → upper end
    back_l: dict[int, set[int]] = defaultdict(set)  # role ← lower ends with flow
    back_r: dict[int, set[int]] = defaultdict(set)  # upper end ← roles with flow
    full_low: set[int] = set()
    full_high: set[int] = set()

    def reach(starts: list[int], one: bool) -> tuple[dict[tuple[str, int], tuple[str, int] | None], int | None]:
        seen: dict[tuple[str, int], tuple[str, int] | None] = {("l", n): None for n in starts}
        queue = deque(seen)
        while queue:
            at = queue.popleft()
            sort, n = at
            if sort == "l":
                ways = [("r", r) for r in down[n]]
            elif sort == "r":
                ways = [("h", h) for h in up[n]] + [("l", m) for m in back_l[n]]
            else:
                if one and n not in full_high:
                    return seen, n
                ways = [("r", r) for r in back_r[n]]
            for way in ways:
                if way not in seen:
                    seen[way] = at
                    queue.append(way)
        return seen, None

    for n in down:
        seen, end = reach([n], True)
        if end is None:
            continue
        full_low.add(n)
        full_high.add(end)
        at: tuple[str, int] = ("h", end)
        while (before := seen[at]) is not None:
            pair = before[0] + at[0]
            if pair == "lr":
                flow_lr[before[1], at[1]] += 1
                back_l[at[1]].add(before[1])
            elif pair == "rh":
                flow_rh[before[1], at[1]] += 1
                back_r[at[1]].add(before[1])
            elif pair == "rl":
                flow_lr[at[1], before[1]] -= 1
                if not flow_lr[at[1], before[1]]:
                    back_l[before[1]].discard(at[1])
            else:
                flow_rh[at[1], before[1]] -= 1
                if not flow_rh[at[1], before[1]]:
                    back_r[before[1]].discard(at[1])
            at = before
    left = [n for n in down if n not in full_low]
    seen, _ = reach(left, False)
    chosen = {sort: {n for s, n in seen if s == sort} for sort in "lrh"}
    return chosen["l"], chosen["r"], chosen["h"]
