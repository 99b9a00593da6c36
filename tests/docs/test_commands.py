"""Every `dlverify …` that a page shows is run: as it stands, in the repository or in a folder of files that have the
names of the pages, or with its placeholders filled in as said here."""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from scalify_dl import cli
from tests.docs.folder import fill

ROOT = Path(__file__).parents[2]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", *sorted((ROOT / "examples").glob("*/README.md"))]
SHOWN = re.compile(r"`(dlverify [^`\n]+)`|^ *(?:\$ )?(dlverify (?:\\\n|[^\n`])+)|&& (dlverify [^\n`]+)", re.M)

CERTIFIED = "verify base.hlo dist.hlo --mesh tp=2 --certificate CERT --out CERTIFIED"
OPTIONS = (
    "--mesh tp=2 --json --timeout 60 --max-memory 2000 --strict --no-refute --junit j.xml --html h.html --sarif s.sarif"
)
FUZZ = "--seconds 2 --seed 1"
SCHEDULE = "schedule toy.csv --sends both --check all --streams pair"
FILLED: dict[str, Sequence[str]] = {
    "lint FORWARD… --backward BACKWARD…": [
        "lint forward.hlo --backward backward.hlo --mesh tp=2 --relate handed.yaml"
    ],
    "COMMAND --help": ["plan --help"],
    "verify BASE DIST [DIST ...] --mesh dp=2,tp=4 [--relate F.yaml] [options]": [f"verify base.hlo dist.hlo {OPTIONS}"],
    'verify … --symbolic tp,batch=tokens:0 --sample "BASE DIST tp=4"': [
        "verify base-2.mlir dist-2.mlir --mesh tp=2 --symbolic tp,batch=tokens:0,seq=tokens:1 "
        "--sample 'base-4.mlir dist-4.mlir tp=4'"
    ],
    "verify … --size tokens:0=8,s27=16": ["verify open.fx.txt open.fx.txt --mesh tp=2 --size x:0=8"],
    "verify [NAME ...]": ["verify", "verify attention"],
    "watch BASE DIST [DIST ...] --mesh … [--times N] [options]": ["watch base.hlo dist.hlo --mesh tp=2 --times 1"],
    "init [BASE DIST ...] [--mesh …]": ["init base.hlo dist.hlo --mesh tp=2"],
    "family F.yaml [options]": ["family family.yaml --json"],
    "run FACTS [options]": [f"run FACTS {OPTIONS.removeprefix('--mesh tp=2 ')}"],
    "sweep SWEEP.yaml [--out DIR] [--jobs N] [--junit F] [--json]": [
        "sweep SWEEP.yaml --out DIR --jobs 1 --junit j.xml --json",
    ],
    "plan PATH [options]": ["plan tables --html h.html --no-refute"],
    "export BASE DIST [DIST ...] --mesh … [--relate F.yaml] -o FACTS": ["export base.hlo dist.hlo --mesh tp=2 -o NEW"],
    "relate BASE DIST [DIST ...] --mesh … [-o F.yaml]": ["relate base.hlo dist.hlo --mesh tp=2 -o F.yaml"],
    "explain FACTS TENSOR [--depth N]": ["explain FACTS add --depth 3"],
    "query FACTS 'corr(D,_,B,_,L), result(O,_,D), op(O,_,\"dot\")' [--json | --tsv] [--limit N]": [
        """query FACTS 'corr(D,_,B,_,L), result(O,_,D), op(O,_,"dot")' --tsv --limit 5"""
    ],
    "audit FACTS [--relations DIR] [--meaning F.py]": ["audit FACTS --meaning my.py"],
    "check CERT FACTS": [CERTIFIED, "check CERT CERTIFIED"],
    "verify BASE DIST… --mesh … --out out": ["verify base.hlo dist.hlo --mesh tp=2 --out out"],
    "explain out TENSOR": ["verify base.hlo dist.hlo --mesh tp=2 --out out", "explain out 'output 0'"],
    "audit FACTS --relations DIR": ["run FACTS --out out", "audit FACTS --relations out"],
    "verify BASE DIST… --mesh tp=2": ["verify base.hlo dist.hlo --mesh tp=2"],
    "check CERT FACTS|INPUT… [--steps | --all-steps]": [
        CERTIFIED, "check CERT CERTIFIED", "check CERT CERTIFIED --steps", "check CERT CERTIFIED --all-steps",
    ],
    "rules check [FILES] [--meaning F.py] [--seconds S] [--seed N] [--out F.json]": [
        f"rules check my.dl --meaning my.py {FUZZ} --out F.json"
    ],
    "rules list [FILES] [--json]": ["rules list my.dl --json"],
    "rules show ID [FILES] [--json]": ["rules show masked-read my.dl --json"],
    "rules show ID my.dl": ["rules show masked-read my.dl"],
    "rules show ID": ["rules show sharding-rule"],
    "lint DIST… --mesh … [--relate F] [--kernel OP=K.py] [--show-baseline] [--types] [formats as of verify]": [
        "lint mlp.hlo --mesh tp=2 --show-baseline --types --json"
    ],
    "lint DIST… --mesh dp=2,tp=4 [--relate F.yaml] [--show-baseline] [--types] [--costs]": [
        "lint dist.hlo --mesh dp=2,tp=4"
    ],
    "kernel K.py --as NAME|--spec F [--function NAME] [--size NAME=N]… [--timeout S] [--json]": [
        "kernel K.py --as matmul --function gemm --timeout 60 --json"
    ],
    "fix DIST… --mesh … [--relate F] [--kernel OP=K.py] [--json]": ["fix mlp.hlo --mesh tp=2 --json"],
    "kernel gemm.py --as matmul --for-all M,N,K,block_M,block_N,block_K": [
        "kernel blocks.py --as matmul --for-all M,N,K,block_M,block_N,block_K"
    ],
    "kernel flash.py --as attention_bshd --for-all seq,block_M,block_N --size dim=64": [
        "kernel flash.py --as attention --for-all batch,heads,seq_q,seq_kv,block_M,block_N --size dim=4"
    ],
    "fix DIST… --mesh … [--relate F.yaml] [--json]": ["fix mlp.hlo --mesh tp=2"],
    "distribute BASE --mesh dp=2,tp=2 [--relate F.yaml] [--link tp=10us,25GB/s]… [--json]": [
        "distribute base.hlo --mesh tp=2 --link tp=10us,25GB/s --json"
    ],
    "distribute BASE --mesh … [--relate F] [--link tp=10us,25GB/s]… [--json]": ["distribute base.hlo --mesh tp=2"],
    "schedule INPUT… [--sends blocking|buffered|N|both] [--check all|deadlock] [--streams pair|direction|rank|host] "
    "[--durations F=10,B=20] [--plot F.svg] [--certificate F] [--json]": [
        f"{SCHEDULE} --durations F=10,B=20 --plot F.svg --certificate F --json"
    ],
    "schedule INPUT… [--sends blocking|buffered|N|both] [--check all|deadlock] [--streams pair|direction|rank|host]": [
        "schedule toy.csv --sends 2 --check deadlock --streams host"
    ],
    "schedule trace_0 trace_1 …": ["schedule trace_0 trace_1"],
    "propose relations|meaning|lemma|program|explain INPUT… [--reply F] [--dry-run] [-o F]": [
        "propose explain UNPROVED --dry-run"
    ],
    "propose relations BASE DIST… --mesh tp=2 -o model.relations.yaml": [
        "propose relations base.hlo dist.hlo --mesh tp=2 --dry-run"
    ],
    "propose meaning FACTS --op custom:my_norm [--source kernel.py] -o my_norm.dl": [
        "export base.fx.txt dist.fx.txt --mesh tp=1 -o NEW",
        "propose meaning NEW --op custom:mylib.gemm --source K.py --dry-run",
    ],
    "propose lemma FACTS -o lemma.dl": ["propose lemma UNPROVED --dry-run"],
    "propose program model.py [--mesh tp=2] [--values run.npz] -o model.json": [
        "propose program model.py --values run.npz --dry-run"
    ],
    "propose explain FACTS": ["propose explain UNPROVED --dry-run"],
    "datalog program.dl -F facts -D -": ["datalog program.dl -F edges -D -"],
    "schema relations|proposal|program": ["schema relations", "schema proposal", "schema program"],
    "datalog PROGRAM.dl -F FACTS -D OUT": ["datalog program.dl -F edges -D OUT"],
    "datalog pending.dl -F out -D -": ["datalog program.dl -F edges -D -"],
    "query out 'frontier(O), source(O, 0, file, line, _)' --tsv": [
        "run FACTS --out out",
        "query out 'frontier(O), source(O, 0, file, line, _)' --tsv",
    ],
    "plan tables/ --json --out facts/": ["plan tables/ --json --out NEW"],
    "verify base.hlo dist.hlo --mesh tp=2 --certificate proof.jsonl.gz --out facts": [CERTIFIED],
    "query out 'frontier(O), operand(O, P, D), corr(D, Q, B, R, L)'": [
        "run facts/gqa_fused_qkv_key_slice --out out",
        "query out 'frontier(O), operand(O, P, D), corr(D, Q, B, R, L)'",
    ],
    "query out 'frontier(O), base_match(O, B)'": [
        "run facts/gqa_fused_qkv_key_slice --out out",
        "query out 'frontier(O), base_match(O, B)'",
    ],
    "plan PATH": ["plan tables"],
    "plan FILE": ["plan tables"],
    "check F tables/": ["plan tables --certificate F", "check F tables"],
    "check F DIR": ["plan tables --certificate F", "check F tables"],
    "check F INPUT…": ["schedule toy.csv --certificate F", "check F toy.csv"],
    "check proof.jsonl.gz FACTS": [CERTIFIED, "check CERT CERTIFIED"],
    "check proof.jsonl.gz facts": [CERTIFIED, "check CERT CERTIFIED"],
    "check proof.jsonl.gz facts --rules mine.dl": [
        CERTIFIED.replace(" --out", " --rules my.dl --out"), "check CERT CERTIFIED --rules my.dl"
    ],
    "relate BASE DIST --mesh …": ["relate base.hlo dist.hlo --mesh tp=2"],
    "audit FACTS --relations out/": ["run FACTS --out out", "audit FACTS --relations out/"],
    "run FACTS --rules my.dl --out out/": ["run FACTS --rules my.dl --out out/"],
    "rules check [FILES] [--meaning F.py] [--seconds S] [--seed N] [--out report.json] [--json]": [
        f"rules check {FUZZ} --json"
    ],
    "rules check mine.dl --meaning mine.py": [f"rules check mine.dl --meaning mine.py {FUZZ}"],
    "rules check my.dl": [f"rules check my.dl {FUZZ}"],
    "rules check my.dl --meaning my.py": [f"rules check my.dl --meaning my.py {FUZZ}"],
    "init BASE DIST… --mesh tp=2": ["init base.hlo dist.hlo --mesh tp=2"],
    "init": ["init --mesh tp=2"],
    "verify … --json": ["verify base.hlo dist.hlo --mesh tp=2 --json"],
    "verify … --strict --accept agreed.json": ["verify base.hlo dist.hlo --mesh tp=2 --strict --accept agreed.json"],
    "verify BASE DIST …": ["verify base.hlo dist.hlo --mesh tp=2"],
    "verify BASE DIST": ["verify base.hlo dist.hlo --mesh tp=2"],
    "export BASE DIST … --mesh … -o FACTS": ["export base.hlo dist.hlo --mesh tp=2 -o NEW"],
    'explain FACTS "output 0"': ["explain FACTS 'output 0'"],
    "verify dump/mlp.base.fx.txt dump/mlp.r*.fx.txt --mesh tp=4": [
        "verify dump/mlp.base.fx.txt dump/mlp.r*.fx.txt --mesh tp=2"
    ],
    "verify base.fx.txt dist.fx.txt --mesh tp=2 --kernel mylib.gemm=gemm.py,as=matmul": [
        "verify base.fx.txt dist.fx.txt --mesh tp=1 --kernel mylib.gemm=gemm.py,as=matmul"
    ],
    "verify base.fx.txt r0.fx.txt r1.fx.txt --mesh tp=2 --symbolic batch=tokens:0,seq=tokens:1": [
        "verify open.fx.txt open.fx.txt --mesh tp=2 --symbolic batch=x:0"
    ],
    'verify base.mlir dist.mlir --mesh tp=2 --symbolic tp,b,s --sample "base.mlir dist-4.mlir tp=4"': [
        "verify open.fx.txt open.fx.txt --mesh tp=2 --symbolic b=x:0"
    ],
    "verify base.mlir dist.mlir --mesh tp=2 --size b=4,s=16": [
        "verify open.fx.txt open.fx.txt --mesh tp=2 --size s0=4"
    ],
    "readers check torch|jax [--count N] [--seconds S] [--seed N]": [
        "readers check torch --count 1 --seconds 2 --seed 1"
    ],
    "readers check torch|jax [--seconds 60] [--count N] [--seed 0] [--out F] [--json]": [
        "readers check jax --count 1 --seconds 2 --json"
    ],
    "readers check torch": ["readers check torch --count 1 --seconds 2"],
}
"""What is run for what is shown with placeholders; what fuzzes is given two seconds."""
NEEDS = {"readers check torch": "torch", "readers check jax": "jax"}


