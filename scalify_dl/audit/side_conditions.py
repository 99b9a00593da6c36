"""Are the rules' side conditions watched? Deletes one at a time and looks whether anything notices.

    python benchmarks/side_conditions.py [FILE.dl ...] [--count N] [--seconds S] [--seed S] [--journal FILE] [--open]
        [--list]

A side condition is a comparison, a negated atom or an atom of one of the checking relations (`calm`, `absent`,
`uniform`, …) in a rule's body. Without it, random pairs that exercise the rule's file are drawn, then the wrong
programs of `scalify_dl.audit.trials` run. It is

- *noticed* by the first correspondence that is derived and false, by a wrong program that is proved, by a run that
  does not end or that divides by zero;
- *needed to load* when the program is not valid without it;
- *grants less* where the rule's head only ever stands behind a negation on the way to a proof, so that more of it means
  less of that, or where it plays no part in proofs;
- *asks more* where the head only asks for a function's value (`want_…`, `use_…`), which is the same whoever asks;
- *harmless* where a comment above the rule, `//? CONDITION: ARGUMENT`, says why nothing can notice;
- else *unnoticed*.

Only random pairs and wrong programs tell: that a right program is no longer proved is no notice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.lemmas import random_steps
from scalify_dl.pysouffle import Program, rules_dir

from .check import audit
from .derive import derive_with, load_rules
from .fuzz import random_pair
from .mutate.campaign import read, table
from .mutate.view import Tables
from .trials import ROUNDED, TRIALS, WRONG

CHECKS = {
    "absent", "all_replicated", "alike", "alike_along", "calm", "covers", "full_replicated", "idempotent",
    "may_carry", "passes_pending", "picks_one", "quiet", "real_type", "same_pending", "steady", "stop_together", "sums",
    "undivided", "fits_many", "whole_entries", "zeros", "signed_type", "arithmetic_type", "integral", "wide_integer",
    "alongside", "family_scale", "wanted_calm", "made_type", "volume",
}  # fmt: skip


VERDICTS = ("noticed", "needed to load", "grants less", "asks more", "harmless", "unnoticed")


class Condition(NamedTuple):
    """One literal of a rule's body, by its span in the file."""

    file: str
    line: int
    start: int
    end: int
    text: str
    rule: str

    @property
    def head(self) -> str:
        """The relation that the rule is for."""
        return self.rule.split("(")[0]


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


def conditions(folder: Path, files: Iterable[str]) -> list[Condition]:
    """All side conditions of some rule files."""
    found = []
    for file in files:
        text = (folder / file).read_text(encoding="utf-8")
        for rule in RULE.finditer(uncommented(text)):
            spans = body_literals(rule[2])
            for a, b in spans:
                literal = rule[2][a:b].strip()
                name = literal.split("(")[0].strip()
                bare = re.sub(r'"[^"]*"', "", literal)
                comparison = re.search(r"(!=|<=|>=|<|>)", bare) and not literal.endswith((")", "}"))
                equation = re.search(r"[^<>!]=", bare) and re.search(r"[*/%]", bare.split("=")[0])
                if len(spans) > 1 and (literal.startswith("!") or comparison or equation or name in CHECKS):
                    at = rule.start(2)
                    line = text.count("\n", 0, at + a) + 1
                    found.append(Condition(file, line, at + a, at + b, literal, " ".join(rule[0].split())))
    return found


def uncommented(text: str) -> str:
    """The text with blanks in place of comments: what is where stays."""
    return re.sub(r"//[^\n]*", lambda m: " " * len(m[0]), text)


RULE = re.compile(r"(?:^|(?<=\. ))([a-z_]\w*)\((?:[^\n]|\n(?=    ))*?:-(.*?)\.\s*(?=\n|\Z)", re.S | re.M)
ARGUED = re.compile(r"(?:^//\?[^\n]*\n)+", re.M)
ATOM = re.compile(r"(!?)\b([a-z_]\w*)\(")
GOALS = ("holds", "accepted", "corr")


