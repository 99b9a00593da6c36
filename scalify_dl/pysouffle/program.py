"""`Program`: Datalog from Python."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.atoms import parse_atom
from scalify_dl.pysouffle.directives import Directive
from scalify_dl.pysouffle.embedded import EmbeddedEngine
from scalify_dl.pysouffle.errors import Diagnostic
from scalify_dl.pysouffle.schema import Relation, Relations, Rule
from scalify_dl.pysouffle.values import Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas

    from scalify_dl.pysouffle.proofs import Derivation, Proof, WhyNot
    from scalify_dl.pysouffle.stats import Stats
    from scalify_dl.pysouffle.symbolic import Condition, Symbol


@contextmanager
def _bad_rows(relation: str) -> Iterator[None]:
    """A row whose values do not fit the relation's types is bad input."""
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a row of relation {relation}: {error}") from None


_MOST = 2**62
"""Of what a guard counts: no run gets there."""


class Program:
    """A Datalog program with its relations.

    Facts come from `insert` and `load`, `run` derives everything that follows, `relation` gives rows. More facts may be
    inserted after a run; the next `run` then gives what a fresh run on all facts would give, reusing what it can.

    Engines: "embedded" (default, part of this package), "souffle" (the executable on PATH, interpreted) and
    "souffle-compiled" (its compiler; the binary is cached by program). All give the same results through the same API.
    """

    def __init__(
        self,
        name: str,
        text: str,
        *,
        engine: str = "embedded",
        include_dirs: Sequence[str | Path] = (),
        defines: Mapping[str, str] | None = None,
        word_size: int | None = None,
        overflow: str = "wrap",
        provenance: bool = False,
        symbols: Sequence[Symbol] = (),
        kept: Path | None = None,
    ) -> None:
        if word_size not in (None, 32, 64):
            raise ValueError(f"word_size is 32 or 64, not {word_size}")
        if overflow not in ("wrap", "error"):
            raise ValueError(f'overflow is "wrap" or "error", not {overflow!r}')
        self._takes_symbols = engine == "embedded" and word_size != 32 and overflow == "wrap"
        self._check_symbols(symbols)
        folders, macros = [str(d) for d in include_dirs], defines or {}
        self._provenance = provenance
        self._declared: Relations | None = None
        self._engine: EmbeddedEngine
        if engine == "embedded":
            bits, checked = word_size or 64, overflow == "error"
            self._engine = EmbeddedEngine(name, text, folders, macros, bits, checked, symbols, kept)
        elif engine in ("souffle", "souffle-compiled"):
            if overflow == "error":
                raise InputError("checked arithmetic needs the embedded engine", hint='use engine="embedded"')
            from scalify_dl.pysouffle.souffle import SouffleEngine

            compiled = engine == "souffle-compiled"
            self._engine = SouffleEngine(name, text, folders, macros, word_size, compiled=compiled)
        else:
            raise InputError(f'unknown engine "{engine}"', hint='use "embedded", "souffle" or "souffle-compiled"')

    @classmethod
    def from_file(cls, path: str | Path, **options: Any) -> Program:
        """A program from a `.dl` file. Options as for `from_source`."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise InputError(f"cannot read the program: {error.strerror or error}", file=path) from None
        return cls(str(path), data.decode("utf-8", "surrogateescape"), **options)

    @classmethod
    def from_source(cls, text: str, *, name: str = "<program>", **options: Any) -> Program:
        """A program from its text.

        `engine`: see the class. `include_dirs`: where `#include` looks besides the program's folder. `defines`: macros.
        `word_size`: 64, or 32 for numbers as in a 32-bit Soufflé; the Soufflé engines have what they were built with.
        `overflow`: "wrap", as Soufflé does, or "error", which ends the run naming the rule.
        `provenance`: prepare explanations at the end of each run, not at the first question.
        `symbols`: unknowns that numbers may be formulas over (`scalify_dl.pysouffle.symbolic`); embedded engine only.
        `kept`: a file for the compiled program, which is read where it is that of this text, and written where not;
        as trusted as the rules beside it. Embedded engine only.
        """
        return cls(name, text, **options)

    def fresh(self, *, symbols: Sequence[Symbol] = ()) -> Program:
        """The same program without facts and functors, not parsed again; `symbols` as for `from_source`."""
        self._check_symbols(symbols)
        again = copy(self)
        again._engine = self._engine.fresh(symbols)
        return again

    def _check_symbols(self, symbols: Sequence[Symbol]) -> None:
        if symbols and not self._takes_symbols:
            raise InputError(
                "symbols need the embedded engine with 64-bit numbers",
                hint="leave out engine=, word_size= and overflow=: formulas are exact in any case",
            )

    # ---- what the program declares

    @property
    def relations(self) -> Relations:
        """The declared relations by qualified name."""
        if self._declared is None:  # names that begin with '@' are the engine's own
            self._declared = self._engine.relations.named(lambda name: name[0] != "@")
        return self._declared

    @property
    def directives(self) -> list[Directive]:
        """Its `.input`, `.output`, `.printsize` and `.limitsize`."""
        return self._engine.directives

    @property
    def rules(self) -> list[Rule]:
        """All rules and facts of the program, but for those of inlined relations."""
        return self._engine.rules

    @property
    def warnings(self) -> list[Diagnostic]:
        """Of the program, and of the runs so far."""
        return self._engine.warnings

    def _relation(self, name: str) -> Relation:
        found = self._engine.relations.get(name)
        if found is None:
            import difflib

            near = difflib.get_close_matches(name, self._engine.relations, 1)
            raise InputError(
                f'the program declares no relation "{name}"', hint=f'did you mean "{near[0]}"?' if near else None
            )
        return found

    # ---- facts

    def insert(self, relation: str, rows: Iterable[Row]) -> Program:
        """Add facts, all or none: tuples with a value per column, or an int array where all columns are numbers."""
        declared = self._relation(relation)
        with _bad_rows(relation):
            self._engine.insert(declared, rows)
        return self

    def load(self, directory: str | Path, *, missing: str = "error") -> Program:
        """Read the facts of every `.input` relation from a folder (`<relation>.facts` unless the directive has a name).

        `missing="empty"` takes a file that does not exist for an empty one.
        """
        self._engine.load(Path(directory), missing)
        return self

    def functor(self, name: str, function: Callable[..., Any]) -> Program:
        """Provide a `.functor` of the program: called with values of the declared types, must return one."""
        self._engine.functor(name, function)
        return self

    # ---- running

    def run(
        self, *, timeout: float | None = None, max_tuples: int | None = None, max_memory: int | None = None
    ) -> Program:
        """Derive everything. Guards: seconds, rows of all relations together, bytes; beyond them: `EvaluationError`.

        The GIL is released; Ctrl-C works. After an error the next run starts again from the facts.
        """
        guards = timeout or 0.0, min(max_tuples or 0, _MOST), min(max_memory or 0, _MOST)
        self._engine.run(*guards)
        if self._provenance:
            self._engine.prepare_provenance(*guards)
        return self

    # ---- explanations

    def holds(self, relation: str, row: Row) -> bool:
        """Is this tuple in the relation?"""
        with _bad_rows(relation):
            return self._engine.contains(self._relation(relation), row)

    def explain(self, relation: str, row: Row) -> Proof | None:
        """A proof of least height that the tuple holds, down to facts; None if it does not hold.

        The first question after a run takes about as long as the run did, unless `provenance=True` was given.
        """
        with _bad_rows(relation):
            return self._engine.explain(self._relation(relation), [row])[0]

    def explain_all(self, relation: str, rows: Iterable[Row]) -> list[Proof | None]:
        """`explain` for many rows of a relation: faster than one by one, and what proofs share is one object."""
        with _bad_rows(relation):
            return self._engine.explain(self._relation(relation), rows)

    def derivation(self, rows: Mapping[str, Iterable[Row]], leaves: Iterable[str] = ()) -> Derivation:
        """One proof of all these rows, given by relation, as the run found it: not of least height, but at once and in
        a fraction of the run's time. Premises in the relations `leaves` are left out. Embedded engine only.
        """
        wanted = {self._relation(name).index: list(given) for name, given in rows.items()}
        with _bad_rows(", ".join(rows)):
            return self._engine.derivation(wanted, [self._relation(name).index for name in leaves])

    def why_not(self, relation: str, row: Row) -> WhyNot:
        """For each rule that could derive the tuple: the first literal that fails, and the rows nearest to it."""
        from scalify_dl.pysouffle.proofs import WhyNot

        with _bad_rows(relation):
            return WhyNot(relation, tuple(row), self._engine.why_not(self._relation(relation), row))

    def explain_atom(self, atom: str) -> Proof | WhyNot:
        """`explain` for an atom as text, as in `path("a", "b")`; if it does not hold, why not."""
        relation, row = parse_atom(atom, self.relations)
        return self.explain(relation.name, row) or self.why_not(relation.name, row)

    def why_not_atom(self, atom: str) -> Proof | WhyNot:
        """`why_not` for an atom as text; if it does hold, its proof."""
        return self.explain_atom(atom)

    def conditions(self, rows: Mapping[str, Iterable[Row]]) -> list[Condition]:
        """What one proof of these rows, given by relation, rests on: where all hold, the rows' instances are derived.

        Only for programs with `symbols`; empty when the proof holds for all values the symbols may have. A row that
        does not hold is an `InputError`; so is a proof that rests on what choice or subsumption left out.
        """
        wanted = {name: list(given) for name, given in rows.items()}
        with _bad_rows(", ".join(wanted)):
            return self._engine.conditions({self._relation(name).index: given for name, given in wanted.items()})

    # ---- results

    def relation(self, name: str) -> list[Row]:
        """The rows as tuples, in no particular order."""
        return self._engine.rows(self._relation(name))

    def size(self, name: str) -> int:
        """The number of rows."""
        return self._engine.size(self._relation(name))

    def array(self, name: str) -> npt.NDArray[np.int64]:
        """The rows as a read-only int64 array of shape (rows, columns), without a copy.

        Symbols and records appear by identity, `unsigned` and `float` by their bits. The array stays as it is when the
        program runs on.
        """
        return self._engine.array(self._relation(name))

    def columns(self, name: str) -> dict[str, npt.NDArray[Any]]:
        """The columns by name, each in the dtype of its type, without a copy (symbols and records by identity)."""
        declared = self._relation(name)
        array = self.array(name)
        dtypes = {"unsigned": "uint64", "float": "float64"}
        return {a.name: array[:, i].view(dtypes.get(a.kind, "int64")) for i, a in enumerate(declared.attributes)}

    def frame(self, name: str) -> pandas.DataFrame:
        """The rows as a pandas DataFrame, symbols as texts; InputError where pandas is not installed."""
        from scalify_dl.pysouffle.frames import frame

        return frame([a.name for a in self._relation(name).attributes], self.relation(name))

    def symbol(self, identity: int) -> str:
        """The text of a symbol that `array` or `columns` shows by identity."""
        return self._engine.symbol(identity)

    def write(self, directory: str | Path | None, *, out: BinaryIO | None = None) -> None:
        """Obey `.output` and `.printsize`: files in `directory`, or all to `out` (standard output) when it is None."""
        from scalify_dl.pysouffle.output import write

        write(self._engine, None if directory is None else Path(directory), out or sys.stdout.buffer)

    def stats(self) -> Stats:
        """Tuples, rounds, memory, and time per rule."""
        return self._engine.stats()

    @property
    def total_tuples(self) -> int:
        """The number of rows of all relations."""
        return self._engine.total_tuples()
