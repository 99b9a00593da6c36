"""Are the rules' side conditions watched? Deletes one at a time and looks whether anything notices.

    python benchmarks/side_conditions.py [--count N] [--pairs P] [--seed S] [FILE.dl ...]

A side condition is a comparison, a negated atom or an atom of one of the checking relations (`calm`, `absent`,
`uniform`, …) in a rule's body. It is *caught* when, without it, some correspondence that the rules derive of the
adversarial programs or of random pairs is false, a wrong program is proved or a right one no longer is; *needed to
load* when the program is no longer valid without it; else *unnoticed*.
"""

from __future__ import annotations

import argparse
import random
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "adversarial"))

from programs import RIGHT, WRONG

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.fuzz import check_rules
from scalify_dl.errors import InputError
from scalify_dl.pysouffle import rules_dir

FILES = (
    "correspondence.dl",
    "fold.dl",
    "structure.dl",
    "collectives.dl",
    "uniform.dl",
    "random.dl",
    "rings.dl",
    "mesh.dl",
)
CHECKS = {
    "absent", "all_replicated", "alike_along", "calm", "calm_wish", "covers", "idempotent", "may_carry",
    "passes_pending", "quiet", "stop_together", "sums", "undivided", "uniform", "zeros",
}  # fmt: skip


class Condition(NamedTuple):
    """One literal of a rule's body, by its span in the file."""

    file: str
    line: int
    start: int
    end: int
    text: str
    rule: str


def body_literals(text: str) -> list[tuple[int, int]]:
    """Spans of the top-level literals between `:-` and the final dot."""
    spans, depth, start, quoted = [], 0, 0, False
    for i, c in enumerate(text):
        if c == '"':
            quoted = not quoted
        if quoted:
            continue
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            spans.append((start, i))
            start = i + 1
    return [*spans, (start, len(text))]


def conditions(folder: Path, files: list[str]) -> list[Condition]:
    """All side conditions of some rule files."""
    found = []
    for file in files:
        text = (folder / file).read_text(encoding="utf-8")
        blank = re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), text)
        for rule in re.finditer(r"^[a-z_]\w*\([^\n]*?:-(.*?)\.\s*(?=\n|\Z)", blank, re.S | re.M):
            spans = body_literals(rule[1])
            for a, b in spans:
                literal = rule[1][a:b].strip()
                name = literal.split("(")[0].strip()
                comparison = re.search(r"(!=|<=|>=|<|>)", re.sub(r'"[^"]*"', "", literal)) and not literal.endswith(")")
                if len(spans) > 1 and (literal.startswith("!") or comparison or name in CHECKS):
                    at = rule.start(1)
                    line = text.count("\n", 0, at + a) + 1
                    whole = " ".join(rule[0].split())
                    found.append(Condition(file, line, at + a, at + b, literal, whole))
    return found


def without(folder: Path, condition: Condition, target: Path) -> Path:
    """A copy of the rules with the condition replaced by a truth; its `verify.dl`."""
    shutil.copytree(folder, target, dirs_exist_ok=True)
    file = target / condition.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: condition.start] + " 0 = 0 " + text[condition.end :], encoding="utf-8")
    return target / "verify.dl"


def proofs(main: Path) -> dict[str, int]:
    """How many outputs of each right program are proved."""
    return {name: len(derive(build().tables(), main=main).proved) for name, build in RIGHT.items()}


def verdict(main: Path, before: dict[str, int], pairs: int, seed: int) -> str:
    """What notices that the condition is gone."""
    try:
        for name, build in {**WRONG, **RIGHT}.items():
            tables = build().tables()
            derived = derive(tables, main=main, timeout=10)
            if name in WRONG and derived.proved:
                return f"caught: {name} is proved"
            if name in RIGHT and len(derived.proved) < before[name]:
                return f"caught: {name} is no longer proved"
            if audit(tables, derived.corr, trials=2).false:
                return f"caught: a false correspondence in {name}"
    except InputError as error:
        return "needed to load" if "error:" in str(error) else f"caught: {str(error)[:80]}"
    report = check_rules(main=main, pairs=pairs, seconds=120, seed=seed, stop=1)
    if report.unsound:
        return f"caught: random pair {report.unsound[0].seed}"
    return "unnoticed"


def main() -> int:
    """Exit status 1 where a deletion went unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", default=list(FILES))
    parser.add_argument("--rules", type=Path, default=rules_dir(), help="folder of the rules")
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--pairs", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    found = conditions(arguments.rules, arguments.files)
    chosen = random.Random(arguments.seed).sample(found, min(arguments.count, len(found)))
    unnoticed = 0
    before = proofs(arguments.rules / "verify.dl")
    for condition in chosen:
        with tempfile.TemporaryDirectory() as folder:
            said = verdict(
                without(arguments.rules, condition, Path(folder) / "rules"), before, arguments.pairs, arguments.seed
            )
        unnoticed += said == "unnoticed"
        print(
            f"{said:50} {condition.file}:{condition.line}: {condition.text}   in   {condition.rule[:140]}", flush=True
        )
    print(f"{len(chosen)} of {len(found)} side conditions deleted, {unnoticed} unnoticed")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