def granting(folder: Path) -> set[str]:
    """Relations more of which may mean more correspondences or proofs: those rest on them through an even number of
    negations, or through an aggregate."""
    uses: dict[str, set[tuple[str, int]]] = {}
    for file in all_files(folder):
        text = re.sub(r"//[^\n]*", "", (folder / file).read_text(encoding="utf-8"))
        for head, body in RULE.findall(re.sub(r'"[^"]*"', '""', text)):
            counted = " ".join(re.findall(r"\{(.*?)\}", body, re.S))
            found = uses.setdefault(head, set())
            for negated, atom in ATOM.findall(body):
                found.add((atom, -1 if negated else 1))
            found.update((atom, sign) for _, atom in ATOM.findall(counted) for sign in (1, -1))
    seen = {(goal, 1) for goal in GOALS}
    stack = list(seen)
    while stack:
        relation, sign = stack.pop()
        for atom, other in uses.get(relation, ()):
            use = (atom, sign * other)
            if use not in seen and use != ("holds", -1):  # (only what words a verdict asks what fails)
                seen.add(use)
                stack.append(use)
    return {relation for relation, sign in seen if sign > 0}


def without(folder: Path, condition: Condition, target: Path) -> Path:
    """A copy of the rules with the condition replaced by a truth; its `verify.dl`."""
    shutil.copytree(folder, target)
    file = target / condition.file
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: condition.start] + " 0 = 0 " + text[condition.end :], encoding="utf-8")
    return target / "verify.dl"


def programs(prefer: tuple[str, ...], seed: int, seconds: float) -> Iterator[tuple[str, bool, Tables]]:
    """Name, whether none of its outputs is right, and tables: random pairs for so long, then those by hand."""
    number, start = seed, cpu()
    while cpu() - start < seconds:
        length, share = (12, 0.5) if number % 3 == 0 else (4, 0.95)
        yield f"random pair {number}", False, random_pair(
            random.Random(number), length=length, wrong=random.Random(number).choice([0.12, 0.3]),
            prefer=prefer, share=share,
        ).tables()  # fmt: skip
        number += 1
    yield from ((name, False, build().tables()) for name, build in TRIALS.items())
    yield from ((name, True, build().tables()) for name, build in (ROUNDED | WRONG).items())


