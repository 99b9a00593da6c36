"""MSCCL programs: rings and trees of known algorithms are fine, broken ones are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalify_dl.errors import InputError
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import settings
from scalify_dl.schedule.verdict import Result, judge

Step = tuple[object, ...]
Block = tuple[int, int, list[Step]]


def step(kind: str, src: str, srcoff: int, dst: str, dstoff: int, depid: int = -1, deps: int = -1) -> Step:
    return kind, src, srcoff, dst, dstoff, depid, deps


def xml(gpus: list[list[Block]], chunks: int, in_place: bool = False, given: int = 0, left: int = 0) -> str:
    """`given`, `left`: chunks of inputs and outputs, where these are others."""
    out = [f'<algo name="a" inplace="{int(in_place)}">']
    for g, blocks in enumerate(gpus):
        ends = f'i_chunks="{given or chunks}" o_chunks="{left or chunks}"'
        out.append(f'<gpu id="{g}" {ends} s_chunks="{chunks}">')
        for b, (send, recv, steps) in enumerate(blocks):
            out.append(f'<tb id="{b}" send="{send}" recv="{recv}" chan="0">')
            for s, (kind, src, so, dst, do, depid, deps) in enumerate(steps):
                out.append(
                    f'<step s="{s}" type="{kind}" srcbuf="{src}" srcoff="{so}" dstbuf="{dst}" dstoff="{do}" '
                    f'cnt="1" depid="{depid}" deps="{deps}" hasdep="0"/>'
                )
            out.append("</tb>")
        out.append("</gpu>")
    return "\n".join([*out, "</algo>"])


def ring_all_gather(n: int) -> list[list[Block]]:
    """Each chunk goes once round, in one block."""
    return [
        [((g + 1) % n, (g - 1) % n, [
            step("s", "i", 0, "o", g),
            *(step("rcs", "i", 0, "o", (g - k) % n) for k in range(1, n - 1)),
            step("r", "i", 0, "o", (g + 1) % n),
        ])]
        for g in range(n)
    ]  # fmt: skip


def ring_all_reduce(n: int) -> list[list[Block]]:
    """Reduced on the way round, then passed round once more, in place."""
    return [
        [((g + 1) % n, (g - 1) % n, [
            step("s", "i", g, "i", g),
            *(step("rrs", "i", (g - k) % n, "i", (g - k) % n) for k in range(1, n - 1)),
            step("rrcs", "i", (g + 1) % n, "i", (g + 1) % n),
            *(step("rcs", "i", (g + 1 - k) % n, "i", (g + 1 - k) % n) for k in range(1, n - 1)),
            step("r", "i", (g + 2) % n, "i", (g + 2) % n),
        ])]
        for g in range(n)
    ]  # fmt: skip


def to_all(n: int) -> list[list[Block]]:
    """Everybody sends to everybody, a block for each pair and direction."""
    return [
        [(o, -1, [step("s", "i", o, "o", g)]) for o in range(n) if o != g]
        + [(-1, o, [step("r", "i", g, "o", o)]) for o in range(n) if o != g]
        for g in range(n)
    ]


def handed_over(n: int, waits: bool = True) -> list[list[Block]]:
    """One block receives, another one sends on."""
    gpus: list[list[Block]] = []
    for g in range(n):
        took: Block = (-1, g - 1, [step("r", "i", 0, "o", 0)])
        gives: Block = (g + 1, -1, [step("s", "o" if g else "i", 0, "o", 0, 0 if g and waits else -1, 0)])
        gpus.append([b for b in (took if g else None, gives if g + 1 < n else None) if b])
    return gpus


def ring_reduce_scatter(n: int) -> list[list[Block]]:
    """Each chunk is reduced once round, and stays where it ends."""
    return [
        [((g + 1) % n, (g - 1) % n, [
            step("s", "i", g, "i", g),
            *(step("rrs", "i", (g - k) % n, "i", (g - k) % n) for k in range(1, n - 1)),
            step("rrc", "i", (g + 1) % n, "i", (g + 1) % n),
        ])]
        for g in range(n)
    ]  # fmt: skip


def all_pairs_all_reduce(n: int) -> list[list[Block]]:
    """Everybody reduces a chunk of everybody's, and sends it back over what it was reduced from: that has been read by
    then, which only the order through the other one tells."""
    gpus = []
    for g in range(n):
        others = [o for o in range(n) if o != g]
        takes = n - 1
        reduce = 2 * (n - 1)
        gpus.append([
            *((o, -1, [step("s", "i", o, "s", g), step("s", "i", g, "i", g, reduce, n - 2)]) for o in others),
            *((-1, o, [step("r", "i", g, "s", o), step("r", "i", o, "i", o)]) for o in others),
            (-1, -1, [step("re", "s", o, "i", g, takes + k, 0) for k, o in enumerate(others)]),
        ])  # fmt: skip
    return gpus


def doubling_all_gather(n: int) -> list[list[Block]]:
    """With a partner twice as far each time, everything that is there."""
    gpus = []
    for g in range(n):
        blocks: list[Block] = [(-1, -1, [step("cpy", "i", 0, "o", g)])]
        far, before = 1, (0, 0)
        while far < n:
            partner = g ^ far
            mine, its = g // far * far, partner // far * far
            steps = [step("s", "o", mine + k, "o", mine + k, *(before if not k else ())) for k in range(far)]
            steps += [step("r", "o", its + k, "o", its + k) for k in range(far)]
            blocks.append((partner, partner, steps))
            far, before = 2 * far, (len(blocks) - 1, 2 * far - 1)
        gpus.append(blocks)
    return gpus


def tree_broadcast(n: int) -> list[list[Block]]:
    """From a parent to two children each."""
    gpus: list[list[Block]] = []
    for g in range(n):
        took: list[Block] = [(-1, (g - 1) // 2, [step("r", "i", 0, "o", 0)])] if g else []
        gives: list[Block] = [
            (c, -1, [step("s", "o" if g else "i", 0, "o", 0, 0 if g else -1, 0 if g else -1)])
            for c in (2 * g + 1, 2 * g + 2)
            if c < n
        ]
        gpus.append(took + gives)
    return gpus


def result(tmp_path: Path, text: str, sends: str = "buffered") -> Result:
    (tmp_path / "a.xml").write_text(text)
    return judge(read_schedule([tmp_path / "a.xml"]), settings(sends))


IN_PLACE = [ring_all_reduce, ring_reduce_scatter, all_pairs_all_reduce]


@pytest.mark.parametrize("n", [2, 4, 8])
@pytest.mark.parametrize("make", [*IN_PLACE, ring_all_gather, to_all, handed_over, doubling_all_gather, tree_broadcast])
def test_known_algorithms_have_no_findings(tmp_path: Path, make: object, n: int) -> None:
    assert callable(make)
    found = result(tmp_path, xml(make(n), n, make in IN_PLACE))
    assert (found.verdict, found.findings) == ("PROVED", [])


def test_a_ring_in_which_all_send_first_needs_a_buffer_and_that_is_said(tmp_path: Path) -> None:
    found = result(tmp_path, xml(ring_all_gather(4), 4), "both")
    assert (found.verdict, found.findings[0].kind) == ("UNKNOWN", "buffering")
    assert result(tmp_path, xml(ring_all_gather(4), 4), "1").verdict == "PROVED"


def test_a_block_that_does_not_wait_for_the_one_that_receives_is_a_race(tmp_path: Path) -> None:
    assert "race" in [f.kind for f in result(tmp_path, xml(handed_over(3, waits=False), 1)).findings]


def test_a_chunk_that_comes_back_before_it_was_read_races(tmp_path: Path) -> None:
    text = xml(all_pairs_all_reduce(3), 3, in_place=True)
    early = text.replace('depid="4" deps="1"', 'depid="-1" deps="-1"')
    assert text != early
    kinds = {finding.kind for finding in result(tmp_path, early).findings}
    assert "race" in kinds


@pytest.mark.parametrize("n", [2, 4])
def test_in_place_a_part_is_that_of_the_rank(n: int, tmp_path: Path) -> None:
    assert result(tmp_path, xml(ring_all_gather(n), n, in_place=True, given=1)).verdict == "PROVED"
    for other, verdict in ((0, "PROVED"), (1, "REFUTED")):  # what another rank's part holds is not written yet
        gpus = ring_all_gather(n)
        for g, ((_, _, steps),) in enumerate(gpus):
            steps[0] = step("s", "o", (g + other) % n, "o", g)
        assert result(tmp_path, xml(gpus, n, in_place=True, given=1)).verdict == verdict
    gpus = ring_reduce_scatter(n)
    for ((_, _, steps),) in gpus:
        steps[-1] = (*steps[-1][:3], "o", 0, *steps[-1][5:])
    assert result(tmp_path, xml(gpus, n, in_place=True, left=1)).verdict == "PROVED"


def test_blocks_that_wait_for_each_other_hang(tmp_path: Path) -> None:
    gpus = handed_over(3)
    gpus[1][0] = (-1, 0, [step("r", "i", 0, "o", 0, 1, 0)])
    assert "deadlock" in [f.kind for f in result(tmp_path, xml(gpus, 1)).findings]


def test_a_send_that_nobody_receives_is_named(tmp_path: Path) -> None:
    gpus = ring_all_gather(4)
    gpus[2][0][2].pop()
    assert result(tmp_path, xml(gpus, 4)).findings[0].kind == "unmatched"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</algo>", "", "not XML"),
        ('type="s"', 'type="x"', "unknown type"),
        ('cnt="1"', 'cnt="-1"', "attribute cnt"),
        ('send="1"', 'send="9"', "sends to 9"),
        ('dstbuf="o" dstoff="1"', 'dstbuf="o" dstoff="2"', "has 2 chunks, not 1 from 2 on"),
        ('srcbuf="i" srcoff="0"', 'srcbuf="s" srcoff="9"', "has 2 chunks, not 1 from 9 on"),
        ('srcbuf="i"', 'srcbuf="q"', "srcbuf"),
        ('<gpu id="0"', '<gpu id="5"', "not numbered"),
        ('depid="-1" deps="-1"', 'depid="7" deps="0"', "which there is not"),
        ("<algo", '<!DOCTYPE a [<!ENTITY b "c">]><algo', "declares types"),
    ],
)
def test_bad_files_are_told(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = xml(ring_all_gather(2), 2).replace(old, new)
    with pytest.raises(InputError) as error:
        result(tmp_path, text)
    assert said in str(error.value)
