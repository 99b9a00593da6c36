"""Soufflé's own tests, run by our engine: `python benchmarks/souffle_tests.py CHECKOUT [CATEGORY/NAME …]`.

CHECKOUT is a clone of github.com/souffle-lang/souffle (UPL-1.0); nothing of it is kept here. A test is a folder
`tests/CATEGORY/NAME` that its `CMakeLists.txt` names. A positive one passes where `dlverify datalog` ends well, writes
as many `.csv` files as there are, each with the expected rows (sorted), and prints the expected lines; a negative one
where the program is refused with a message. Diagnostics are not compared: ours are others. Tests of user-defined
functors, of the C++ interface, of the provenance terminal and of the profiler are not run.
"""

from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import re
import sqlite3
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from scalify_dl import cli, pysouffle  # noqa: F401  # the engine, too, before the processes are forked

FORK = multiprocessing.get_context("fork")
CATEGORIES = ("evaluation", "example", "semantic", "syntactic")
SECONDS = 60
SHORT = re.compile(r"^\s*(positive|negative)(?:_output_stdout)?_test\(\s*(\w[\w-]*)[^)]*\)", re.I | re.M)
STDOUT = re.compile(r"^\s*positive_output_stdout_test\(\s*(\w[\w-]*)", re.M)
LONG = re.compile(r"^\s*souffle_run_test\(\s*TEST_NAME\s+([\w-]+)([^)]*)\)", re.I | re.M)
SEVERAL = re.compile(r"souffle_positive_multi_test\(TEST_NAME\s+([\w-]+).*?FACTS_DIR_NAMES([^)]*)\)", re.I)


@dataclass(frozen=True)
class Case:
    """One test: its folder, the folder of facts and results, and what is expected."""

    name: str
    folder: Path
    facts: Path
    expected: Path
    positive: bool = True
    prints: bool = False
    include: tuple[str, ...] = ()

    @property
    def program(self) -> Path:
        return self.folder / f"{self.folder.name}.dl"


def cases(checkout: Path) -> list[Case]:
    """The tests that the `CMakeLists.txt` of the four categories name, but those of functors."""
    found: dict[str, Case] = {}
    for category in CATEGORIES:
        top = checkout / "tests" / category
        text = (top / "CMakeLists.txt").read_text()
        printing = set(STDOUT.findall(text))

        def add(name: str, positive: bool, include: tuple[str, ...] = (), top: Path = top, printing=printing) -> None:
            folder = top / name
            if (folder / f"{name}.dl").exists():
                key = f"{top.name}/{name}"
                found[key] = Case(key, folder, folder / "facts", folder, positive, name in printing, include)

        for kind, name in SHORT.findall(text):
            add(name, kind.lower() == "positive")
        for name in printing:
            add(name, True)
        for name, rest in LONG.findall(text):
            words = rest.split()
            add(name, "NEGATIVE" not in words, tuple(w for w in words if re.fullmatch(r"q\d", w)))
        for name, folders in SEVERAL.findall(text):
            for part in folders.split():
                folder = top / name
                found[f"{category}/{name}_{part}"] = Case(
                    f"{category}/{name}_{part}", folder, folder / part, folder / part
                )
    return list(found.values())


def run(case: Case) -> str:
    """Run one test: what is wrong, or nothing."""
    with tempfile.TemporaryDirectory() as text:
        out = Path(text)
        words = ["datalog", str(case.program), "-F", str(case.facts), "-D", "-" if case.prints else "."]
        words += [word for name in case.include for word in ("-I", str(case.folder / name))]
        child = FORK.Process(target=_dlverify, args=([*words, "--word-size", "32"], out))
        child.start()
        child.join(SECONDS)
        if child.exitcode is None:
            child.kill()
            child.join()
            return f"not done after {SECONDS} s"
        message = (out / "stderr").read_text(errors="replace")
        if child.exitcode not in (0, 2):
            return f"ends with {child.exitcode}: {message.strip()[-300:]}"
        if not case.positive:
            return "" if child.exitcode == 2 else "accepted"
        if child.exitcode:
            return message.strip()[:300]
        return _compare(case, out, (out / "stdout").read_bytes())


def _dlverify(words: list[str], out: Path) -> None:
    """What the shell would do with this command, in a process that has imported everything already; not by `__main__`,
    which ends the process and with it the folder, as the parent would on its way out."""
    os.chdir(out)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    sys.argv = ["dlverify", *words]
    cli.main()


def _compare(case: Case, out: Path, printed: bytes) -> str:
    _unpack(case, out)
    csvs = [p for p in case.expected.glob("*.csv") if p.name != f"{case.folder.name}.csv" or p.exists()]
    ours = list(out.glob("*.csv"))
    if len(csvs) != len(ours):
        return f"{len(ours)} files, expected {len(csvs)}"
    for path in csvs:
        mine = out / path.name
        if not mine.exists():
            return f"no {path.name}"
        if _lines(mine.read_bytes()) != _lines(path.read_bytes()):
            return f"{path.name} differs"
    for path in case.expected.glob("*.json"):
        mine = out / path.name
        if mine.exists() and json.loads(mine.read_text()) != json.loads(path.read_text()):
            return f"{path.name} differs"
    expected = case.expected / f"{case.folder.name}.out"
    if expected.exists() and _lines(printed) != _lines(expected.read_bytes()):
        return "prints other lines"
    return ""


def _unpack(case: Case, out: Path) -> None:
    """What Soufflé's runner makes of results that are no text: `x.gz.output` → `x`, a database by its `.script`."""
    for path in out.glob("*.gz.output"):
        (out / path.name.removesuffix(".gz.output")).write_bytes(gzip.decompress(path.read_bytes()))
    for path in out.glob("*.sqlite.output"):
        script = case.folder / f"{path.name}.script"
        selects = re.findall(r"(?im)^\s*select .*?;", script.read_text()) if script.exists() else []
        with sqlite3.connect(path) as database:
            rows = [row for select in selects for row in database.execute(select)]
        text = "".join("|".join(map(str, row)) + "\n" for row in rows)
        (out / f"{path.name.removesuffix('.sqlite.output')}.csv").write_text(text)


def _lines(data: bytes) -> list[bytes]:
    return sorted(data.replace(b"\r\n", b"\n").splitlines())


def test(arguments: list[str]) -> int:
    if not arguments or not (Path(arguments[0]) / "tests" / "evaluation").is_dir():
        print(__doc__, file=sys.stderr)
        return 2
    chosen = [c for c in cases(Path(arguments[0]).resolve()) if not arguments[1:] or c.name in arguments[1:]]
    failed, begin = 0, time.monotonic()
    for case in chosen:
        wrong = run(case)
        if wrong:
            failed += 1
            print(f"{case.name}: {wrong}", flush=True)
    print(f"{len(chosen) - failed} of {len(chosen)} pass, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(test(sys.argv[1:]))
