"""Whether the programs of a pair, as they were read, can race or hang: for verdicts on their values.

What is dumped in the order in which it runs is judged: scheduled HLO, FX graphs. Of anything else the order is not
known, and that nothing races or hangs stays an assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.ir.origin import IN_TIME, Origin, has_order
from scalify_dl.prove.verdict import InTime, Verdict

from .marks import is_scheduled, looks_like_fx
from .tables import APART

if TYPE_CHECKING:
    from .tables import Schedule
    from .verdict import Result


def in_time(origins: Sequence[Origin], ranks: int) -> InTime | None:
    """The verdict on distributed programs: one for all ranks, or one each. None for one that is synchronous: all ranks
    do the same steps, one after the other."""
    if not has_order(origins):
        return None
    from .run import settings
    from .verdict import judge

    def judged(read: Read) -> Result:
        """Where queues may be one or many, both; that they are many is assumed only where it matters."""
        result = judge(read("pair"), settings("both"))
        if APART in result.assumptions:
            other = judge(read("rank"), settings("both"))
            if not any(finding.level == "error" for finding in other.findings):
                result.assumptions = [text for text in result.assumptions if text != APART]
        return result

    files = [origin.file for origin in origins]
    if None in files:
        return InTime(Verdict.PROVED, assumptions=(IN_TIME,))
    texts = {file: Path(file).read_text("utf-8", errors="replace") for file in files if file}
    read = _reader(origins, texts, ranks)
    if read is None:
        return InTime(Verdict.PROVED, assumptions=(f"{IN_TIME} (the dump is in no order of time)",))
    try:
        return concluded(judged(read))
    except InputError as error:
        return InTime(Verdict.PROVED, assumptions=(f"{IN_TIME} (not checked: {error.message})",))


def concluded(result: Result) -> InTime:
    """What a verdict on values takes over: what depends on buffering is assumed, by name."""
    if result.findings and all(finding.level == "depends" for finding in result.findings):
        text = f"messages find room, which this needs: {result.findings[0].text}"
        return InTime(Verdict.PROVED, assumptions=(*result.assumptions, text))
    return InTime(result.verdict, tuple(result.findings), tuple(result.assumptions))


Read = Callable[[str], "Schedule"]
"""By the model of streams."""


def _reader(origins: Sequence[Origin], texts: dict[str, str], ranks: int) -> Read | None:
    if len(origins) == 1:
        order = [str(origins[0].file)]
    else:
        by_rank = {rank: str(origin.file) for origin in origins for rank in origin.ranks or ()}
        if sorted(by_rank) != list(range(ranks)):
            return None
        order = [by_rank[rank] for rank in range(ranks)]
    paths, contents = [Path(file) for file in order], [texts[file] for file in order]
    if all(map(is_scheduled, texts.values())):
        from .hlo.ranks import read_hlo

        return lambda streams: read_hlo(paths, contents, streams, world=ranks, fold=True)
    if all(map(looks_like_fx, texts.values())):
        from .fx_waits import read_fx

        groups = {name: members for origin in origins for name, members in origin.groups.items()}
        return lambda streams: read_fx(paths, contents, streams, groups)
    return None
