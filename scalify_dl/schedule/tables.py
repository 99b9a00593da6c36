"""The tables of a schedule in memory (docs/facts.md, "Tables of a schedule"), and what people call its events."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from scalify_dl.finding import Happening
from scalify_dl.pysouffle import Program

WIDTHS = {
    "event": 3, "wait": 3, "issue": 2, "last": 2, "channel": 3, "send": 3, "recv": 3, "member": 3, "collective": 4,
    "carries": 3, "initial": 3, "reads": 4, "writes": 4, "adds": 4, "takes": 4, "wants": 2, "replaces": 2,
    "duration": 2, "holds_memory": 3,
}  # fmt: skip
"""Columns of the tables that hold numbers only."""
ORDER = ("event", "wait", "issue", "last", "channel", "send", "recv", "member", "collective")
"""Those that say who waits for whom."""
ACTIVATIONS, BYTES = 0, 1
"""Units of `holds_memory`."""

APART = "what is in flight goes on independently of all else (--streams rank: on one queue)"
"""Assumed where ranks run programs of their own, and have several queues."""


class Named(NamedTuple):
    """What people call an event: `1SEND_F3`, of kind `SEND_F`, micro-batch 3, on a line of a file (0: unknown)."""

    name: str
    op: str
    micro_batch: int | None = None
    file: str = ""
    line: int = 0
    cell: int = 0
    """Which cell of the line, from 1."""

    @property
    def source(self) -> str:
        """`file:line:cell`, as far as known."""
        return ":".join([self.file, *(str(n) for n in (self.line, self.cell) if n)]) if self.file else ""


def _itself(named: Any) -> Named:
    assert isinstance(named, Named)
    return named


def ordinals(keys: Any) -> Any:
    """How many equal keys stand before each."""
    import numpy as np

    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]]) if len(keys) else np.zeros(0, bool)
    starts = np.flatnonzero(new)
    places = np.empty(len(keys), np.int64)
    places[order] = np.arange(len(keys)) - np.repeat(starts, np.diff(np.append(starts, len(keys))))
    return places


class Schedule:
    """Tables that grow row by row. Ids of events, chains, channels and buffers count from 0."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.rows = {table: array("q") for table in WIDTHS}
        self.chains: list[tuple[int, int, str]] = []
        self.lengths: list[int] = []
        self.named: Any = []
        self.namer: Callable[[Any], Named] = _itself
        self.meaning: Callable[[int], str] = self.texts_at
        self.maker: Callable[[int], str] = lambda buffer: ""
        self.chain_of = array("q")
        self.assumptions: list[str] = []
        self._numbers: dict[str, int] = {}
        self._buffers = 0

    def chain(self, rank: int, kind: str) -> int:
        """A new chain of a rank: `compute`, or the name of a stream."""
        self.chains.append((len(self.chains), rank, kind))
        self.lengths.append(0)
        return len(self.chains) - 1

    def event(self, chain: int, named: Any) -> int:
        """A new event at the end of a chain; `named` is a name, or what `namer` makes one of."""
        e = len(self.named)
        self.rows["event"].extend((e, chain, self.lengths[chain]))
        self.lengths[chain] += 1
        self.named.append(named)
        self.chain_of.append(chain)
        return e

    def events(self, chains: Any, ranks: Any, kinds: Callable[[int], str]) -> None:
        """Events all at once, in the order of every chain: chains are any numbers, by event, each of one rank. `kinds`
        says what a chain is, by the first of its events. `namer` is given the number of an event."""
        import numpy as np

        _, first, chain = np.unique(chains, return_index=True, return_inverse=True)
        self.chains = [(c, int(ranks[e]), kinds(e)) for c, e in enumerate(first.tolist())]
        places = ordinals(chain)
        self.lengths = np.bincount(chain).tolist()
        self.named = range(len(chain))
        self.chain_of = array("q", chain.astype(np.int64).tobytes())
        self.extend("event", np.arange(len(chain)), chain, places)

    def extend(self, table: str, *columns: Any) -> None:
        """Many rows of a table of numbers, by column; a single number stands for all rows."""
        import numpy as np

        rows = np.stack(np.broadcast_arrays(*(np.asarray(c, np.int64) for c in columns)), axis=-1)
        self.rows[table].frombytes(rows.tobytes())

    def add(self, table: str, *row: int) -> None:
        """One row of a table of numbers."""
        self.rows[table].extend(row)

    def waits(self, e: int, *for_them: int) -> None:
        """All that an event waits for: once an event."""
        for k, d in enumerate(for_them):
            self.rows["wait"].extend((e, k, d))

    def buffer(self) -> int:
        """A new buffer."""
        self._buffers += 1
        return self._buffers - 1

    def text(self, text: str) -> int:
        """The number of a text, for `carries`."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return number

    def carries(self, e: int, aspect: str, what: str) -> None:
        """What a message or collective carries: its payload, shape, dtype, kind, reducer."""
        self.rows["carries"].extend((e, self.text(aspect), self.text(what)))

    def rank(self, e: int) -> int:
        """The rank of an event."""
        return self.chains[self.chain_of[e]][1]

    def called(self, e: int) -> Named:
        """What people call an event."""
        return self.namer(self.named[e])

    def texts_at(self, number: int) -> str:
        """A text by its number."""
        return self.texts[number]

    def happening(self, e: int) -> Happening:
        """An event as reports quote it."""
        named = self.called(e)
        return Happening(self.rank(e), named.name, named.source)

    @property
    def ranks(self) -> list[int]:
        """All ranks that have a chain."""
        return sorted({rank for _, rank, _ in self.chains})

    def tuples(self, table: str) -> Iterable[tuple[int, ...]]:
        """The rows of a table of numbers."""
        flat, width = self.rows[table], WIDTHS[table]
        return zip(*(flat[k::width] for k in range(width)), strict=True)

    def insert(self, program: Program, tables: Iterable[str] = tuple(WIDTHS)) -> None:
        """Put all rows of some tables into a program."""
        program.insert("chain", self.chains)
        numpy = sys.modules.get("numpy")  # where nothing else needs it, to load it takes longer than most tables
        for table in tables:
            if not self.rows[table]:
                continue
            if numpy is None:
                program.insert(table, self.tuples(table))
            else:
                rows = numpy.frombuffer(self.rows[table], dtype=numpy.int64)
                program.insert(table, rows.reshape(-1, WIDTHS[table]))
