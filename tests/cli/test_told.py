"""What messages say: the place in what people wrote, and what would have been right."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scalify_dl import cli
from tests.docs.folder import fill

SAID = (
    ("query FACTS 3", ["query", "FACTS", "op(O, G, 3)"], "column `kind` of `op` has texts"),
    ("query FACTS text", ["query", "FACTS", 'dim(T, "0", N)'], "column `pos` of `dim` has numbers"),
    ("query FACTS type", ["query", "FACTS", "op(O, G, K), K < 3"], "op(op: symbol, graph: symbol, kind: symbol)"),
    ("two schedules", ["schedule", "toy.csv", "pipeline.csv"], "pipeline.csv: 2 schedules together"),
    ("function", ["kernel", "k.py", "--as", "matmul", "--function", "gem"], "no kernel `gem` in this file"),
    ("for all", ["kernel", "k.py", "--as", "matmul", "--for-all", "N"], "--for-all N: no text says this name"),
    ("nobody", ["explain", "FACTS", "nobody"], "outputs are add"),
    ("arity", ["verify", "base.hlo", "twice.hlo", "--mesh", "tp=1"], "twice.hlo:12: `t` (tanh) has 2 operands"),
    ("own rule", ["run", "FACTS", "--rules", "typo.dl"], "dlverify: typo.dl:1:1: error: undefined relation 'opaqe'"),
    ("include", ["run", "FACTS", "--rules", "include.dl"], "include.dl:1: no such rules file: nowhere.dl"),
    ("values", ["propose", "program", "model.py", "--values", "agreed.json", "--dry-run"], "no arrays of a run"),
    ("sizes", ["schedule", "trace_0", "trace_2"], "trace_2: entry 0: input_sizes is 8"),
    ("pair", ["verify", "attention"], "asks for it: [pairs.attention]"),
)  # fmt: skip


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told")
    fill(folder, {"tp": 2})
    write = lambda name, text: (folder / name).write_text(text, "utf-8")  # noqa: E731
    write("twice.hlo", (folder / "base.hlo").read_text().replace("tanh(%h)", "tanh(%h, %h)"))
    write("typo.dl", 'opaqe("custom:A", "text").\n')
    write("include.dl", '#include "nowhere.dl"\n')
    trace = (folder / "trace_1").read_text()
    write("trace_2", trace.replace('"input_sizes": [[8]]', '"input_sizes": 8'))
    write("dlverify.toml", '[pairs.attention]\nbase = "bas.hlo"\ndist = "dist.hlo"\nmesh = "tp=2"\n')
    return folder


@pytest.mark.parametrize(("argv", "said"), [case[1:] for case in SAID], ids=[case[0] for case in SAID])
def test_it_is_told(
    argv: list[str], said: str, here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "argv", ["dlverify", *argv])
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 2
    assert said in " ".join(capfd.readouterr().err.split())
