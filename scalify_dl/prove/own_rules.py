"""Rules files of somebody's own: what may be in them, and which were loaded.

They are trusted as lemmas are: each is an assumption of every verdict. But they only add. A file may declare relations,
have rules for these and for relations that the shipped rules declare open (`open_to_users`, datalog/facts/open.dl), and
include further files. It may not read facts a second time, deny by subsumption, steer the engine or the preprocessor,
or have rules for facts, verdicts, assumptions or what the shipped rules judge.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from scalify_dl.errors import InputError, from_here
from scalify_dl.pysouffle import Program, rules_dir

OPEN = "open_to_users"
PROPOSED = "// proposed"
"""Begins a file of rules that nobody has reviewed; its assumption says so."""
DEMAND = re.compile("want_.*")
"""The names of relations that only ask. Which layout is wanted of a constant (`wanted`) is what it is granted with, as
far as counting tells: a judgement."""
_HINT = "docs/adding_an_op.md lists the relations that such a file may have rules for"
_WORD = re.compile(
    r"""(?P<skip>//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*")|(?P<line>\n[ \t]*)(?P<hash>\#[^\n]*)?"""
    r"""|(?P<dot>\.(?:input|limitsize|pragma|functor|plan|override|include|once)\b)|(?P<mark>[\#@\\"])""",
    re.DOTALL,
)
_INCLUDE = re.compile(r'\#[ \t]*include[ \t]+"([^"\n]+)"[ \t]*(?://.*)?\r?')
_DECLARED = re.compile(r"^[ \t]*\.decl[ \t]+([\w?, \t]+)\(", re.MULTILINE)
_MARKS = {
    "#": "a preprocessor directive",
    "@": "a functor of the host",
    "\\": "a continued line",
    '"': "a text without end",
}


def read_own(files: Iterable[Path], shipped: Path) -> dict[Path, str]:
    """These files and all that they include, resolved, with the hash of each; InputError where one says what it may
    not, before anything is run. `shipped`: the folder of the rules that are nobody's own."""
    found: dict[Path, str] = {}
    todo: list[tuple[Path, Path | None, int]] = [(Path(file), None, 0) for file in files]
    while todo:
        path, by, line = todo.pop(0)
        file = Path(os.path.realpath(path))  # which takes a link to itself, too
        if not file.is_file():
            what = f"no such rules file: {from_here(str(path))}"
            raise InputError(what, file=by or path, line=line, expected="a Datalog file (.dl)")
        if file in found or file.is_relative_to(shipped.resolve()):
            continue
        if file.suffix != ".dl":  # what is none is not looked into, let alone shown
            raise InputError("no rules file", file=by or path, line=line, expected="a file *.dl")
        try:
            data = file.read_bytes()
            text = data.decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the rules file cannot be read: {error}", file=path) from None
        import hashlib  # where there are such files

        found[file] = hashlib.sha256(data).hexdigest()
        for name, at in _included(text, path):
            beside = file.parent / name
            todo.append((shipped / name if (shipped / name).is_file() and not beside.is_file() else beside, path, at))
    return found


def _included(text: str, path: Path) -> Iterable[tuple[str, int]]:
    """The names that are included, and their lines; InputError for any other word that a file of rules may not have."""
    shift = 1
    for match in _WORD.finditer("\n" + text):
        line = text.count("\n", 0, match.end() - shift) + 1
        if match["hash"]:
            include = _INCLUDE.fullmatch(match["hash"])
            if include is None:
                raise _refused("a preprocessor directive", path, line, 'only #include "file.dl" is understood here')
            yield include[1], line
        elif match["dot"]:
            raise _refused(f"`{match['dot']}`", path, line)
        elif match["mark"]:
            raise _refused(_MARKS[match["mark"]], path, line)


def _refused(what: str, path: Path, line: int, hint: str = _HINT) -> InputError:
    return InputError(f"rules given with --rules may not have {what}", file=path, line=line, hint=hint)


