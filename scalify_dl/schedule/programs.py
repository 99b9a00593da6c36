"""Whether the programs of a pair, as they were read, can race or hang: for verdicts on their values.

What is dumped in the order in which it runs is judged: scheduled HLO, FX graphs. Of anything else the order is not
known, and that nothing races or hangs stays an assumption.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from scalify_dl.errors import InputError
from scalify_dl.ir.origin import IN_TIME, Origin, has_order
from scalify_dl.prove.verdict import InTime, Verdict

from .marks import is_scheduled, looks_like_fx
from .tables import APART

if TYPE_CHECKING:
    from .tables import Schedule
    from .verdict import Result


ROOM = "messages find room, which this needs"


def in_time(origins: Sequence[Origin], ranks: int) -> InTime | None:
    """The verdict on distributed programs: one for all ranks, or one each. None for one that is synchronous: all ranks
    do the same steps, one after the other."""
    if not has_order(origins):
        return None
    from .run import settings
    from .verdict import judge

    def judged(read: Read) -> Result:
        """Where queues may be one or many, both; that they are many is assumed only where it matters. Ranks that do
        the same steps are one; what may be wrong with them is told of each."""
        same = read.alike()
        if same is not None and not (result := judge(same, settings("both"))).findings:
            return result
        result = judge(read.apart("pair"), settings("both"))
        if APART in result.assumptions:
            other = judge(read.apart("rank"), settings("both"))
            if not any(finding.level == "error" for finding in other.findings):
                result.assumptions = [text for text in result.assumptions if text != APART]
        return result

    files = _files(origins, ranks)
    if None in files:
        return InTime(Verdict.PROVED, assumptions=(IN_TIME,))
    texts = {file: Path(file).read_text("utf-8", errors="replace") for file in files if file}
    read = _reader([str(file) for file in files], texts, origins, ranks)
    if read is None:
        return InTime(Verdict.PROVED, assumptions=(f"{IN_TIME} (the dump is in no order of time)",))
    try:
        return _with_messages(concluded(judged(read)), [str(file) for file in files], ranks)
    except InputError as error:
        return InTime(Verdict.PROVED, assumptions=(f"{IN_TIME} (not checked: {error.message})",))


def _with_messages(found: InTime, files: Sequence[str], ranks: int) -> InTime:
    """What is wrong with the order in which ranks post messages and wait for them, too, where each rank's dump has that
    beside its text."""
    from scalify_dl.readers.fx.annotation import beside, load_annotations

    from .recorded import read_runs
    from .run import settings
    from .verdict import judge

    if len({*files}) != ranks:
        return found
    paths = [beside(Path(file)) for file in files]
    said = [load_annotations(path).posted for path in paths]
    if not any(said):
        return found
    said = [run or {"rank": n, "world": ranks, "groups": {}, "events": []} for n, run in enumerate(said)]
    texts = [json.dumps({"version": 1, "given": [], **run}) for run in said]
    order = concluded(judge(read_runs(paths, texts, "direction"), settings("both"), check="deadlock"))
    if order.verdict is Verdict.REFUTED:
        return InTime(order.verdict, order.findings, found.assumptions)
    needs = tuple(text for text in order.assumptions if text.startswith(ROOM))
    return InTime(found.verdict, found.findings, (*found.assumptions, *needs))


def concluded(result: Result) -> InTime:
    """What a verdict on values takes over: what depends on buffering is assumed, by name."""
    if result.findings and all(finding.level == "depends" for finding in result.findings):
        text = f"{ROOM}: {result.findings[0].text}"
        return InTime(Verdict.PROVED, assumptions=(*result.assumptions, text))
    return InTime(result.verdict, tuple(result.findings), tuple(result.assumptions))


class Read(NamedTuple):
    """How programs become a schedule: by the model of streams; as one, where all ranks do the same steps."""

    apart: Callable[[str], Schedule]
    alike: Callable[[], Schedule | None] = lambda: None


def _files(origins: Sequence[Origin], ranks: int) -> list[str | None]:
    """The file of every rank: one that computes what another does may wait in other places. One file alone is the
    program of all ranks; None where a rank's is not known."""
    if len(origins) == 1 and not origins[0].files:
        return [origins[0].file]
    by_rank: dict[int, str | None] = {}
    for origin in origins:
        by_rank |= {rank: origin.files.get(rank, origin.file) for rank in origin.ranks or origin.files}
    return [by_rank.get(rank) for rank in range(ranks)]


def _reader(files: list[str], texts: dict[str, str], origins: Sequence[Origin], ranks: int) -> Read | None:
    if all(map(is_scheduled, texts.values())):
        from .hlo.ranks import read_hlo

        return Read(
            lambda streams: read_hlo(
                [Path(file) for file in files], [texts[file] for file in files], streams, world=ranks, fold=True
            )
        )
    if all(map(looks_like_fx, texts.values())):
        from .fx_waits import alike, read_alike, read_fx, sends

        groups = {name: members for origin in origins for name, members in origin.groups.items()}
        same = alike(texts)
        if len(files) == 1 or (same and len(set(texts.values())) == 1):
            files = files[:1]
        if len(files) == 1 and sends(texts[files[0]]):
            files *= ranks
        paths, contents = [Path(file) for file in files], [texts[file] for file in files]
        apart = partial(read_fx, paths, contents, groups=groups)
        return Read(apart, partial(read_alike, paths, contents)) if same and len(files) > 1 else Read(apart)
    return None
