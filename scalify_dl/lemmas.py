"""Lemmas: what stands in the headers of rule files.

A rule for `holds` is a lemma, or one of several rules that make up one. Above the first of them stands its header:

    // Lemma masked-read
    // Statement: what it concludes, in a sentence.
    // Conditions: each condition, and why it is needed.
    // Why sound: the argument.
    // Example: a small one, with numbers.
    // Wrong twin: what would be wrong without some condition.

The id in the first line is what verdicts, `explain`, `rules check` and certificates name; it stays when files are
moved. A rule without a header (one of somebody's own) is named by its place, `file:line`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import dropwhile, takewhile
from pathlib import Path
from typing import NamedTuple

from .errors import InputError

JUDGEMENT = "holds"
"""The relation whose rules are the lemmas."""
FIELDS = ("Statement", "Conditions", "Why sound", "Example", "Wrong twin")
"""What a header says, in this order."""
WHOLE = "@whole"
"""The marker, in a lemma's header or right above a rule: whole, replicated values are all that it ever grants."""
_TITLE = re.compile(r"// Lemma ([a-z0-9]+(?:-[a-z0-9]+)*)$")
_FIELD = re.compile(rf"// ({'|'.join(FIELDS)}):\s*(.*)")
OTHERS = ("transition", "joined")
"""Relations of programs of their own (`lift.dl`) whose rules are lemmas, too: what SPMD types go over into."""
_RULE = re.compile(rf"(?:{'|'.join((JUDGEMENT, *OTHERS))})\(")
_DECLARED = re.compile(r"^\.decl (\w+)\(([^)]*)\)[ \t]*(?://[ \t]*(.*))?", re.M)
_ABOVE = ("conclude", "lift", "mend.dl", "plans", "schedule")
"""Folders that no lemma reads: strata above them, programs of their own."""
_STEPS = re.compile(r"^// Random steps: (.*(?:\n//   .*)*)\.$", re.M)


class Lemma(NamedTuple):
    """One lemma: `id`, the rule file, the line of its header, the texts of its fields, its rules by line."""

    id: str
    file: Path
    line: int
    fields: dict[str, str]
    rules: tuple[tuple[int, str], ...]

    @property
    def statement(self) -> str:
        """What it concludes; empty where the header does not say."""
        return self.fields.get("Statement", "")


class Relation(NamedTuple):
    """A declaration: its name, the names of its columns, its place, and what the comment beside or above it says."""

    name: str
    columns: tuple[str, ...]
    file: Path
    line: int
    says: str


def lemmas(folder: Path) -> list[Lemma]:
    """All lemmas of the rule files below a folder, by file and line."""
    return [lemma for file in sorted(folder.rglob("*.dl")) for lemma in lemmas_of(file)]


def find_lemma(folder: Path, name: str, files: Sequence[Path] = ()) -> Lemma:
    """The lemma of that id, of these files or of the folder. InputError, with the nearest ids, where there is none."""
    own = [lemma for file in files for lemma in lemmas_of(file.resolve())]
    every = {lemma.id: lemma for lemma in [*lemmas(folder), *own]}
    if name not in every:
        import difflib

        near = difflib.get_close_matches(name, every, 3)
        hint = f"did you mean {' or '.join(near)}?" if near else "`dlverify rules list` prints all"
        of = "".join(f", nor in {file}" for file in files)
        raise InputError(f"no lemma `{name}`" + (f" in the shipped rules{of}" if of else ""), hint=hint)
    return every[name]


@cache
def lemmas_of(file: Path) -> tuple[Lemma, ...]:
    """The lemmas with a header in one file; none where it cannot be read."""
    lines = _lines(file)
    starts = [(at, title[1]) for at, line in enumerate(lines) if (title := _TITLE.match(line.rstrip()))]
    found = []
    for (at, name), end in zip(starts, [*(at for at, _ in starts[1:]), len(lines)], strict=False):
        rules = tuple([(n + 1, _rule(lines, n)) for n in range(at, end) if _RULE.match(lines[n])])
        found.append(Lemma(name, file, at + 1, _fields(lines, at), rules))
    return tuple(found)


