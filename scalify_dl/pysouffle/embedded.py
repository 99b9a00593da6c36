"""The embedded engine behind `Program`: facts in, rules to their fixpoint, rows out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.pysouffle import _engine
from scalify_dl.pysouffle.directives import Directive, Format
from scalify_dl.pysouffle.errors import Diagnostic
from scalify_dl.pysouffle.schema import Relation, Relations, Rule
from scalify_dl.pysouffle.values import Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from scalify_dl.pysouffle.proofs import Derivation, Obstacle, Proof
    from scalify_dl.pysouffle.stats import Stats
    from scalify_dl.pysouffle.symbolic import Condition, Symbol


class EmbeddedEngine:
    """One program in the C++ engine."""

    def __init__(
        self,
        name: str,
        text: str,
        include_dirs: list[str],
        defines: Mapping[str, str],
        word_size: int,
        checked: bool,
        symbols: Sequence[Symbol] = (),
        kept: Path | None = None,
    ) -> None:
        data = text.encode("utf-8", "surrogateescape")  # what is not UTF-8 gets its message from the engine
        self.word_size = word_size
        file = "" if kept is None else str(kept)
        self.session = _engine.Session(
            name, data, include_dirs, list(defines.items()), word_size, checked, _declared(symbols), file, True
        )
        self.symbolic = bool(symbols)
        self.relations = Relations(self.session.relations())
        by_index = list(self.relations)
        self.directives = [
            Directive(kind, r, by_index[r], p, file, line, column)
            for kind, r, p, file, line, column in self.session.directives()
        ]
        self.unknown: list[Diagnostic] = []
        for directive in self.directives:
            directive.check()
            self.unknown += directive.unknown()

    def fresh(self, symbols: Sequence[Symbol] = ()) -> EmbeddedEngine:
        """The same program, not parsed again, without facts and functors."""
        again = copy(self)  # what it declares stays the same
        again.session = self.session.fresh(_declared(symbols))
        again.symbolic = bool(symbols)
        return again

    @property
    def warnings(self) -> list[Diagnostic]:
        return [*self.unknown, *(Diagnostic(*w) for w in self.session.warnings())]

    @property
    def rules(self) -> list[Rule]:
        names = list(self.relations)
        return [Rule(names[relation], text, file, line) for relation, text, file, line in self.session.rules()]

    # ---- facts

    def insert(self, relation: Relation, rows: Iterable[Row]) -> int:
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(rows, numpy.ndarray):
            if not all(a.kind == "number" for a in relation.attributes):
                raise TypeError(
                    f"an array can be inserted only where all columns are numbers; relation {relation.name} has others"
                )
            if rows.ndim != 2 or rows.shape[1] != len(relation.attributes) or rows.dtype.kind not in "iu":
                raise TypeError(
                    f"expected an int array of shape (rows, {len(relation.attributes)}), got {rows.dtype} {rows.shape}"
                )
            return int(self.session.insert_array(relation.index, numpy.ascontiguousarray(rows, dtype=numpy.int64)))
        return int(self.session.insert(relation.index, rows))

    def load(self, folder: Path, missing: str) -> int:
        """Read every `.input` relation. Returns the number of rows read."""
        total = 0
        for directive in self.directives:
            if directive.kind == "input":
                total += self._read(directive, folder, missing)
        return total

    def _read(self, directive: Directive, folder: Path, missing: str) -> int:
        arity = len(self.relations[directive.name].attributes)
        form = directive.format(arity)
        if directive.io == "stdin":
            return self._read_bytes(directive.relation, sys.stdin.buffer.read(), "<stdin>", form)
        if directive.io == "sqlite":
            from scalify_dl.pysouffle import sqlite

            return self.insert(
                self.relations[directive.name],
                sqlite.read(directive.database_path(folder), directive.table, self.relations[directive.name]),
            )
        if directive.io == "json":
            return self._read_json(self.relations[directive.name], sys.stdin.buffer.read(), "<stdin>")
        path = directive.input_path(folder)
        if missing == "empty" and not path.exists():
            return 0
        if directive.io == "jsonfile":
            try:
                data = path.read_bytes()
            except OSError as error:
                why = error.strerror or error
                raise InputError(f"cannot read the facts of relation {directive.name}: {why}", file=path) from None
            return self._read_json(self.relations[directive.name], data, str(path))
        said = path.suffix == ".gz" or "compress" in directive.parameters
        if said or _zipped(path):
            import gzip
            import zlib

            try:
                with gzip.open(path, "rb") as stream:
                    return self._read_bytes(directive.relation, stream.read(), str(path), form)
            except (OSError, EOFError, zlib.error) as error:
                if said:
                    why = f"cannot read the facts of relation {directive.name}: {error}"
                    raise InputError(why, file=path) from None
        return int(
            self.session.read_file(
                directive.relation, str(path), form.delimiter, form.headers, form.rfc4180, list(form.columns)
            )
        )

    def _read_json(self, relation: Relation, data: bytes, name: str) -> int:
        from scalify_dl.pysouffle import json_rows

        try:
            return self.insert(relation, json_rows.read(relation, data, name, self.session.records()))
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"a row of relation {relation.name}: {error}", file=name) from None

    def _read_bytes(self, relation: int, data: bytes, name: str, form: Format) -> int:
        return int(
            self.session.read_text(relation, data, name, form.delimiter, form.headers, form.rfc4180, list(form.columns))
        )

    def functor(self, name: str, function: Callable[..., Any]) -> None:
        self.session.set_functor(name, function)

    # ---- running

    def run(self, timeout: float, max_tuples: int, max_memory: int) -> None:
        self.session.run(timeout, max_tuples, max_memory)

    # ---- explanations

    def prepare_provenance(self, timeout: float, max_tuples: int, max_memory: int) -> None:
        self.session.prepare_provenance(timeout, max_tuples, max_memory)

    def explain(self, relation: Relation, rows: Iterable[Row]) -> list[Proof | None]:
        from scalify_dl.pysouffle.proofs import build_proofs

        self.prepare_provenance(0, 0, 0)
        nodes, roots = self.session.explain(relation.index, rows)
        proofs = build_proofs(nodes, list(self.relations), self.session.rules())
        return [proofs[root] if root >= 0 else None for root in roots]

    def derivation(self, rows: Mapping[int, list[Row]], leaves: list[int]) -> Derivation:
        from scalify_dl.pysouffle.proofs import Derivation

        values, variables, steps = self.session.derivation(list(rows.items()), leaves)
        names = list(self.relations)
        rules = self.session.rules()
        return Derivation(
            values,
            [(names[relation], rule, premises, items) for relation, rule, premises, items in steps],
            {n: (names[rules[n][0]], *rules[n][2:], own) for n, own in variables.items()},
        )

    def contains(self, relation: Relation, row: Row) -> bool:
        return bool(self.session.contains(relation.index, row))

    def why_not(self, relation: Relation, row: Row) -> list[Obstacle]:
        from scalify_dl.pysouffle.proofs import build_obstacles

        return build_obstacles(self.session.why_not(relation.index, row), list(self.relations), self.session.rules())

    def conditions(self, rows: Mapping[int, list[Row]]) -> list[Condition]:
        if not self.symbolic:
            return []
        from scalify_dl.pysouffle.symbolic import Condition

        self.prepare_provenance(0, 0, 0)
        return [Condition(*c) for c in self.session.conditions(list(rows.items()))]

    # ---- results

    def rows(self, relation: Relation) -> list[Row]:
        rows: list[Row] = self.session.rows(relation.index)
        return rows

    def array(self, relation: Relation) -> npt.NDArray[np.int64]:
        array: npt.NDArray[np.int64] = self.session.array(relation.index)
        return array

    def symbol(self, identity: int) -> str:
        return self.session.symbol(identity)

    def size(self, relation: Relation) -> int:
        return int(self.session.size(relation.index))

    def text(self, relation: Relation, form: Format) -> bytes:
        text: bytes = self.session.write_text(relation.index, form.delimiter, form.headers, form.rfc4180)
        return text

    def write(self, relation: Relation, path: Path, form: Format) -> None:
        self.session.write_file(relation.index, str(path), form.delimiter, form.headers, form.rfc4180)

    def total_tuples(self) -> int:
        return sum(map(self.session.size, range(len(self.relations))))

    def stats(self) -> Stats:
        from scalify_dl.pysouffle.stats import RuleProfile, Stats

        names = list(self.relations)
        rules = [
            RuleProfile(names[r], text, file, line, runs, derived, new, s)
            for r, text, file, line, runs, derived, new, s in self.session.rule_statistics()
        ]
        return Stats(
            {name: self.size(r) for name, r in self.relations.items()},
            int(self.session.rounds()),
            int(self.session.bytes()),
            rules,
        )


def _declared(symbols: Sequence[Symbol]) -> list[tuple[str, int, int, str]]:
    return [(s.name, s.value, s.minimum, s.below or "") for s in symbols]


def _zipped(path: Path) -> bool:
    """Whether a file begins as gzip's do, whatever its name."""
    try:
        if not path.is_file():  # what is read from a pipe is gone
            return False
        with path.open("rb") as stream:
            return stream.read(2) == b"\x1f\x8b"
    except OSError:  # whoever reads it says so
        return False
