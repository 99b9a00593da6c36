"""Ask, judge, say what is wrong, ask again: a bounded number of rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.prove.verdict import Report

from . import judge, prompts
from .ask import Endpoint
from .judge import Judged
from .program import drafted
from .reply import Rejected, Reply, draft_of

KINDS = ("relations", "meaning", "lemma", "program", "explain")
ROUNDS = 3
MOST = 3000
"""Characters of what is said of a draft: it quotes the draft, which may be long."""


@dataclass(frozen=True)
class Asked:
    """What a proposal is about: a pair of dumps, or a report with its facts; the kind of op; source of a kernel."""

    kind: str
    base: Path | None = None
    dist: tuple[Path, ...] = ()
    mesh: str = ""
    report: Report | None = None
    op: str = ""
    source: str = ""
    values: Path | None = None
    """Arrays of a run of the source, by names of inputs, and of outputs as `output0` …"""
    seconds: float = 30.0

    def messages(self) -> list[dict[str, str]]:
        """The question."""
        if self.kind == "relations":
            assert self.base is not None
            return prompts.relations(self.base, self.dist, self.mesh)
        if self.kind == "program":
            return prompts.program(self.source, self.mesh)
        assert self.report is not None
        if self.kind == "meaning":
            assert self.report.view is not None
            return prompts.meaning(self.report.view, self.op, self.source)
        return prompts.lemma(self.report) if self.kind == "lemma" else prompts.explanation(self.report)

    def judge(self, draft: str) -> Judged:
        """What a draft is worth; Rejected says why it is nothing."""
        if self.kind == "relations":
            assert self.base is not None
            return judge.relations(draft, self.base, self.dist, self.mesh)
        if self.kind == "program":
            return drafted(draft, self.mesh, self.values)
        if self.kind == "explain":
            assert self.report is not None
            return judge.explanation(draft, self.report)
        return judge.rules(draft, self.op if self.kind == "meaning" else None, self.seconds)


def propose(
    asked: Asked,
    answers: Endpoint | Sequence[str],
    rounds: int = ROUNDS,
    say: Callable[[str], None] = lambda text: None,
) -> Judged:
    """The first draft that passes; InputError with what was wrong with the last one."""
    messages = asked.messages()
    wrong = "no reply is given"
    for number, reply in enumerate(_replies(messages, answers, rounds), 1):
        try:
            return asked.judge(draft_of(reply))
        except Rejected as error:
            wrong = shortened(str(error))
        say(f"round {number}: rejected: {wrong}")
        messages += [
            {"role": "assistant", "content": reply.text[:20_000]},
            {"role": "user", "content": f"Rejected: {wrong}\nAnswer with a better draft, in one fenced block."},
        ]
    raise InputError(f"no draft passed: {wrong}", hint="nothing is written")


def shortened(text: str) -> str:
    """A text without its middle, if it is long."""
    return text if len(text) <= MOST else f"{text[: MOST // 2]} […] {text[-MOST // 2 :]}"


def _replies(messages: list[dict[str, str]], answers: Endpoint | Sequence[str], rounds: int) -> Iterator[Reply]:
    if isinstance(answers, Endpoint):
        for _ in range(rounds):
            yield answers.ask(messages)
    else:
        yield from map(Reply, answers[:rounds])
