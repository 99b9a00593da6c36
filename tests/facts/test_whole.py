"""What is written appears whole or not at all."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.facts.files import load, write
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.prove.results import has_results, write_results
from scalify_dl.pysouffle import Program
from scalify_dl.whole import locked, write_whole

FACTS = Path(__file__).parents[2] / "facts"
RIGHT, WRONG = FACTS / "row_parallel_linear", FACTS / "megatron_mlp_wrong_group"


def contents(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in sorted(folder.rglob("*")) if file.is_file()}


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Any:
    """From the n-th file on that is written, there is no room: half of it is there."""

    def fill_after(count: int) -> None:
        real_text, real_bytes = Path.write_text, Path.write_bytes
        left = [count]

        def refuse(path: Path, content: Any, write: Any, *args: Any, **kwargs: Any) -> int:
            left[0] -= 1
            if left[0] < 0:
                write(path, content[: len(content) // 2], *args, **kwargs)
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            return int(write(path, content, *args, **kwargs))

        monkeypatch.setattr(Path, "write_text", lambda p, c, *a, **k: refuse(p, c, real_text, *a, **k))
        monkeypatch.setattr(Path, "write_bytes", lambda p, c: refuse(p, c, real_bytes))

    return fill_after


def results(facts: Path, out: Path) -> None:
    write_results(analyse(load(facts), Options(refute=False)), out)


@pytest.mark.parametrize("count", [0, 1, 20, 45])
def test_results_on_a_full_disk_are_those_that_were_there(tmp_path: Path, full_disk: Any, count: int) -> None:
    out = tmp_path / "out"
    results(RIGHT, out)
    before = contents(tmp_path)
    full_disk(count)
    with pytest.raises(InputError, match="No space left"):
        results(WRONG, out)
    assert contents(tmp_path) == before


def test_a_run_that_dies_leaves_results_of_one_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kill would: no line of clearing up runs."""
    from scalify_dl import whole
    from scalify_dl.prove import results as module

    out = tmp_path / "out"
    results(RIGHT, out)
    before = contents(out)
    monkeypatch.setattr(whole.shutil, "rmtree", lambda *_, **__: None)
    real = module.write_tables

    def die(facts: Facts, folder: Path) -> None:
        real(facts, folder)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "write_tables", die)
    with pytest.raises(KeyboardInterrupt):
        results(WRONG, out)
    assert contents(out) == before
    assert has_results(out)


def test_facts_written_over_results_leave_none_of_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    results(RIGHT, out)
    (out / "README").write_text("mine")
    write(load(WRONG), out)
    assert not has_results(out)
    assert not list(out.glob("*.csv"))
    assert (out / "README").read_text() == "mine"
    assert load(out).tables == load(WRONG).tables


def test_facts_keep_what_is_not_theirs(tmp_path: Path) -> None:
    out = tmp_path / "facts"
    (out / "notes").mkdir(parents=True)
    (out / "notes" / "a.txt").write_text("a")
    (out / "expected.json").write_text("{}")
    (out / "table.csv").write_text("mine, for there are no results here")
    (out / "old.facts").write_text("x\n")
    out.chmod(0o750)
    write(load(RIGHT), out)
    assert (out / "notes" / "a.txt").read_text() == "a"
    assert (out / "expected.json").exists()
    assert (out / "table.csv").exists()
    assert not (out / "old.facts").exists()
    assert out.stat().st_mode & 0o777 == 0o750
    assert [entry.name for entry in tmp_path.iterdir()] == ["facts"]


def test_a_directory_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write(load(RIGHT), tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "real").tables == load(RIGHT).tables


def test_two_runs_into_one_directory_leave_the_results_of_one(tmp_path: Path) -> None:
    out = tmp_path / "out"
    texts = [contents(source) for source in (RIGHT, WRONG)]
    tables = [load(source) for source in (RIGHT, WRONG)]

    def again(facts: Facts) -> None:
        for _ in range(10):
            write(facts, out)

    threads = [threading.Thread(target=again, args=(facts,)) for facts in tables]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = {name: text for name, text in contents(out).items() if text}
    assert found in [{n: t for n, t in text.items() if t and n.endswith(".facts")} for text in texts]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_who_reads_waits_for_who_renames(tmp_path: Path) -> None:
    write(load(RIGHT), tmp_path / "facts")
    with locked(tmp_path / "facts", shared=True), locked(tmp_path / "facts", shared=True):
        reader = threading.Thread(target=lambda: load(tmp_path / "facts"))
        reader.start()
        reader.join(20)
        assert not reader.is_alive()
        writer = threading.Thread(target=lambda: write(load(WRONG), tmp_path / "facts"), daemon=True)
        writer.start()
        writer.join(1)
        assert writer.is_alive()
    writer.join(20)
    assert not writer.is_alive()


def test_a_file_is_what_it_was_where_it_cannot_be_written(tmp_path: Path, full_disk: Any) -> None:
    file = tmp_path / "report.html"
    write_whole(file, "old")
    full_disk(0)
    with pytest.raises(InputError, match="No space left"):
        write_whole(file, "new and longer")
    assert contents(tmp_path) == {"report.html": "old"}
    with pytest.raises(InputError, match="cannot write"):
        write_whole(tmp_path / "nowhere" / "x", "a")


def test_a_program_writes_all_of_its_results_or_none(tmp_path: Path) -> None:
    text = '.decl a(x:number)\na({0}).\n.output a\n.decl b(x:number)\nb({0}).\n.output b(filename="{1}")\n'
    Program.from_source(text.format(1, "b.csv")).run().write(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(InputError, match="cannot write"):
        Program.from_source(text.format(2, "nowhere/b.csv")).run().write(tmp_path)
    assert contents(tmp_path) == before
    Program.from_source(text.format(3, "a.csv")).run().write(tmp_path)
    assert contents(tmp_path)["a.csv"] == "3\n"
    assert len(list(tmp_path.iterdir())) == len(before)
