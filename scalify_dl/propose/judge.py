"""What a draft is worth: relations by `verify`, meanings and lemmas by `rules check`, explanations by what they name.

Nothing in a draft is run or looked up: relations and rules are parsed by the readers that parse everybody's, rules may
not include files, and may not have what `--rules` refuses.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.prove.own_rules import PROPOSED
from scalify_dl.prove.verdict import Report, Verdict

from .about import about_one_kind
from .reply import Rejected

ALLOWED = ("inputs", "concat", "groups")
"""Sections of a relations file that a draft may have: none that changes what is asked (`outputs`)."""


MOST_MEMORY = 2_000_000_000
"""Bytes that the rules of a draft may take, beside what is there."""


@dataclass(frozen=True)
class Judged:
    """A draft that may be kept, as it is written to a file, and what was found."""

    text: str
    suffix: str
    found: str


def relations(draft: str, base: Path, dist: Sequence[Path], mesh: str) -> Judged:
    """Relations are kept if they fit the programs and leave less unknown, or prove the pair; they stay proposed."""
    from scalify_dl.pairing.export import export
    from scalify_dl.prove.options import Options
    from scalify_dl.prove.pipeline import analyse
    from scalify_dl.readers.relations import parse_relations
    from scalify_dl.report.conclude import conclude

    kept = re.sub(r"^why:.*\n", "", draft, flags=re.MULTILINE)
    text = f"why: proposed\n{kept}"

    def verdict(of: str | None) -> Report:
        said = parse_relations(of, file="draft") if of is not None else None
        facts = export(base, list(dist), mesh, said)
        return conclude(analyse(facts, Options(timeout=120, mend=False)))

    try:
        said = parse_relations(text, file="draft")
        other = [name for name in vars(said) if name not in (*ALLOWED, "why") and getattr(said, name)]
        if other:
            raise Rejected(f"a draft may say {', '.join(ALLOWED)}, not {', '.join(other)}")
        if not any(getattr(said, name) for name in ALLOWED):
            raise Rejected("the draft says nothing")
        after = verdict(text)
    except InputError as error:
        raise Rejected(str(error)) from None
    before = verdict(None)
    if after.verdict is Verdict.REFUTED:
        raise Rejected(f"with these relations the pair is REFUTED: {_why(after)}")
    if after.verdict is not Verdict.PROVED and _open(after) >= _open(before):
        raise Rejected(f"with these relations the pair is {after.verdict.value}, and no less is open: {_why(after)}")
    rests = sum(a.why == "proposed" for a in after.assumptions)
    was = f"without them {before.verdict.value}"
    return Judged(text, ".yaml", f"with these relations {after.verdict.value}, {was}; {rests} assumptions are proposed")


def _open(report: Report) -> tuple[int, int]:
    return sum(o.verdict is not Verdict.PROVED for o in report.outputs), len(report.unrelated_inputs)


def _why(report: Report) -> str:
    causes = [f"{c.name} ({c.kind}): {'; '.join((*c.found, *c.inputs, *c.suggestion))}" for c in report.frontier[:3]]
    causes += [f"{name}: {text}" for name, text in report.unrelated_inputs[:5]]
    causes += [o.reason for o in report.outputs if o.reason][:2]
    return " | ".join(causes)[:2000] or "; ".join(report.notes)[:2000]


@contextmanager
def _memory(more: int) -> Iterator[None]:
    """Rules may make texts without end: what takes more than so many bytes ends, where the system can limit it."""
    size = Path("/proc/self/statm")
    if not size.exists():
        yield
        return
    import resource

    used = int(size.read_text("ascii").split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = used + more if soft == resource.RLIM_INFINITY else min(soft, used + more)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    except MemoryError:
        raise Rejected(f"its rules take more than {more:,} bytes") from None
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def rules(draft: str, kind: str | None, seconds: float) -> Judged:
    """Rules are kept if random programs exercise them and nothing false is derived; a meaning is of this kind."""
    from scalify_dl.audit.fuzz import check_rules
    from scalify_dl.prove.pipeline import rules_program

    if "#" in re.sub(r'"[^"\n]*"|//[^\n]*', "", draft):
        raise Rejected("rules may not include files, nor have other lines that begin with #")
    if kind is not None and f'"{kind}"' not in draft:
        raise Rejected(f'the draft says nothing of "{kind}"')
    text = f"{PROPOSED}, not reviewed\n{draft}"
    with tempfile.TemporaryDirectory(prefix="dlverify-") as folder:
        file = Path(folder) / "draft.dl"
        file.write_text(text, "utf-8")
        try:
            program = rules_program([file])
            heads = {rule.relation for rule in program.rules if Path(rule.file).resolve() == file.resolve()}
            if kind is not None and "holds" in heads:
                raise Rejected("a meaning has no rules for `holds`: it says factors, or `renaming`")
            if kind is not None:
                about_one_kind(file, kind)
            with _memory(MOST_MEMORY):
                report = check_rules([file], seconds=seconds, stop=1)
        except InputError as error:
            raise Rejected(str(error).replace(str(file), "draft")) from None
        own = [x for x in report.coverage.lemmas if Path(x.file).resolve() == file.resolve()]
        missing = [x.name for x in report.coverage.missing() if x in own]
    if report.unsound:
        raise Rejected(f"it derives what is false in this program:\n{report.unsound[0].listing()[:2000]}")
    loose = {k: use.missing for k, use in report.kinds.items() if use.missing}
    if missing or loose or not (own or report.kinds):
        left = ", ".join([*missing, *(f"{k} ({why})" for k, why in loose.items())]) or "no lemma and no kind of op"
        raise Rejected(f"it was not exercised in {report.pairs} random programs: {left}")
    return Judged(text, ".dl", f"nothing false in {report.pairs} random programs; every verdict lists it as proposed")


def explanation(draft: str, report: Report) -> Judged:
    """A text is kept if all that it quotes is in the report: names in backquotes, places in files."""
    from scalify_dl.report.json import render

    known = render(report)
    if draft.count("`") % 2:
        raise Rejected("a backquote is left open")
    quoted = {word for word in re.findall(r"`([^`\n]+)`", draft) if word not in known}
    places = {place for place in re.findall(r"[\w./-]+\.\w+:\d+", draft) if place not in known}
    if quoted or places:
        raise Rejected(f"it speaks of what the report does not have: {', '.join(sorted(quoted | places)[:8])}")
    return Judged(draft, ".md", "its names and places are the report's; what it says of them nobody checked")
