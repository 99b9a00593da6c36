"""Stock Soufflé runs the rule files as they are, and writes the rows that our engine writes.

It is looked for on PATH, and where SOUFFLE says.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from scalify_dl.audit.schedules.mutants import mutate
from scalify_dl.audit.schedules.orders import dual_pipe
from scalify_dl.audit.schedules.program import put_together, taken_apart
from scalify_dl.audit.schedules.sources import exchange, pipeline, prefetch, ring, tables, with_messages
from scalify_dl.plans.prepare import prepare
from scalify_dl.plans.verdict import report_on
from scalify_dl.prove.options import Options
from scalify_dl.pysouffle import Program, rules_dir
from scalify_dl.schedule.read import read_schedule
from scalify_dl.schedule.run import CHECKS, decide
from scalify_dl.schedule.tables import Schedule

from ..lint.test_lint import judged, mlp
from ..plans.small import write_small

SOUFFLE = os.environ.get("SOUFFLE") or shutil.which("souffle")
pytestmark = pytest.mark.skipif(SOUFFLE is None, reason="no souffle on PATH, and SOUFFLE names none")
DUMPS = Path(__file__).parents[1] / "schedule" / "hlo"
FACTS = Path(__file__).parents[2] / "facts"
SOURCES: dict[str, Callable[[], Schedule]] = {
    "pipeline": lambda: tables(pipeline(3, 3, "loop", False, "depth"), "pair"),
    "halves of the backward": lambda: tables(pipeline(2, 4, "v", True, "backward"), "rank"),
    "DualPipe": lambda: tables(with_messages(dual_pipe(4, 8)), "direction"),
    "ring": lambda: ring(3, 3).build(),
    "prefetching": lambda: prefetch(3, 4).build(),
    "borders": lambda: exchange(4, 3).build(),
    "scheduled HLO": lambda: read_schedule([DUMPS / "both_ways.v5e.hlo"]),
}


def same(main: str, ran: Program, directory: Path, *, seconds: int = 100) -> int:
    """Both engines write the same files from the facts of a run; how many rows."""
    facts, ours, theirs = (directory / name for name in ("facts", "ours", "theirs"))
    for folder in (facts, ours, theirs):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    for said in ran.directives:
        if said.kind == "input":
            rows = "".join("\t".join(map(str, row)) + "\n" for row in ran.relation(said.name))
            (facts / f"{said.name}.facts").write_text(rows)
    with (directory / "sizes").open("wb") as sizes:
        ran.write(ours, out=sizes)
    command = [str(SOUFFLE), "-w", "-F", str(facts), "-D", str(theirs), str(rules_dir() / main)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert sorted(done.stdout.split("\n")) == sorted((directory / "sizes").read_text().split("\n"))
    assert {f.name for f in ours.iterdir()} == {f.name for f in theirs.iterdir()}
    count = 0
    for file in sorted(ours.iterdir()):
        rows = sorted(file.read_text().splitlines())
        assert sorted((theirs / file.name).read_text().splitlines()) == rows, file.name
        count += len(rows)
    return count


@contextmanager
def runs_of(relation: str) -> Iterator[list[Program]]:
    """Programs with a relation that are run meanwhile."""
    ran: list[Program] = []
    before = Program.run

    def run(program: Program, **options: object) -> Program:
        done = before(program, **options)  # type: ignore[arg-type]
        if relation in program.relations:
            ran.append(program)
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Program, "run", run)
        yield ran


@pytest.mark.parametrize("name", SOURCES)
def test_schedules(tmp_path: Path, name: str) -> None:
    rng, broken = random.Random(name), 0
    for n, capacity in enumerate((0, None, 1, 0, 2, None)):
        schedule = SOURCES[name]()
        if n:
            program = taken_apart(schedule)
            mutate(program, rng)
            schedule, _ = put_together(program)
        for check, (main, _) in CHECKS.items():
            outcome = decide(schedule, capacity, check=check)
            assert outcome.program is not None
            broken += bool(same(main, outcome.program, tmp_path))
    assert broken


def test_plans(tmp_path: Path) -> None:
    with runs_of("because") as ran:
        report_on(prepare(write_small(tmp_path / "plan")), Options(refute=False))
    assert ran
    assert same("plans.dl", ran[0], tmp_path)


@pytest.mark.parametrize("reduced", [True, False])
def test_lifts(tmp_path: Path, reduced: bool) -> None:
    with runs_of("lint_op") as ran:
        judged(mlp(reduced))
    assert ran
    assert same("lift.dl", ran[0], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("pair", ["row_parallel_linear", "megatron_mlp_wrong_group"])
def test_pairs(tmp_path: Path, pair: str) -> None:
    ran = Program.from_file(rules_dir() / "verify.dl").load(FACTS / pair, missing="empty").run()
    assert same("verify.dl", ran, tmp_path, seconds=800)