def shown() -> list[str]:
    """Every command of the pages, without `dlverify`, comments and redirections."""
    found = set()
    for page in PAGES:
        if page.name != "reference_cli.md":  # generated from the declarations, and tested there
            for groups in SHOWN.findall(page.read_text("utf-8")):
                line = re.sub(r"\s*\\\n\s*", " ", max(groups))
                found.add(
                    re.sub(r"\s+", " ", re.sub(r"\s+(#|> \w|\| \w).*", "", line)).strip().removeprefix("dlverify ")
                )
    return sorted(found)


def run_for(line: str) -> Sequence[str]:
    """What is run for a line; a command's name alone is a mention."""
    if line in FILLED:
        return FILLED[line]
    return [f"{line} --help"] if re.fullmatch(r"(rules |readers )?[a-z]+", line) and line not in ALONE else [line]


ALONE = ("verify", "schema", "rules list")


def test_nothing_is_filled_in_that_no_page_shows() -> None:
    assert sorted({*FILLED} - {*shown()}) == []
    assert len(shown()) > 90


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    for mesh, axes in (("tp=2", {"tp": 2}), ("dp=2,tp=4", {"dp": 2, "tp": 4})):
        made[mesh] = tmp_path_factory.mktemp("folder")
        fill(made[mesh], axes)
    return made


@pytest.mark.slow
@pytest.mark.parametrize("line", shown())
def test_a_command_that_a_page_shows_can_be_run(
    line: str,
    folder: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    here, mesh = tmp_path / "here", re.search(r"--mesh dp=2,tp=4", " ".join(run_for(line)))
    shutil.copytree(folder["dp=2,tp=4" if mesh else "tp=2"], here)
    for shipped in ("facts", "examples"):
        (here / shipped).symlink_to(ROOT / shipped)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for command in run_for(line):
        for start, package in NEEDS.items():
            if command.startswith(start) and importlib.util.find_spec(package) is None:
                pytest.skip(f"needs {package}")
        words = [
            w for word in shlex.split(command) for w in (sorted(map(str, here.glob(word))) if "*" in word else [word])
        ]
        if words[0] == "init":
            (here / "dlverify.toml").unlink()
        monkeypatch.chdir(here)
        monkeypatch.setattr(sys, "argv", ["dlverify", *words])
        with pytest.raises(SystemExit) as left:
            cli.main()
        out, err = capfd.readouterr()
        assert (left.value.code or 0) in (0, 1, 3), out + err
        assert "Traceback" not in err
