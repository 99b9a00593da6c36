"""Wrong plans, made of the recorded one by editing its tables: (edit, name or cid of the op to be blamed first).

Fourteen that TrainVerify was tried on, the kinds that it takes for right, and a reducer that lost a member.
"""

from __future__ import annotations

from collections.abc import Callable

from .tables import Edited

RANKS = range(8)


def _forward(t: Edited) -> list[str]:
    """The forward all-reduces of the first stage."""
    return t.ops(cid=1009)


def _adapter_moved(t: Edited) -> None:
    for op in _forward(t):
        (rank,) = [row[2] for row in t.tables["p_op"] if row[0] == op]
        t.kind(op, "IdentityPrim")
        t.members(op, [int(rank)])


def _adapter_deleted(t: Edited) -> None:
    for op in _forward(t):
        t.bypass(op)


def _gather_for_reduce(t: Edited) -> None:
    for op in _forward(t):
        t.kind(op, "AllGatherPrim")
        t.change("p_coll", op, 3, "2")


def _reduce_for_gather(t: Edited) -> None:
    for op in t.ops(cid=407, kind="AllGatherPrim"):
        t.kind(op, "AllReducePrim")


def _identity_backward(t: Edited) -> None:
    for op in t.ops(cid=964):
        t.kind(op, "IdentityPrim")


def _wrong_ranks(t: Edited) -> None:
    """Stage 1's tp ranks get each other's halves."""
    crossed = {"2": "3", "3": "2", "6": "7", "7": "6"}
    for op in t.ops(cid=407, kind="MovePrim"):
        (row,) = t.of("p_p2p", op)
        source, target = row[1], row[2]
        rank = next(r[2] for r in t.tables["p_op"] if r[0] == op)
        if rank == source:
            row[2] = crossed[target]
            t.change("p_attr", op, 3, row[2], "dst")
        else:
            row[1] = {"0": "1", "1": "0", "4": "5", "5": "4"}[source]
            t.change("p_attr", op, 3, row[1], "src")


def _constant_of_one_rank(t: Edited) -> None:
    for op in t.ops(cid=6, rank=1, kind="add"):
        t.change("p_const", op, 3, "2")


def _exponent_of_one_rank(t: Edited) -> None:
    for op in t.ops(cid=4, rank=0, kind="pow"):
        t.change("p_const", op, 3, "3")


def _constant_of_all(t: Edited) -> None:
    for op in t.ops(cid=6, kind="add"):
        t.change("p_const", op, 3, "2")


def _operand_twice(t: Edited) -> None:
    for op in t.ops(cid=564, kind="multiref"):
        first, second = t.of("p_in", op)
        second[2] = first[2]


def _rotary_swapped(t: Edited) -> None:
    for op in t.ops(cid=255, kind="apply_rotary_emb"):
        first, second = t.of("p_in", op)[:2]
        first[2], second[2] = second[2], first[2]


def _scale(ranks: range | list[int]) -> Callable[[Edited], None]:
    def edit(t: Edited) -> None:
        for rank in ranks:
            for op in t.ops(cid=25, rank=rank, kind="div", dir="fw"):
                t.change("p_const", op, 3, "4.0")

    return edit


def _backward_missing(t: Edited) -> None:
    gone = t.ops(rank=0, mb=1, dir="bw")
    made = {row[2] for op in gone for row in t.of("p_out", op)}
    for op in t.ops(rank=0, mb=1, kind="AllReducePrim", name="IdentityAllreducePrim"):
        gone.append(op)
    for op in t.ops(rank=0, kind="local_grad_accumulation"):
        reads = [row[2] for row in t.of("p_in", op)]
        if any(x in made for x in reads):
            ((_, _, result),) = t.of("p_out", op)
            left = next((x for x in reads if x not in made), result)
            gone.append(op)
            for row in t.tables["p_in"]:
                if row[2] == result:
                    row[2] = left
    t.drop(gone)


def _reducer_early(t: Edited) -> None:
    for op in t.ops(rank=0, kind="reducer"):
        t.change("p_op", op, 4, lambda seq: str(int(seq) - 160))
    for rank in (0,):
        mine = sorted((row for row in t.tables["p_op"] if row[2] == str(rank)), key=lambda row: int(row[4]))
        for n, row in enumerate(mine):
            row[4] = str(n)


def _over_itself(t: Edited) -> None:
    for op in _forward(t):
        (rank,) = [row[2] for row in t.tables["p_op"] if row[0] == op]
        t.members(op, [int(rank)])


