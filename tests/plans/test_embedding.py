"""A table of rows that is cut over the tp ranks: ids outside of a rank's rows give zero, an all-reduce the whole."""

from __future__ import annotations

from pathlib import Path

from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Report, Verdict

from .small import Writer, whole, world
from .tables import Edited

BATCH, POSITIONS, ROWS, WIDTH = 8, 3, 16, 6


def step(w: Writer, rank: int, tp: int) -> None:
    """The sum of the squares of the rows looked up, and the table's gradient."""
    shape, scalar, rows = whole(BATCH, POSITIONS, WIDTH), whole(1), ROWS // tp
    cut, end = [(rank * rows, (rank + 1) * rows), (0, WIDTH)], f"@{rank}" if tp > 1 else ""
    for name in ("e", "sq"):
        w.full(name, shape)
    for name in ("de", "dsq", "g"):
        w.full(name, shape, gradient=True)
    w.full("ids", whole(BATCH, POSITIONS))
    w.full("table", whole(ROWS, WIDTH), weight=True)
    w.full("dtable", whole(ROWS, WIDTH), gradient=True)
    w.full("loss", scalar, loss=True)
    w.full("dloss", scalar, gradient=True, loss=True)
    e, sq, de, dsq, one, other = (
        w.tensor(rank, 0, w.part(tid, full, shape))
        for tid, full in (("e", "e"), ("sq", "sq"), ("de", "de"), ("dsq", "dsq"), ("g1", "g"), ("g2", "g"))
    )
    ids = w.tensor(rank, 0, w.part("ids", "ids", whole(BATCH, POSITIONS)), given=True)
    loss = w.tensor(rank, 0, w.part("loss", "loss", scalar))
    start = w.tensor(rank, 0, w.part("dloss", "dloss", scalar), 0, given=True)
    table = w.tensor(rank, -1, w.part("table" + end, "table", cut), 0, given=True)
    dtable = w.tensor(rank, -1, w.part("dtable" + end, "dtable", cut))
    own: dict[str, object] = {"padding_idx": None, "start": rank * rows, "stop": (rank + 1) * rows}
    w.op(rank, 0, 1, "dataloader", [], [ids])
    part = e if tp == 1 else w.tensor(rank, 0, w.part("e" + end, "e", shape, (rank, tp)))
    w.op(rank, 0, 2, "embedding", [ids, table], [part], attributes=own)
    if tp > 1:
        w.op(rank, 0, 3, "AllReducePrim", [part], [e], "-", members=list(range(tp)))
    w.op(rank, 0, 4, "mul", [e, e], [sq])
    w.op(rank, 0, 5, "sum", [sq], [loss])
    w.op(rank, 0, 6, "sum", [start, sq], [dsq], "bw")
    w.op(rank, 0, 7, "mul", [dsq, e, e], [one, other], "bw")
    w.op(rank, 0, 8, "multiref", [one, other], [de], "bw")
    w.op(rank, 0, 9, "embedding", [de, ids, table], [dtable], "bw", attributes=own)
    w.rows["grad_of"].append((w.side, "dtable" + end, "table" + end))
    w.rows["mesh"].append((w.side, rank, 0, 0, rank))


def write(directory: Path) -> Path:
    for side, tp in (("s", 1), ("p", 2)):
        w = Writer(side, world(1, tp, 1, 1, tp))
        for rank in range(tp):
            step(w, rank, tp)
        kinds = [(*row[:3], "int64" if row[1] == "ids" else "float32", *row[4:]) for row in w.rows["full"]]
        w.rows["full"] = kinds
        w.write(directory)
    return directory


def verified(directory: Path) -> Report:
    return report_on(prepare(directory), Options(refute=False))


def test_a_cut_table_is_proved(tmp_path: Path) -> None:
    report = verified(write(tmp_path))
    assert (report.verdict, report.findings) == (Verdict.PROVED, [])
    assert [output.name for output in report.outputs] == ["loss", "table"]


def test_rows_that_nobody_looks_up_are_told(tmp_path: Path) -> None:
    tables = Edited(write(tmp_path / "right"))
    (op,) = tables.ops(rank=1, kind="embedding", dir="fw")
    tables.change("p_attr", op, 3, "9", "start")
    report = verified(tables.write(tmp_path / "wrong"))
    assert report.verdict is not Verdict.PROVED
    assert (report.findings[0].op, report.findings[0].kind, report.findings[0].rank) == (op, "attribute", 1)
