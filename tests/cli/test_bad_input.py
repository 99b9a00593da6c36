"""Bad input of all kinds to all commands: status 2 and a message, never a traceback and never a verdict."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalify_dl import cli

ROOT = Path(__file__).parents[2]
FACTS = ROOT / "facts" / "row_parallel_linear"
HLO = ROOT / "examples" / "hlo"
BASE, DIST = str(HLO / "base.hlo"), str(HLO / "dist.hlo")

FILES: dict[str, bytes] = {
    "empty": b"",
    "nul": b"\0" * 64,
    "latin1": "naïve é".encode("latin-1"),
    "prose.md": b"# This is a text\n\nIt is no program.\n",
    "half.hlo": (HLO / "base.hlo").read_bytes()[:400],
    "half.mlir": b"module @m {\n  func.func public @main(%arg0: tensor<4x",
    "half.fx.txt": b'class GraphModule(torch.nn.Module):\n    def forward(self, x: "f32[4, ',
    "bracket.json": b"{",
    "number.json": b"7",
    "list.json": b"[1, 2]",
    "deep.json": b"[" * 20_000,
    "tab.yaml": b"inputs:\n\t- 1\n",
    "number.yaml": b"7\n",
    "alias.yaml": b"a: &a [*a]\n",
    "key.yaml": b"inptus: {}\n",
    "input.yaml": b"inputs: 7\n",
    "dims.yaml": b"inputs: {'#0': {dims: {x: [tp]}}}\n",
    "axis.yaml": b"inputs: {'#0': {dims: {0: [tpp]}}}\n",
    "far.yaml": b"inputs: {'#999': {dims: {0: [tp]}}}\n",
    "out.yaml": b"outputs: {'0': {base: 99}}\n",
    "typo.dl": b".decl a(x:nmber)\n",
    "open.dl": b'a(x) :- b("\n',
    "loop.dl": b'#include "loop.dl"\n',
    "false.dl": b"holds(d, b, l) :- nothing(d, b, l).\n",
    "code.py": b"def (:\n",
    "raises.py": b"raise RuntimeError('no')\n",
    "events.json": b'{"pg_config": 3}',
    "bad.csv": b"F0,,,\n1B?\n",
    "cert.gz": b"\x1f\x8b\x08\x00garbage",
    "toml.toml": b"[pairs\n",
    "kernel.k.py": b"""import tvm
from tvm.script import tir as T
@T.prim_func
def f(A: T.Buffer((4, 4), "float32"), B: T.Buffer((4, 4), "float32")):
    for i, j in T.grid(4, 4):
        B[i, j] = A[i, j]
""",
    "why_number.yaml": b"- {why: 3}\n",
    "why_null.yaml": b"- {tensor: x, text: null}\n",
    "why_other.yaml": b"- {tensor: [x]}\n",
    "meaning_number.py": b"from scalify_dl.oracle.meaning import meaning\n@meaning(3)\ndef f(call, operands): pass\n",
    "meaning_bare.py": b"from scalify_dl.oracle.meaning import meaning\n@meaning\ndef f(call, operands): pass\n",
    "meaning_leaves.py": b"import sys\nsys.exit(0)\n",
}
"""Files that are nothing, or nothing whole."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    here = tmp_path_factory.mktemp("bad")
    for name, data in FILES.items():
        (here / name).write_bytes(data)
    (here / "loop").symlink_to(here / "loop")
    (here / "nothing_in_it").mkdir()
    for name, table, text in DAMAGED:
        shutil.copytree(FACTS, here / name)
        (here / name / table).write_bytes(text)
    (here / "good.dl").write_text(".decl path(x:number, y:number)\n.output path\npath(1, 2).\n")
    return here


DAMAGED = (
    ("columns", "op.facts", b"a\tb\n"),
    ("number", "dim.facts", b"x\ty\tz\n"),
    ("huge", "dim.facts", b"x\t0\t99999999999999999999999\n"),
    ("no_axis", "mesh_axis.facts", b""),
    ("negative", "mesh_axis.facts", b"tp\t0\t-2\n"),
    ("layout", "shard.facts", b"x\t\tbase/x\t\t[[[\tgiven\n"),
    ("dangling", "operand.facts", b"nobody\t0\tnobody\n"),
    ("bytes", "op.facts", b"\xff\xfe\t\0\t\n"),
    ("nothing_expected", "expect.facts", b""),
    ("verdict", "expected.json", b"["),
)