def _across_stages(t: Edited) -> None:
    for op in (*t.ops(cid=1009), *t.ops(cid=1488)):
        rank = int(next(row[2] for row in t.tables["p_op"] if row[0] == op))
        t.members(op, sorted({rank, rank ^ 2}))


def _gather_crossed(t: Edited) -> None:
    for op in t.ops(cid=407, kind="AllGatherPrim"):
        t.members(op, [int(row[2]) for row in t.of("p_coll_member", op)][::-1])


def _weights_swapped(t: Edited) -> None:
    """q and k, in forward and backward, on all ranks."""
    swap = {}
    for rank in RANKS:
        for q, k in (("t517", "t519"), ("t573", "t575")):
            swap[f"p.r{rank}.m-1.{q}.v0"] = f"p.r{rank}.m-1.{k}.v0"
            swap[f"p.r{rank}.m-1.{k}.v0"] = f"p.r{rank}.m-1.{q}.v0"
    for row in t.tables["p_in"]:
        row[2] = swap.get(row[2], row[2])


def _embedding_range(t: Edited) -> None:
    for op in t.ops(rank=0, cid=1, kind="embedding"):
        t.change("p_attr", op, 3, "1024", "stop")


def _loss_dropped(t: Edited) -> None:
    t.drop(t.ops(cid=538))


def _receives_swapped(t: Edited) -> None:
    for mb in (0, 1):
        (one,), (other,) = (t.ops(rank=2, mb=mb, cid=cid, kind="MovePrim") for cid in (407, 437))
        rows = [next(row for row in t.tables["p_op"] if row[0] == op) for op in (one, other)]
        rows[0][4], rows[1][4] = rows[1][4], rows[0][4]
        gathers = [t.ops(rank=2, mb=mb, cid=cid, kind="AllGatherPrim")[0] for cid in (407, 437)]
        gather = [next(row for row in t.tables["p_op"] if row[0] == op) for op in gathers]
        gather[0][4], rows[0][4] = rows[0][4], gather[0][4]


def _member_lost(t: Edited) -> None:
    (op, *_) = t.ops(rank=0, kind="reducer", name="IRWeightReducer-w517")
    t.members(op, [0])


BUGS: dict[str, tuple[Callable[[Edited], None], tuple[str, ...]]] = {
    "1 all-reduce moved to its backward": (_adapter_moved, ("cid 1009",)),
    "2 adapter deleted": (_adapter_deleted, ("cid 49",)),
    "3 all-gather for all-reduce": (_gather_for_reduce, ("cid 1009",)),
    "4 all-reduce for all-gather": (_reduce_for_gather, ("cid 407",)),
    "5 backward all-reduce is an identity": (_identity_backward, ("cid 964",)),
    "6 moves to the wrong ranks": (_wrong_ranks, ("cid 407",)),
    "7 constant of one rank": (_constant_of_one_rank, ("cid 6",)),
    "8 exponent of one rank": (_exponent_of_one_rank, ("cid 4",)),
    "9 constant of all ranks": (_constant_of_all, ("cid 6",)),
    "10 gradient sum reads one operand twice": (_operand_twice, ("cid 564",)),
    "11 backward rotary with swapped inputs": (_rotary_swapped, ("cid 255",)),
    "12 scale of one rank": (_scale([0]), ("cid 25",)),
    "13 scale of both ranks": (_scale(RANKS), ("cid 25",)),
    "14a backward missing": (_backward_missing, ("cid 220",)),
    "14b reducer before the last backward": (_reducer_early, ("IRWeightReducer",)),
}
ACCEPTED_ELSEWHERE: dict[str, tuple[Callable[[Edited], None], tuple[str, ...]]] = {
    "all-reduce over itself": (_over_itself, ("cid 1009",)),
    "all-reduce across stages": (_across_stages, ("cid 1009", "cid 1488")),
    "gather members crossed": (_gather_crossed, ("cid 407",)),
    "q and k weights swapped": (_weights_swapped, ("cid 13", "cid 14")),
    "embedding range of one rank": (_embedding_range, ("cid 1",)),
    "loss transfer dropped": (_loss_dropped, ("",)),
    "receives in the other order": (_receives_swapped, ("cid 407", "cid 437")),
    "a reducer lost a member": (_member_lost, ("IRWeightReducer-w517",)),
}
