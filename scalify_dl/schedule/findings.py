"""What the rules say of one capacity, as findings in words: what is carried wrongly, what hangs, what has no order."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from scalify_dl.finding import Finding

from .blame import Customs
from .run import Outcome
from .tables import Schedule

MOST = 20
"""Findings of one kind that are told one by one."""


def findings(schedule: Schedule, outcome: Outcome) -> list[Finding]:
    """All findings, the most telling first."""
    say = _Words(schedule, outcome)
    if outcome.rows["malformed"]:
        return list(say.malformed())
    found: list[Finding] = []
    for kind in (say.wrong_messages, say.mismatches, say.unmatched, say.deadlock, say.unread, say.overwritten,
                 say.races, say.too_early, say.orphans):  # fmt: skip
        some = _alike(kind())
        found += some[:MOST]
        if len(some) > MOST:
            last = some[MOST]
            found.append(Finding(last.kind, last.level, f"{len(some) - MOST} more of this kind: {last.text} …"))
    return found


def _alike(found: Iterable[Finding]) -> list[Finding]:
    """Those of ranks that run one program, at one place of it, are one."""
    ranks: dict[Any, list[int]] = {}
    first: dict[Any, Finding] = {}
    for n, finding in enumerate(found):
        place = tuple((e.name, e.source) for e in finding.events)
        key = (finding.level, finding.op, place) if all(source for _, source in place) and finding.events else n
        first.setdefault(key, finding)
        if finding.rank is not None and finding.rank not in ranks.setdefault(key, []):
            ranks[key].append(finding.rank)
    for key, finding in first.items():
        if len(ranks.get(key, ())) > 1:
            others = f"likewise on ranks {', '.join(map(str, ranks[key][1:]))}"
            first[key] = replace(finding, explains="; ".join(filter(None, (finding.explains, others))))
    return list(first.values())


class _Words:
    def __init__(self, schedule: Schedule, outcome: Outcome) -> None:
        self.schedule, self.outcome = schedule, outcome
        self.customs = Customs(schedule)

    def one(self, e: int) -> str:
        """An event with its rank and place."""
        named = self.schedule.called(e)
        return f"rank {self.schedule.rank(e)}'s {named.name}" + (f" ({named.source})" if named.source else "")

    def name(self, e: int) -> str:
        """An event's name alone."""
        return self.schedule.called(e).name

    def finding(self, kind: str, text: str, events: list[int], suggestion: str | None = None,
                level: str = "error", explains: str | None = None) -> Finding:  # fmt: skip
        """A finding about events, the first of which is the one to look at."""
        schedule = self.schedule
        events = list(dict.fromkeys(events))
        named = schedule.called(events[0])
        return Finding(
            kind, level, text, tuple(schedule.happening(e) for e in events), schedule.rank(events[0]),
            named.micro_batch, named.op, named.name, (named.source,) if named.source else (), suggestion,
            explains=explains,
        )  # fmt: skip

    def malformed(self) -> Iterator[Finding]:
        """Mistakes in the facts themselves."""
        events = len(self.schedule.named)
        for what, e in sorted(self.outcome.rows["malformed"])[:MOST]:
            about = f": {self.one(e)}" if 0 <= e < events else f" (number {e})"
            yield Finding("malformed", "error", f"the facts of this schedule have {what}{about}")

    def wrong_messages(self) -> Iterator[Finding]:
        """The first message of each channel that is not what the receiver wants: is one lost, or are two exchanged?"""
        said = {(s, r): (a, x, y) for s, r, a, x, y in reversed(self.outcome.ints("wrong_message"))}
        wrong = len({(s, r) for s, r, *_ in self.outcome.ints("wrong_message")})
        texts, said_by = self.schedule.texts, self.schedule.meaning
        for s, r in self.outcome.ints("first_wrong"):
            aspect, sent, wanted = said[s, r]
            events, why, edit = self.exchanged(s, r, said_by(sent), said_by(wanted))
            yield self.finding(
                "wrong-message",
                f"{self.one(s)} is received by {self.one(r)}: the {texts[aspect]} sent is {said_by(sent)}, "
                f"what is wanted is {said_by(wanted)}{why}",
                events, edit, explains=f"{wrong} messages do not fit" if wrong > 1 else None,
            )  # fmt: skip

    def exchanged(self, s: int, r: int, sent: str, wanted: str) -> tuple[list[int], str, str]:
        """What is behind a wrong message: events to look at, words, an edit of the side that is odd."""
        number = self.customs.channel_of[s]
        channel = self.customs.channels[number]
        here, there = f"rank {self.schedule.rank(s)}", f"rank {self.schedule.rank(r)}"
        never_sent, never_wanted = r in channel.lost("wanted"), s in channel.lost("sent")
        if never_sent and never_wanted:
            return [r, s], ", and neither is on the other side", f"let {self.name(s)} and {self.name(r)} mean the same"
        if never_sent:
            return [r, s], f", which {here} never sends", f"on {here}, send {wanted} before {self.name(s)}"
        if never_wanted:
            return [s, r], f"; {there} never receives {sent}", f"on {there}, receive {sent} before {self.name(r)}"
        late, other = channel.partner(r, "sent"), channel.partner(s, "wanted")
        if late is None or other is None:
            return [r, s], "", "post both sides of this channel in the same order"
        mine = f"on {here}, exchange {self.name(s)} and {self.name(late)}"
        theirs = f"on {there}, exchange {self.name(r)} and {self.name(other)}"
        odd: float = self.customs.disorder(channel.sent) - self.customs.disorder(channel.wanted)
        odd = odd or self.customs.oddness(s, late) - self.customs.oddness(r, other)
        edit = mine if odd > 0 else theirs if odd < 0 else f"{mine}; or {theirs}"
        events = [s, late, r, other] if odd > 0 else [r, other, s, late]
        return events, ", which comes in another order" if late != s else "", edit

    def mismatches(self) -> Iterator[Finding]:
        """Members of a collective that do not mean the same, the one that differs from most first."""
        said = {(e, f): (a, x, y) for e, f, a, x, y in reversed(self.outcome.ints("mismatch"))}
        texts, said_by = self.schedule.texts, self.schedule.meaning
        pairs = self.outcome.ints("first_mismatch")
        against = Counter(e for e, _ in pairs)
        members = Counter(g for g, _, _ in self.schedule.tuples("member"))
        of = {e: g for e, g, _, _ in self.schedule.tuples("collective")} if pairs else {}
        for e, f in pairs:
            aspect, x, y = said[e, f]
            odd, other = (e, f) if 2 * against[e] > members[of[e]] else (f, e)
            mine, theirs = (x, y) if odd == e else (y, x)
            who = f"on rank {self.schedule.rank(odd)}, " if members[of[e]] > 2 else ""
            yield self.finding(
                "mismatch",
                f"{self.one(odd)} meets {self.one(other)} in one collective: the {texts[aspect]} is {said_by(mine)} "
                f"here, {said_by(theirs)} there",
                [odd, other],
                f"{who}call the collectives of a group in the same order, and alike, as on its other ranks",
            )

    def unmatched(self) -> Iterator[Finding]:
        """Messages that nobody sends or receives: by what they carry, where that tells, else by their number."""
        first: dict[tuple[str, int], tuple[int, int, int]] = {}
        channel = self.customs.channel_of if self.outcome.rows["unmatched"] else {}
        for e, what, n in sorted(self.outcome.rows["unmatched"], key=lambda row: row[2]):
            begun = first.get((what, channel[e]), (e, n, 0))
            first[what, channel[e]] = (*begun[:2], begun[2] + 1)
        for (what, number), (e, n, count) in sorted(first.items(), key=lambda item: item[1]):
            other = "receives" if what == "send" else "sends"
            more = f" (and {count - 1} more on this channel)" if count > 1 else ""
            missing = "receive" if what == "send" else "send"
            lost = self.customs.channels[number].lost("sent" if what == "send" else "wanted")
            if lost:
                ends = next((s, t) for c, s, t in self.schedule.tuples("channel") if c == number)
                peer = f"rank {ends[1] if what == 'send' else ends[0]}"
                text = f"{self.one(lost[0])} has no partner: {peer} never {other} what it carries{more}"
                edit = f"on {peer}, add the {missing} of {self.name(lost[0])}, or drop this one"
                yield self.finding("unmatched", text, [lost[0], e], edit)
                continue
            yield self.finding(
                "unmatched",
                f"{self.one(e)} is number {n} of its channel, and the other side {other} only {n} messages{more}",
                [e],
                f"add the {missing} on the other side, or drop this one",
            )
        told = set()
        for e, g, n, m in sorted(self.outcome.ints("unmatched_member"), key=lambda row: row[2]):
            if g not in told:
                told.add(g)
                yield self.finding(
                    "unmatched",
                    f"{self.one(e)} is number {n} of its group's collectives, and member {m} calls only fewer",
                    [e],
                    "call it on all ranks of the group",
                )

    def deadlock(self) -> Iterator[Finding]:
        """The shortest circle of waits, else what waits for something that never comes."""
        stuck = f"{len(self.outcome.rows['head'])} chains do not end" if self.outcome.rows["head"] else None
        steps: dict[int, tuple[int, int, int, str]] = {}
        for n, _c, e, f, h, why in sorted(self.outcome.rows["circle"]):
            steps.setdefault(n, (e, f, h, why))
        if steps:
            events, parts, late = [], [], []
            for _, (e, f, h, why) in sorted(steps.items()):
                behind = "" if f == h else f", which comes after {self.schedule.called(h).name} there"
                words = {"receive": "wants to receive from", "send": "wants to send to", "collective": "needs in its "
                         "collective", "wait": "waits for"}[why]  # fmt: skip
                parts.append(f"{self.one(e)} {words} {self.one(f)}{behind}")
                events += [e, f]
                if f != h:
                    late.append((f, h))
            edit = None
            if late:
                late = [pair for pair in late if self.customs.may_move(*pair)] or late
                odd = {pair: self.customs.oddness(pair[1], pair[0]) for pair in late}
                most = max(odd.values())
                edits = [
                    f"on rank {self.schedule.rank(f)}, post {self.name(f)} before {self.name(h)}, or both in one group"
                    for f, h in late
                    if odd[f, h] == most
                ]
                edit = "; or ".join(edits[:3])
            yield self.finding("deadlock", "in a circle, " + "; ".join(parts), events, edit, explains=stuck)
        others = defaultdict(list)
        for _, e, _, _, h, _ in sorted(self.outcome.rows["blocked"]):
            others[h].append(e)
        fates = {"send": "is never received", "recv": "is never sent", "collective": "is not joined by all members"}
        for e, what in sorted(self.outcome.rows["root"]):
            victims = [x for x in others[e] if x != e]
            yield self.finding(
                "deadlock", f"{self.one(e)} waits for ever: it {fates[what]}", [e, *victims], explains=stuck
            )

    def races(self) -> Iterator[Finding]:
        """Two events on the same bytes without an order."""
        how: dict[tuple[int, int], tuple[int, str, str]] = {}
        for e, f, b, m, n in sorted(self.outcome.rows["race_bytes"]):
            how.setdefault((e, f), (b, m, n))
        decided = set(self.outcome.ints("race"))
        for e, f in sorted(decided | set(self.outcome.ints("undecided")), key=lambda pair: (pair not in decided, pair)):
            _, m, n = how[e, f]
            text = f"{self.one(e)} {m} bytes that {self.one(f)} {n}, and nothing orders the two"
            if (e, f) not in decided:
                text += " on this rank (whether messages do was not looked at)"
            yield self.finding(
                "race", text, [e, f], f"let {self.schedule.called(f).name} wait for {self.schedule.called(e).name}, "
                "or the other way round", "error" if (e, f) in decided else "undecided",
            )  # fmt: skip

    def unread(self) -> Iterator[Finding]:
        """Reads of what nobody has written."""
        buffers: dict[int, int] = {}
        for e, b in self.outcome.ints("unread"):
            buffers.setdefault(e, b)
        wanted, fills = set(buffers.values()), defaultdict[int, list[int]](list)
        for table in ("writes", "takes", "adds") if wanted else ():
            for e, b, *_ in self.schedule.tuples(table):
                if b in wanted:
                    fills[b].append(e)
        for e, b in buffers.items():
            late = next((f for f in fills[b] if f != e and self.schedule.rank(f) == self.schedule.rank(e)), None)
            made = self.name(late) if late is not None else self.schedule.maker(b)
            what = f"what {made} would leave, and nothing" if made else "what nothing"
            yield self.finding(
                "unread", f"{self.one(e)} reads {what} before it has written",
                [e] if late is None else [e, late],
                f"put {made or 'what makes its input'} before it, and let it wait for that",
            )  # fmt: skip

    def overwritten(self) -> Iterator[Finding]:
        """Reads of a parameter's contents behind the write of the output that lies in its bytes."""
        for f, e in self.outcome.ints("overwritten"):
            yield self.finding(
                "overwritten",
                f"{self.one(f)} reads a parameter, and {self.one(e)} has written the output that aliases it there",
                [f, e], f"put {self.schedule.called(f).name} first, or copy the parameter",
            )  # fmt: skip

    def too_early(self) -> Iterator[Finding]:
        """Reducers before the last accumulation."""
        late: dict[int, list[int]] = {}
        for e, f, _ in self.outcome.ints("too_early"):
            late.setdefault(e, []).append(f)
        for e, after in late.items():
            yield self.finding(
                "too-early", f"{self.one(e)} reduces what {self.one(after[-1])} accumulates into later",
                [e, after[-1], *after[:-1]], f"move {self.schedule.called(e).name} behind the last accumulation",
                explains=f"{len(after)} accumulations come too late" if len(after) > 1 else None,
            )  # fmt: skip

    def orphans(self) -> Iterator[Finding]:
        """Asynchronous operations that nobody waits for."""
        for (e,) in self.outcome.ints("orphan"):
            yield self.finding(
                "orphan", f"nothing on its rank waits for {self.one(e)}", [e], "wait for it before its buffer is used"
            )