def cpu() -> float:
    """CPU seconds of this process and of those that it waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def verdict(main: Path, file: str, seed: int, seconds: float) -> str:
    """What notices that the condition is gone."""
    try:
        rules = load_rules(main=main)
    except InputError:
        return "needed to load"
    for name, wrong, tables in programs(tuple(random_steps(main.parent / file)), seed, seconds):
        said = NOTICES[asked(rules, tables, wrong, seed)]
        if said:
            hole = " (a hole: with the condition, too)" if asked(load_rules(), tables, wrong, seed) else ""
            return f"noticed: {said} {name}{hole}"
    return "unnoticed"


def asked(rules: Program, tables: Tables, wrong: bool, seed: int) -> int:
    """`notice` in a process of its own: the rules are loaded once, and every program gets a copy that has seen no
    facts."""
    child = os.fork()
    if child == 0:
        os._exit(notice(rules, tables, wrong, seed))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


NOTICES = {0: "", 1: "a proof of", 2: "something false in", 3: "a run that fails in", -9: "a run that is killed in"}


def notice(rules: Program, tables: Tables, wrong: bool, seed: int) -> int:
    """Which of NOTICES a program is."""
    try:
        derived = derive_with(rules, tables, timeout=10)
        if wrong and derived.proved:
            return 1
        return 2 if audit(tables, derived.claims, trials=2, seed=seed, declared=derived.declared()).false else 0
    except InputError:
        return 3


def arguments_for(folder: Path, files: Iterable[str]) -> dict[Condition, str]:
    """Condition → why its loss is harmless: comments `//? CONDITION: ARGUMENT` right above its rule, going on in lines
    `//?   …`. InputError for one that fits no condition of that rule."""
    found: dict[tuple[str, str], list[Condition]] = {}
    for c in conditions(folder, files):
        found.setdefault((c.file, c.rule), []).append(c)
    arguments = {}
    for file in dict.fromkeys(file for file, _ in found):
        text = (folder / file).read_text(encoding="utf-8")
        claims = {text.count("\n", 0, m.end()): m[0] for m in ARGUED.finditer(text)}
        for rule in RULE.finditer(uncommented(text)):
            said = claims.pop(text.count("\n", 0, rule.start()), "")
            for claim in re.sub(r"\n//\?   ", " ", said).splitlines():
                bare = "".join(claim.removeprefix("//?").split())
                fitting = [
                    c
                    for c in found.get((file, " ".join(rule[0].split())), ())
                    if bare.startswith("".join(c.text.split()) + ":")
                ]
                if not fitting:
                    line = text.count("\n", 0, rule.start()) + 1
                    raise InputError(f"no condition of this rule: {claim}", file=folder / file, line=line)
                arguments.update(dict.fromkeys(fitting, claim.removeprefix("//?").strip()))
        for line in claims:
            raise InputError("an argument that stands above no rule", file=folder / file, line=line)
    return arguments


def all_files(folder: Path) -> list[str]:
    """Rule files that can make a proof of values; what only words results, reads and writes texts, or is a program of
    its own, is left out."""
    found = [f.relative_to(folder).as_posix() for f in sorted(folder.rglob("*.dl")) if f.parent != folder]
    return [f for f in found if not f.startswith(WORDS)]


WORDS = (
    "facts/", "conclude/diagnosis/", "conclude/mending/", "mesh/read_", "mesh/write_", "lift/", "plans/", "schedule/",
)  # fmt: skip


def main() -> int:
    """Exit status 1 where a deletion went unnoticed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", help="rule files, relative to the rules' folder; all by default")
    parser.add_argument("--rules", type=Path, default=rules_dir(), help="folder of the rules")
    parser.add_argument("--count", type=int, help="so many conditions, drawn at random; all by default")
    parser.add_argument("--seconds", type=float, default=15, help="CPU seconds of random pairs for each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--journal", type=Path, default=Path("side_conditions.jsonl"), help="read, then appended to")
    parser.add_argument("--open", action="store_true", help="leave out what is argued")
    parser.add_argument("--list", action="store_true", help="only list the conditions")
    arguments = parser.parse_args()
    found = conditions(arguments.rules, arguments.files or all_files(arguments.rules))
    if arguments.open:
        argued = arguments_for(arguments.rules, all_files(arguments.rules))
        found = [c for c in found if c not in argued]
    if arguments.count:
        found = random.Random(arguments.seed).sample(found, min(arguments.count, len(found)))
    if arguments.list:
        for c in found:
            print(f"{c.file}:{c.line}\t{c.head}\t{c.text}")
        return 0
    harmless = arguments_for(arguments.rules, all_files(arguments.rules))
    grants = granting(arguments.rules)
    journal = read(arguments.journal)
    done = {(r["file"], r["rule"], r["condition"]): r["verdict"] for r in journal}
    rows = []
    with arguments.journal.open("a", encoding="utf-8") as file:
        for c in found:
            said = done.get((c.file, c.rule, c.text))
            if c.head not in grants:
                said = "grants less"
            elif c.head.startswith(("want_", "use_")):
                said = "asks more"
            elif said is None:
                with tempfile.TemporaryDirectory() as folder:
                    edited = without(arguments.rules, c, Path(folder) / "rules")
                    said = verdict(edited, c.file, arguments.seed, arguments.seconds)
                row = {"file": c.file, "line": c.line, "condition": c.text, "rule": c.rule, "verdict": said}
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
                file.flush()
            why = harmless.get(c)
            if said == "unnoticed" and why:
                said = f"harmless: {why}"
            rows.append((c.file, said.split(":")[0]))
            print(f"{said:60} {c.file}:{c.line}: {c.text}   in   {c.rule[:140]}", flush=True)
    print()
    print(table("file", rows, VERDICTS))
    return 1 if Counter(said for _, said in rows)["unnoticed"] else 0
