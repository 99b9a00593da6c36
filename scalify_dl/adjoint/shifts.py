"""Maxima that softmax subtracts have no gradient: exp(x - m) / Σ exp(x - m) and x - m - log Σ exp(x - m) are what they
are for any m that is the same along the dims of the sum. Frameworks leave it out, too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from scalify_dl.ir.graph import Op, Tensor
from scalify_dl.ir.vocabulary import ELEMENTWISE

MOVES = ("broadcast", "reshape")


class Shifts:
    """Ops by what they read, of those that `ends` are made by."""

    def __init__(self, ops: Sequence[Op], ends: Iterable[Tensor]) -> None:
        self.ends = set(ends)
        self.makers = {t: op for op in ops for t in op.results}
        self.readers: dict[Tensor, list[Op]] = {}
        live, stack = set[Op](), list(self.ends)
        while stack:
            op = self.makers.get(stack.pop())
            if op is not None and op not in live:
                live.add(op)
                stack += op.operands
        for op in ops:
            for t in dict.fromkeys(op.operands) if op in live else ():
                self.readers.setdefault(t, []).append(op)

    def cancels(self, op: Op) -> bool:
        """Whether nothing depends on the result of a maximum, or on what is made of it alone, which only shifts
        softmax."""
        if op.kind != "reduce" or op.symbols.get("reducer") != ["max"] or len(op.operands) != 1:
            return False
        gone = op.numbers["dimensions"]
        alone = self._alone(op.result)
        return self.ends.isdisjoint(alone) and all(
            reader.result in alone or (
                reader.kind == "subtract" and reader.operands[1] is m and reader.operands[0] not in alone
                and self._repeats(m, op.result, gone) and self._is_shifted(reader.result, gone)
            )
            for m in alone for reader in self.readers.get(m, ())
        )  # fmt: skip

    def _alone(self, value: Tensor) -> dict[Tensor, None]:
        """What is made of a value and of numbers, element by element or by moves: `max(m, -inf)`."""
        found, queue = {value: None}, [value]
        while queue:
            for reader in self.readers.get(queue.pop(), ()):
                of_it = reader.kind in (*MOVES, *ELEMENTWISE) and reader.result not in found
                if of_it and all(t in found or self._is_number(t) for t in reader.operands):
                    found[reader.result] = None
                    queue.append(reader.result)
        return found

    def _is_number(self, value: Tensor) -> bool:
        op = self._origin(value)
        return op is not None and op.kind == "constant"

    def _is_shifted(self, d: Tensor, gone: Sequence[int]) -> bool:
        """x - m: read by exp, and by the subtraction of the logarithm of the sum of that."""
        return all(
            value is d
            and (self._is_weight(reader.result, d, gone) if reader.kind == "exponential" else
                 reader.kind == "subtract" and self._takes_log(reader, d, gone))
            for reader, value in self._read(d)
        )  # fmt: skip

    def _is_weight(self, e: Tensor, d: Tensor, gone: Sequence[int]) -> bool:
        """exp(x - m): read by its sum, and by its quotient by that."""
        for reader, value in self._read(e):
            if value is not e:
                return False
            if reader.kind == "divide":
                if not self._by_total(reader, e, gone):
                    return False
            elif not self._is_total(reader, e, gone):
                return False
            else:
                for end, total in self._read(reader.result):
                    if end.kind == "log":
                        if not all(self._takes_log(last, d, gone) for last, _ in self._read(end.result)):
                            return False
                    elif end.kind != "divide" or end.operands[1] is not total or not self._by_total(end, e, gone):
                        return False
        return True

    def _takes_log(self, op: Op, d: Tensor, gone: Sequence[int]) -> bool:
        """(x - m) - log Σ exp(x - m)"""
        if op.kind != "subtract" or op.operands[0] is not d or op.operands[1] is d:
            return False
        log = self._origin(op.operands[1])
        if log is None or log.kind != "log" or not self._repeats(op.operands[1], log.result, gone):
            return False
        total = self._origin(log.operands[0])
        e = self.makers.get(total.operands[0]) if total is not None and total.operands else None
        return (total is not None and e is not None and e.kind == "exponential" and e.operands[0] is d
                and self._is_total(total, e.result, gone)
                and self._repeats(log.operands[0], total.result, ()))  # fmt: skip

    def _by_total(self, op: Op, e: Tensor, gone: Sequence[int]) -> bool:
        """exp(x - m) / Σ exp(x - m)"""
        total = self._origin(op.operands[1])
        return (op.operands[0] is e and total is not None and self._is_total(total, e, gone)
                and self._repeats(op.operands[1], total.result, gone))  # fmt: skip

    @staticmethod
    def _is_total(op: Op, e: Tensor, gone: Sequence[int]) -> bool:
        return (op.kind == "reduce" and op.symbols.get("reducer") == ["sum"] and op.operands == [e]
                and sorted(op.numbers["dimensions"]) == sorted(gone))  # fmt: skip

    def _read(self, value: Tensor) -> Iterator[tuple[Op, Tensor]]:
        """What reads a value, and as what: it may be moved about first. Who asks for it as an end reads it, too."""
        if value in self.ends:
            yield Op("end", [value], []), value
        for reader in self.readers.get(value, ()):
            if reader.kind in MOVES:
                yield from self._read(reader.result)
            else:
                yield reader, value

    def _origin(self, value: Tensor) -> Op | None:
        op = self.makers.get(value)
        while op is not None and op.kind in MOVES:
            op = self.makers.get(op.operands[0])
        return op

    def _repeats(self, wide: Tensor, narrow: Tensor, gone: Sequence[int]) -> bool:
        """Whether a value is another one, or made of it alone, whose dims are, in order, those that are not gone,
        repeated along these."""
        at = self._places(wide, narrow)
        if at is None:
            return False
        own = [d for d, n in enumerate(narrow.shape) if n != 1]
        kept = [at[d] for d, n in enumerate(wide.shape) if n != 1 and d not in gone]
        return kept == own and all(at[d] is None for d in gone if wide.shape[d] != 1)

    def _places(self, wide: Tensor, narrow: Tensor) -> list[int | None] | None:
        """Which dim of the narrow value each dim of one is that is made of it alone; None where it is not."""
        if wide is narrow:
            return list(range(len(narrow.shape)))
        op = self.makers.get(wide)
        if op is None:
            return None
        if op.kind not in MOVES:
            if op.kind not in ELEMENTWISE:
                return None
            found = [self._places(t, narrow) for t in op.operands if not self._is_number(t)]
            return found[0] if found and all(at == found[0] for at in found) else None
        (x,) = op.operands
        at = self._places(x, narrow)
        if at is None:
            return None
        if op.kind == "broadcast":
            places = dict(zip(op.numbers["dimensions"], at, strict=True))
            return [places.get(d) for d in range(len(wide.shape))]
        large = iter([d for d, n in zip(at, x.shape, strict=True) if n != 1])
        if [n for n in wide.shape if n != 1] != [n for n in x.shape if n != 1]:
            return None
        return [next(large) if n != 1 else None for n in wide.shape]