def alone() -> Iterator[tuple[str, ...]]:
    """Without arguments, with too many, with options that there are not or that want a value."""
    for words in (
        "verify", "family", "run", "plan", "distribute", "watch", "export", "relate", "facts", "explain", "query",
        "audit", "check", "rules show", "readers check", "schedule", "datalog", "nosuch", "rules nosuch", "--nosuch",
        "init x y",
    ):  # fmt: skip
        yield tuple(words.split())
    for words in ("verify", "run", "plan", "export", "explain", "query", "check", "schedule", "datalog"):
        yield (words, "--nosuch", "x")
        yield (words, "nowhere", "--json=yes")
    for option in ("--timeout", "--max-memory", "--accept", "--rules", "--out", "--sarif"):
        yield ("run", str(FACTS), option)
    for option, value in itertools.product(("--timeout", "--max-memory"), ("0", "-1", "x", "nan", "1e999", "")):
        yield ("run", str(FACTS), option, value)


def of_files() -> Iterator[tuple[str, ...]]:
    """Every command on every kind of file. `@` stands before a name in the folder."""
    pairs = {"verify": ("--mesh", "tp=2"), "export": ("--mesh", "tp=2", "-o", "@o"), "relate": ("--mesh", "tp=2")}
    for name in ("nowhere", "nothing_in_it", *FILES):
        yield "verify", "@" + name, DIST, *pairs["verify"]
        yield "run", "@" + name
        yield "schedule", "@" + name
    for name in ("nowhere", "nothing_in_it", "empty", "nul", "half.hlo", "half.mlir", "half.fx.txt", "deep.json"):
        for command in ("verify", "export", "relate"):
            yield command, BASE, "@" + name, *pairs[command]
        yield "verify", BASE, "@" + name, DIST, "--mesh", "tp=2"
    for name in (n for n in FILES if n.endswith((".yaml", ".json")) or "." not in n):
        yield "verify", BASE, DIST, "--mesh", "tp=2", "--relate", "@" + name
        yield "family", "@" + name
    for name in ("nowhere", "nothing_in_it", "nul", "latin1", *(n for n in FILES if n.endswith(".dl"))):
        yield "run", str(FACTS), "--rules", "@" + name
        yield "datalog", "@" + name
        yield "rules", "check", "@" + name, "--seconds", "0.1"
    for name in ("nowhere", "nothing_in_it", *FILES):
        for command in ("lint", "fix", "distribute"):
            yield command, "@" + name, "--mesh", "tp=2"
        yield "kernel", "@" + name, "--as", "matmul"
        yield "sweep", "@" + name
        yield "init", "@" + name, "@" + name, "--mesh", "tp=2"
    for name in ("nowhere", "nothing_in_it", "empty", "deep.json", "list.json", "bracket.json"):
        for kind in ("relations", "meaning", "lemma"):
            yield "propose", kind, BASE, DIST, "--mesh", "tp=2", "--reply", "@" + name
        yield "kernel", "@code.py", "--spec", "@" + name
    for name in ("nowhere", "nothing_in_it", "empty", "cert.gz", "deep.json", "number.json"):
        yield "check", "@" + name, str(FACTS)
        yield "plan", "@" + name
        yield "audit", str(FACTS), "--relations", "@" + name
        yield "run", str(FACTS), "--strict", "--accept", "@" + name
    for name in ("nowhere", "nothing_in_it", "code.py", "raises.py"):
        yield "audit", str(FACTS), "--meaning", "@" + name
    for name, _, _ in DAMAGED[:-1]:
        for command in ("run", "facts", "audit"):
            yield command, "@" + name
        yield "query", "@" + name, "op(O, _, _)"