@cache
def relations(folder: Path) -> dict[str, Relation]:
    """The relations that the rule files below a folder declare; of one name, that which lemmas may read."""
    found: dict[str, Relation] = {}
    for file in sorted(folder.rglob("*.dl"), key=lambda file: (file.relative_to(folder).parts[0] in _ABOVE, file)):
        for declared in _DECLARED.finditer(text := "\n".join(_lines(file))):
            name, columns, beside = declared.groups()
            line = text.count("\n", 0, declared.start()) + 1
            above, said = _above(_lines(file)[: line - 1]), beside or ""
            says = above or said.removeprefix("open").lstrip(": ") if said.startswith("open") else said or above
            names = tuple(column.split(":")[0].strip() for column in columns.split(","))
            found.setdefault(name, Relation(name, names, file, line, says))
    return found


def _above(lines: list[str]) -> str:
    """The comment that ends right above some declarations, at the end of these lines: all its paragraphs."""
    above = dropwhile(lambda line: line.startswith(".decl"), reversed(lines))
    said = [line.strip("/ -") for line in takewhile(lambda line: re.match(r"//(?!\?)", line), above)]
    return " ".join(filter(None, reversed(said)))


def conditions(lemma: Lemma, folder: Path) -> list[Relation]:
    """The relations that the rules of a lemma ask, in the order in which they come."""
    bodies = [text.partition(":-")[2] for _, text in lemma.rules]
    names = dict.fromkeys(name for body in bodies for name in re.findall(r"\b([a-z_]\w*)\(", body))
    return [known[name] for name in names if name in (known := relations(folder)) and name not in (JUDGEMENT, *OTHERS)]


def random_steps(file: Path) -> list[str]:
    """The random steps that exercise a rule file, as its first comment lists them."""
    said = _STEPS.search("\n".join(_lines(file)))
    return [step.strip() for step in said[1].replace("\n//", "").split(",")] if said else []


@cache
def lemma_at(file: Path, line: int) -> Lemma | None:
    """The lemma that the rule at this line of a file belongs to."""
    return next((lemma for lemma in lemmas_of(file) if any(at == line for at, _ in lemma.rules)), None)


def rule_name(file: str, line: int) -> str:
    """What to call a rule: the id of its lemma, with a number where that has several rules; else its place."""
    lemma = lemma_at(Path(file), line)
    if lemma is None:
        return f"{Path(file).name}:{line}"
    number = [at for at, _ in lemma.rules].index(line) + 1
    return f"{lemma.id}/{number}" if len(lemma.rules) > 1 else lemma.id


def comment_above(file: Path, line: int) -> str:
    """The comment that stands above a rule, or above the rules of the same relation right before it."""
    lines = _lines(file)
    if not 0 < line <= len(lines):
        return ""
    head = lines[line - 1].split("(")[0]
    for text in reversed(lines[: line - 1]):
        if text.startswith("//"):
            return text.strip("/ -")
        if text.split("(")[0] != head:
            return ""
    return ""


def says_whole(file: str, line: int) -> bool:
    """Whether the rule at this line is marked as granting whole values only."""
    lines = _lines(Path(file))
    lemma = lemma_at(Path(file), line)
    first = line - 1
    while first > 0 and lines[first - 1].startswith("//"):
        first -= 1
    above = lines[first : line - 1] + (list(_comment(lines, lemma.line)) if lemma else [])
    return any(WHOLE in text for text in above)


@cache
def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return []


def _fields(lines: list[str], at: int) -> dict[str, str]:
    out: dict[str, str] = {}
    current = ""
    for line in _comment(lines, at + 1):
        if line.startswith("//?") or line.strip("/ ") == WHOLE:
            current = ""
        elif field := _FIELD.match(line):
            current = field[1]
            out[current] = field[2].strip()
        elif current:
            out[current] = f"{out[current]} {line.strip('/ ')}".strip()
    return out


def _comment(lines: list[str], at: int) -> Iterator[str]:
    while at < len(lines) and lines[at].startswith("//"):
        yield lines[at]
        at += 1


def _rule(lines: list[str], at: int) -> str:
    """The text of the rule that begins at a line: to the line that ends with its dot."""
    end = at
    while end < len(lines) - 1 and not re.sub(r"\s*//[^\"]*$", "", lines[end]).rstrip().endswith("."):
        end += 1
    return "\n".join(lines[at : end + 1])
