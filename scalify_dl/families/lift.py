"""From captures of one pair of programs at several sizes to a family: the captures are aligned (`align`), and every
number becomes the simplest formula of the symbols that gives what each capture has (`fit`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.facts.coordinates import Ranks
from scalify_dl.facts.model import Facts, Row
from scalify_dl.facts.schema import TABLES
from scalify_dl.ir.expression import Expression, over
from scalify_dl.ir.layout import Digit, Layout, Pending, parse_piece

from .align import Aligned, NoSymbolicForm
from .family import Entry, Family, LayoutFormula, PieceFormula, RankFormula, SizeSymbol
from .fit import Ambiguous, NoFormula, indistinct
from .several import Several
from .unify import Cell

PLAIN = ("operand", "result", "tensor", "dim", "attr_symbol", "input", "output", "region", "range", "literal_hash",
         "rounding")
"""Tables whose rows are compared as they stand, numbers outside the key fitted."""
SHOWN = ("source", "layer", "tensor_name", "output_name", "placement_note", "assume", "meta")
"""Tables for people, taken from the first capture."""
IDS = ("partition-id", "replica-id")


HINT = (
    "choose sizes at which symbols grow by different prime factors (tp 2 to 4, batch 2 to 6, seq 4 to 20),"
    " or add a third capture"
)


def lift(
    captures: Sequence[Facts],
    points: Sequence[Mapping[str, int]],
    symbols: Sequence[SizeSymbol],
    places: Mapping[str, str | None] | None = None,
) -> Family:
    """The family of these captures; `points` has the values of the symbols in each, `places` where a symbol is.

    InputError where the captures are not the same program, or a number fits no formula or several.
    """
    pairs = indistinct(points)
    if pairs:
        raise InputError(f"the captures do not tell {pairs[0][0]} from {pairs[0][1]}", hint=HINT)
    same = [s.name for s in symbols if len({point[s.name] for point in points}) == 1]
    if same:
        raise InputError(f"{same[0]} is the same in every capture", expected="captures at different sizes", hint=HINT)
    read: list[Several] = []
    lifting = Lifting(captures, points, symbols, lambda cell, values: read[0].read(cell, values))
    read.append(Several(lifting, points, symbols, places or {}))
    for _, rows in lifting.keyed("dim", (0, 1)):  # products first: sums are made of those that occur
        with suppress(Ambiguous):  # told where it is needed
            read[0].fitter.product([row[2] for row in rows])
    family = lifting.family()
    family.choices = read[0].choices()
    return family


class Lifting(Aligned):
    """Makes the family of some captures; `read` is the formula of a number, from what it is (docs of `unify.Cell`) and
    its values in the captures."""

    def __init__(
        self,
        captures: Sequence[Facts],
        points: Sequence[Mapping[str, int]],
        symbols: Sequence[SizeSymbol],
        read: Callable[[Cell, Sequence[int | Fraction]], Expression],
    ) -> None:
        super().__init__(captures)
        self.points = points
        self.symbols = list(symbols)
        self._read = read
        self.axes = [axis for axis, _, _ in sorted(captures[0]["mesh_axis"], key=lambda row: row[1])]
        self.symbolic = [axis for axis in self.axes if any(s.axis and s.name == axis for s in symbols)]
        self.fixed = [axis for axis in self.axes if axis not in self.symbolic]
        self.ranks = [Ranks(rows("rank_coord"), self.axes) for rows in self.rows]

    # ---- numbers ----

    def fit(self, cell: Cell, values: Sequence[int | Fraction], what: str, op: str = "") -> Expression:
        """The formula of a number."""
        try:
            return self._read(cell, values)
        except Ambiguous as error:
            message = f"{what}: {error}: the captures do not tell"
            raise self.error(op, message, hint=HINT) from None
        except NoFormula as error:
            raise self.error(
                op,
                f"{what} is {error} at the sizes of the captures: no formula of {', '.join(self.points[0])} fits",
                expected="a product or quotient of sizes, such a one plus a number, or the sum of two",
            ) from None

    def family(self) -> Family:
        """The family."""
        first = self.captures[0]
        programs = {graph for graph, _ in first["runs"]}
        if len(programs) > 1 or any(first.tables.get(table) for table in ("issue", "send")):
            raise NoSymbolicForm("programs that differ between ranks have no symbolic form yet")
        family = Family(self.symbols, self._mesh(), captures=len(self.captures))
        for table in PLAIN:
            family.tables[table] = list(self._plain(table, family))
        for table in SHOWN:
            family.tables[table] = list(first[table])
        family.tables["graph"] = list(first["graph"])
        family.tables["op"] = [(op, g, "constant" if kind in IDS else kind) for op, g, kind in first["op"]]
        self._attributes(family)
        self._groups(family)
        self._permutes(family)
        self._literals(family)
        self._shards(family)
        return family

    def _mesh(self) -> list[tuple[str, Expression]]:
        sizes = []
        for (axis, _), rows in self.keyed("mesh_axis", (0, 1)):
            values = [row[2] for row in rows]
            if axis in self.symbolic:
                sizes.append((axis, Expression.symbol(axis)))
            elif len(set(values)) > 1:
                raise InputError(f"mesh axis {axis} has sizes {values} and is no symbol", hint=f"--symbolic {axis},…")
            else:
                sizes.append((axis, Expression.number(values[0])))
        return sorted(sizes, key=lambda pair: self.axes.index(pair[0]))

    def _plain(self, table: str, family: Family) -> Iterator[tuple[Any, ...]]:
        columns = TABLES[table].columns
        numbers = [i for i, c in enumerate(columns) if c.number and not c.key]
        ignored = {"range": {3}}.get(table, set())
        keyed = [i for i, c in enumerate(columns) if i not in numbers and i not in ignored]
        for _, rows in self.keyed(table, keyed):
            row = list(rows[0])
            for i in numbers:
                values = [other[i] for other in rows]
                if table == "tensor":
                    if len(set(values)) > 1:
                        raise InputError(f"{self.name(row[0])} has {values} dims")
                    continue
                what = f"dim {row[1]} of {self.name(row[0])}" if table == "dim" else f"{table} of {self.name(row[0])}"
                row[i] = self.fit((table, row[0], row[1] if table == "dim" else i), values, what)
                (family.sizes if table == "dim" else family.integers).add(row[i])
            yield tuple(row)

    def _attributes(self, family: Family) -> None:
        """Attributes, by rank where they depend on it; and ids of ranks, which do."""
        found: list[dict[tuple[str, str, int], dict[int, int]]] = []
        for rows, ranks in zip(self.rows, self.ranks, strict=True):
            values: dict[tuple[str, str, int], dict[int, int]] = {}
            for op, key, position, value in rows("attr_number"):
                values[op, key, position] = {rank: value for rank in ranks.all}  # noqa: C420
            for op, key, position, rank, value in rows("rank_number"):
                values.setdefault((op, key, position), {})[rank] = value
            for op, kind in self.kinds.items():
                if kind in IDS:
                    values[op, "value", 0] = {rank: rank for rank in ranks.all}
            found.append(values)
        family.tables["attr_number"] = []
        for number, other in enumerate(found[1:], 2):
            if odd := sorted(other.keys() ^ found[0].keys()):
                op, key, position = odd[0]
                raise self.error(
                    op,
                    f"{self.name(op)}: {key} {position} is in one of captures 1 and {number} only",
                    expected="the same program at other sizes",
                )
        for op, key, position in found[0]:
            seen = [capture[op, key, position] for capture in found]
            what = f"{key} {position} of {self.name(op)}"
            if all(len(set(by_rank.values())) == 1 for by_rank in seen):
                alike = [next(iter(by_rank.values())) for by_rank in seen]
                formula = self.fit(("attr", op, key, position), alike, what, op)
                family.tables["attr_number"].append((op, key, position, formula))
                family.integers.add(formula)
            else:
                family.rank_numbers[op, key, position] = self._by_rank(seen, what, (op, key, position), family)

    def _by_rank(
        self, values: list[dict[int, int]], what: str, number: tuple[str, str, int], family: Family
    ) -> RankFormula:
        op = number[0]
        places: dict[tuple[int, ...], tuple[Expression, dict[str, Expression]]] = {}
        for fixed in self.ranks[0].places(self.fixed):
            origins = [ranks.at(self.fixed, fixed) for ranks in self.ranks]
            first = [v[o] for v, o in zip(values, origins, strict=True)]
            base = self.fit(("rank", *number, "", *fixed), first, f"{what} on the first rank", op)
            weights = {}
            for axis in self.symbolic:
                steps = [
                    v[ranks.moved(o, axis, 1)] - v[o]
                    for v, o, ranks in zip(values, origins, self.ranks, strict=True)
                    if ranks.size(axis) > 1
                ]
                if len(steps) < len(self.ranks):
                    raise self.error(op, f"a capture with {axis}=1 does not say how {what} depends on the rank")
                weights[axis] = self.fit(("rank", *number, axis, *fixed), steps, f"{what} per rank along {axis}", op)
                family.integers.add(weights[axis])
            family.integers.add(base)
            places[fixed] = base, weights
        for capture, (by_rank, ranks) in enumerate(zip(values, self.ranks, strict=True), 1):
            for rank, value in by_rank.items():
                base, weights = places[ranks.place(rank, self.fixed)]
                point = self.points[capture - 1]
                linear = base.at(point) + sum(ranks.place(rank, [a])[0] * w.at(point) for a, w in weights.items())
                if linear != value:
                    raise self.no_form(
                        op,
                        f"{what} is {value} on rank {rank} of capture {capture}, not {linear}: it is not linear in the"
                        f" position along {', '.join(self.symbolic)}",
                    )
        return RankFormula(places)

    # ---- collectives ----

    def _groups(self, family: Family) -> None:
        of_base = {g for g, role in self.captures[0]["graph"] if role == "base"}
        graph = {op: g for op, g, _ in self.captures[0]["op"]}
        family.tables["group"] = [row for row in self.captures[0]["group"] if graph[row[0]] in of_base]
        found: dict[str, tuple[str, ...]] = {}
        for number, (rows, ranks) in enumerate(zip(self.rows, self.ranks, strict=True), 1):
            members: dict[str, dict[int, dict[int, int]]] = {}
            for op, group, position, rank in rows("group"):
                if graph[op] not in of_base:
                    members.setdefault(op, {}).setdefault(group, {})[position] = rank
            for op, groups in members.items():
                axes = ranks.axes_of([[group[p] for p in sorted(group)] for group in groups.values()])
                if axes is None:
                    raise self.no_form(
                        op, f"the groups of {self.name(op)} in capture {number} do not run along whole mesh axes"
                    )
                if found.setdefault(op, axes) != axes:
                    raise self.error(
                        op,
                        f"{self.name(op)} runs along {' and '.join(found[op]) or 'no axis'} in capture 1 and along"
                        f" {' and '.join(axes) or 'no axis'} in capture {number}",
                    )
        family.groups = found

    def _permutes(self, family: Family) -> None:
        for number, (rows, ranks) in enumerate(zip(self.rows, self.ranks, strict=True), 1):
            pairs: dict[str, set[tuple[int, int]]] = {}
            for op, source, target in rows("permute_pair"):
                pairs.setdefault(op, set()).add((source, target))
            for op, found in pairs.items():
                moves = {(ranks.place(a, self.fixed), ranks.place(b, self.fixed)) for a, b in found}
                whole = {
                    (a, ranks.at(self.fixed, there, a)) for a in ranks.all for here, there in moves
                    if ranks.place(a, self.fixed) == here
                }  # fmt: skip
                if whole != found or family.permutes.setdefault(op, sorted(moves)) != sorted(moves):
                    raise self.no_form(
                        op,
                        f"{self.name(op)} (capture {number}) permutes along {', '.join(self.symbolic)}: rings along a"
                        " symbolic axis have no symbolic form yet",
                    )

    # ---- constants and placements ----

    def _literals(self, family: Family) -> None:
        exact = dict(self._rationals(family))
        texts: dict[str, list[str]] = {key[0]: [row[1] for row in rows] for key, rows in self.keyed("literal", (0,))}
        family.tables["literal"] = []
        for tensor, found in texts.items():
            same = found[0] if len(set(found)) == 1 else None
            if tensor in exact:
                fixed = all(side.constant is not None for side in exact[tensor])
                family.literals[tensor] = (*exact[tensor], same if fixed else None)
            elif same is not None:
                family.tables["literal"].append((tensor, same))
            else:
                raise InputError(f"the constant {self.name(tensor)} has other values at other sizes, and is no scalar")
        items = [[row for row in rows("literal_item") if row[0] not in exact] for rows in self.rows]
        if any(other != items[0] for other in items):
            odd = next(a for a, b in zip(*(sorted(i) for i in items[:2]), strict=False) if a != b)
            raise NoSymbolicForm(
                f"the table {self.name(odd[0])} has other numbers at other sizes: it has no symbolic form",
                hint="compute the number from the rank (axis index times block size)",
            )
        family.tables["literal_item"] = items[0]

    def _rationals(self, family: Family) -> Iterator[tuple[str, tuple[Expression, Expression]]]:
        rows_of = [{row[0]: row for row in rows("literal_rational")} for rows in self.rows]
        texts: dict[str, str] = dict(self.captures[0]["literal"])
        for tensor, first in rows_of[0].items():
            rows = [first, *(other.get(tensor, ()) for other in rows_of[1:])]
            if not all(rows):
                continue
            what = f"the constant {self.name(tensor)} ({texts.get(tensor)})"
            try:
                sides = [[row[i] for row in rows] for i in (1, 2)]
                pair = self._read(("literal", tensor, 1), sides[0]), self._read(("literal", tensor, 2), sides[1])
            except (Ambiguous, NoFormula):
                values = [Fraction(row[1], row[2]) for row in rows]
                pair = over(self.fit(("literal", tensor, 0), values, what))
            family.integers.update(pair)
            yield tensor, pair

    def _shards(self, family: Family) -> None:
        tables = [rows("shard") for rows in self.rows]
        for number, (row, rows) in enumerate(_side_by_side(tables, (0, 2), "inputs are placed")):
            what = f"the placement of {self.name(row[0])}"
            layout = self._layout(("layout", "shard", number), [r[4] for r in rows], what, family)
            pieces = [self._piece(("piece", number, i), [r[1 + 2 * i] for r in rows], what, family) for i in (0, 1)]
            family.shards.append((row[0], pieces[0], row[2], pieces[1], layout, row[5]))
        tables = [rows("expect") for rows in self.rows]
        for number, (row, rows) in enumerate(_side_by_side(tables, (0, 1), "outputs are checked")):
            texts = [r[2] for r in rows]
            what = f"the expected placement of {self.name(row[0])}"
            wanted = self._layout(("layout", "expect", number), texts, what, family)
            family.expected.append((row[0], row[1], wanted if any(texts) else None))

    def _layout(self, cell: Cell, texts: list[str], what: str, family: Family) -> LayoutFormula:
        layouts = [Layout.parse(text) for text in texts]
        shapes = {
            (tuple(tuple(map(_sort, d)) for d in one.dims), tuple((a, tuple(map(_sort, e))) for a, e in one.axes))
            for one in layouts
        }
        if len(shapes) > 1 or len({one.scale for one in layouts}) > 1:
            raise InputError(
                f"{what} differs between the captures: {' and '.join(dict.fromkeys(texts))}",
                hint="choose sizes at which no dim of a shard, and no mesh axis, has one element",
            )
        first = layouts[0]

        def entries(where: str, pick: Callable[[Layout], Sequence[Any]]) -> tuple[Entry, ...]:
            out = []
            for n, together in enumerate(zip(*map(pick, layouts), strict=True)):
                kind, dim = _sort(together[0])
                stride = self.fit((*cell, where, n, "stride"), [getattr(e, "stride", 0) for e in together], what)
                size = self.fit((*cell, where, n, "size"), [e.size for e in together], what)
                family.integers |= {stride, size}
                out.append(Entry(kind, dim, stride, size))
            return tuple(out)

        return LayoutFormula(
            tuple(entries(str(d), lambda one, d=d: one.dims[d]) for d in range(len(first.dims))),  # type: ignore[misc]
            tuple((axis, entries(axis, lambda one, p=p: one.axes[p][1])) for p, (axis, _) in enumerate(first.axes)),  # type: ignore[misc]
            first.scale,
        )

    def _piece(self, cell: Cell, texts: list[str], what: str, family: Family) -> PieceFormula:
        pieces = [parse_piece(text) for text in texts]
        if len({tuple(w.dim for w in piece) for piece in pieces}) > 1:
            raise InputError(f"{what}: other pieces in other captures: {' and '.join(texts)}")
        windows = []
        for n, together in enumerate(zip(*pieces, strict=True)):
            lo = self.fit((*cell, n, 1), [w.lo for w in together], what)
            hi = self.fit((*cell, n, 2), [w.hi for w in together], what)
            family.integers |= {lo, hi}
            windows.append((together[0].dim, lo, hi))
        return PieceFormula(tuple(windows))


def _sort(entry: Any) -> tuple[str, int]:
    if isinstance(entry, Digit):
        return ("digit", entry.dim) if entry.stride else ("r", -1)
    return (entry.reducer, -1) if isinstance(entry, Pending) else ("r", -1)


def _side_by_side(tables: list[list[Row]], same: Sequence[int], what: str) -> Iterator[tuple[Row, list[Row]]]:
    """Rows of the captures in order, which agree in some columns."""
    for rows in zip(*tables, strict=False):
        if len({tuple(row[i] for i in same) for row in rows}) > 1:
            raise InputError(f"other {what} in other captures: {' and '.join(str(row) for row in rows)}")
        yield rows[0], list(rows)
    if len({len(table) for table in tables}) > 1:
        raise InputError(f"{what} in some captures only: {', '.join(str(len(table)) for table in tables)} rows")