def of_words() -> Iterator[tuple[str, ...]]:
    """Meshes, sizes, queries, atoms, places to write to."""
    for mesh in ("", "tp", "tp=", "tp=0", "tp=-1", "tp=x", "tp=2,tp=2", "=2", "tp=99999999999999", "tp=2;dp=2", "tp=3"):
        yield "verify", BASE, DIST, "--mesh", mesh
    for size in ("", "x", "x=", "x=0", "nobody:0=4", "x:y=z"):
        yield "verify", BASE, DIST, "--mesh", "tp=2", "--size", size
    for words in ("lint", "fix", "kernel", "sweep", "propose", "propose relations", "schema x", "rules list @nowhere"):
        yield tuple(words.split())
    yield "readers", "check", "torch", "--count", "-1"
    for sample in ("", "a b", "a b tp=2 c d"):
        yield "verify", BASE, DIST, "--mesh", "tp=2", "--symbolic", "tp", "--sample", sample
    for query in (
        "", "corr(D", "op(O", "op(O))", "op(O, _", "nope(x)", "op(x, _, _), y < 3", "a :- b", "op(O,_,_,_,_)", '"',
        'op(O, _, "', "op(O,_,_) op(P,_,_)", "!op(O,_,_)", "op(O,_,_), O = 1", "count : { op(O,_,_) }", "op(_, 1, _)",
        "@f(X)", "$", "op(O,_,_).op(P,_,_)", "corr(D,_,T,_,L), op(O", "x = 1/0", ".decl a(x:number)", "op(é,_,_)",
    ):  # fmt: skip
        yield "query", str(FACTS), query
    for tensor in ("", "nobody", "*", "\0"):
        yield "explain", str(FACTS), tensor
    yield "explain", str(FACTS), "x", "--depth", "x"
    for lemma in ("", "nosuch", "\n"):
        yield "rules", "show", lemma
    yield "readers", "check", "nosuch"
    for place in ("/nowhere/x", "/dev/null/x", "/proc/x", "nothing_in_it"):
        for option in ("--sarif", "--html", "--certificate"):
            yield "run", str(FACTS), option, "@" + place if "/" not in place else place
    for place in ("/proc/x", "/dev/null", "/dev/null/x"):
        yield "run", str(FACTS), "--out", place
    for options in (
        ("--html", "@twice", "--out", "@twice"), ("--html", "@twice", "--sarif", "@./twice"), ("--html", "/dev/full"),
        ("--sarif", "/dev/full"), ("--certificate", "/dev/full"), ("--html", str(FACTS / "op.facts")),
        ("--json", "--output-format", "quiet"), ("--baseline", "@list.json"), ("--html", "@loop"), ("--out", "@."),
    ):  # fmt: skip
        yield "run", str(FACTS), *options
    yield "verify", BASE, DIST, "--mesh", "tp=2", "--html", BASE
    yield "verify", "@loop", DIST, "--mesh", "tp=2"
    yield "lint", DIST, "--mesh", "tp=2", "--sarif", DIST
    for words in (("--json", "--tsv"), ("--limit", "-1")):
        yield "query", str(FACTS), "op(O,_,_)", *words
    yield "explain", str(FACTS), "dot", "--depth", "-1"
    yield "kernel", "@kernel.k.py", "--as", "relu", "--size", "N=4"
    yield "--version", "x"
    yield "--version", "facts", str(FACTS)
    for accepted in ("number", "null", "other"):
        yield "run", str(FACTS), "--accept", f"@why_{accepted}.yaml"
    for meaning in ("number", "bare", "leaves"):
        yield "audit", str(FACTS), "--meaning", f"@meaning_{meaning}.py"
    for atom in ("path(", "path", 'nope("a")', "", "pth(1,2)"):
        yield "datalog", "@good.dl", "--explain", atom
        yield "datalog", "@good.dl", "--why-not", atom
    for option, value in (
        ("--sends", "x"),
        ("--sends", "-1"),
        ("--streams", "x"),
        ("--durations", "F"),
        ("--durations", "F=x"),
    ):
        yield "schedule", "@bad.csv", option, value


CASES = [*alone(), *of_files(), *of_words()]
NOT_BAD = {2, 3}
"""`explain` of a tensor of which nothing is known gives 3, and so does a certificate that is rejected."""


def test_there_are_many_of_all_kinds() -> None:
    assert len(CASES) > 200


@pytest.mark.parametrize("part", range(8))
def test_no_bad_input_ends_in_a_traceback(
    part: int, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    wrong = []
    for case in CASES[part::8]:
        argv = [str(folder / word[1:]) if word.startswith("@") and "(" not in word else word for word in case]
        monkeypatch.setattr(sys, "argv", ["dlverify", *argv])
        try:
            cli.main()
            status: object = 0
        except SystemExit as left:
            status = left.code or 0
        _, err = capfd.readouterr()
        if status not in NOT_BAD or "Traceback" in err or (status == 2 and not err.strip()):
            wrong.append((case, status, err[-300:]))
    assert not wrong, "\n".join(f"{' '.join(map(repr, c))}\n   {s} {e}" for c, s, e in wrong)
    assert not (folder / "o").exists()
    assert not (folder / "twice").exists()
    assert "HloModule" in Path(BASE).read_text()
    assert os.getcwd() == str(folder)