def check_own(program: Program, own: Iterable[Path], shipped: Path) -> None:
    """InputError for a rule of these files that has a head it may not have, or takes rows away."""
    files = set(own)
    if not files:
        return
    rules = program.rules
    used = {rule.file for rule in rules}.union(directive.file for directive in program.directives)
    resolved = {file: Path(file).resolve() for file in used}
    for directive in program.directives:
        if directive.kind in ("input", "limitsize") and resolved[directive.file] in files:
            raise _refused(f"`.{directive.kind}`", Path(directive.file), directive.line)
    theirs = _declared(shipped, set(resolved.values()))
    opened = {
        match[1]
        for rule in rules
        if (match := re.match(OPEN + r'\("(\w+)"\)', rule.text)) and resolved[rule.file] not in files
    }
    for rule in rules:
        if resolved[rule.file] not in files:
            continue
        if _heads(rule.text).count(rule.relation) > 1:
            what = f"two heads of `{rule.relation}` in one rule"
            raise _refused(what, Path(rule.file), rule.line, "steps of certificates say which rule, not which head")
        if rule.relation not in theirs:
            continue
        if rule.relation not in opened and not DEMAND.fullmatch(rule.relation):
            raise _refused(
                f"a rule for `{rule.relation}`, which belongs to the shipped rules", Path(rule.file), rule.line
            )
        if _takes_away(rule.text):
            raise _refused(f"a subsumption of `{rule.relation}`", Path(rule.file), rule.line)


def _declared(shipped: Path, used: set[Path]) -> set[str]:
    """Relations that the shipped rules declare, in files that the program has."""
    return {
        name.strip()
        for file in shipped.rglob("*.dl")
        if file.resolve() in used
        for names in _DECLARED.findall(file.read_text("utf-8"))
        for name in names.split(",")
    }


def _takes_away(text: str) -> bool:
    """Whether a rule is a subsumption: its first atom is followed by `<=`."""
    depth = 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|[()]', text):
        depth += {"(": 1, ")": -1}.get(match[0], 0)
        if depth == 0 and match[0] == ")":
            return text[match.end() :].lstrip().startswith("<=")
    return False


def _heads(text: str) -> list[str]:
    """The relations of a rule's heads, in order."""
    found, depth = [], 0
    for match in re.finditer(r'"(?:[^"\\]|\\.)*"|:-|<=|(?P<name>[\w?.]+)\s*(?=\()|[()]', text):
        if match["name"] and depth == 0:
            found.append(match["name"])
        elif match[0] in (":-", "<=") and depth == 0:
            break
        depth += {"(": 1, ")": -1}.get(match[0], 0)
    return found


def rules_assumed(files: Iterable[Path]) -> list[tuple[str, str, str]]:
    """The assumption that each of these files is, and each that they include: (file name, text, "rules")."""
    files = read_own(files, rules_dir())
    if not files:
        return []
    from scalify_dl.certificate.files import own_rules

    drafts = {file.name for file in files if file.read_text("utf-8").startswith(PROPOSED)}
    return [(name, text, "proposed" if name in drafts else why) for name, text, why in own_rules(files, rules_dir())]


_CALL = re.compile(r"(//[^\n]*|/\*.*?\*/)|\"((?:custom|unknown):[\w.:-]+)\"", re.DOTALL)


def misspelt_kinds(files: Iterable[Path], kinds: Iterable[str]) -> list[str]:
    """Calls that these files speak about and a program has none of, where it has one of almost that name, about which
    no file says anything, in sentences."""
    texts = [file.read_text("utf-8") for file in read_own(files, rules_dir())]
    said = dict.fromkeys(m[2] for text in texts for m in _CALL.finditer(text) if m[2])
    there = set(kinds)
    calls = [kind for kind in sorted(there - said.keys()) if kind.startswith(("custom:", "unknown:"))]
    open_kinds = {kind.casefold(): kind for kind in calls}
    if not open_kinds:
        return []
    from difflib import get_close_matches

    found = []
    for kind in said:
        near = get_close_matches(kind.casefold(), open_kinds, 1, 0.8) if kind not in there else []
        if near:
            found.append(f"the rules speak of `{kind}`, which neither program has; is `{open_kinds[near[0]]}` meant?")
    return found
