"""Whether constants say one thing: their text, exact value, items, hash and numbers by rank agree, and fit the type."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fractions import Fraction
from math import gcd, prod

from scalify_dl.errors import in_short
from scalify_dl.ir.literals import EXPONENT_LIMIT, NUMBER, is_beyond, rational

from .model import Facts
from .problems import error, first
from .regions import Types, fits, runs_of

ELIDED = "{...}"
_INTEGER = re.compile(r"([su])(\d+)\Z")
_RATIO = re.compile(r"-?[1-9][0-9]*/[1-9][0-9]*\Z")
_LONGEST = 1000
"""Most characters of a number: no type has more digits."""
_WORDS = ("inf", "-inf", "nan")


def check_constants(facts: Facts, types: Types) -> None:
    """InputError where a constant has no value, two values, or one that its type does not hold."""
    kinds = {op: kind for op, _, kind in facts["op"]}
    made = {tensor: op for op, _, tensor in facts["result"] if kinds[op] == "constant"}
    for table in ("literal", "literal_rational", "literal_hash", "literal_item"):
        others = {row[0] for row in facts[table]} - made.keys()
        if others:
            at = first(facts[table], 0, others)
            raise error(
                facts,
                table,
                at,
                f"`{facts[table][at][0]}` is no constant",
                expected="the result of an op of kind `constant`",
            )
    texts: dict[str, str] = dict(facts["literal"])
    for n, (tensor, text) in enumerate(facts["literal"]):
        if text != ELIDED and not _fits(text, *types[tensor]):
            dtype, shape = types[tensor]
            raise error(
                facts,
                "literal",
                n,
                f"`{text[:40]}` is no value of {dtype}[{','.join(map(str, shape))}]",
                column=2,
                expected="a literal text (docs/facts.md) of numbers that the type holds",
            )
    for n, (tensor, top, bottom) in enumerate(facts["literal_rational"]):
        text = texts.get(tensor, "")
        if bottom < 1 or gcd(top, bottom) != 1:
            raise error(
                facts,
                "literal_rational",
                n,
                f"`{tensor}` is {top}/{bottom}",
                column=3,
                expected="lowest terms and a denominator from 1",
            )
        if _value(text) != Fraction(top, bottom):
            raise error(
                facts, "literal_rational", n, f"`{tensor}` is {top}/{bottom} here and `{text[:40]}` in `literal`"
            )
    for n, (tensor, _) in enumerate(facts["literal_hash"]):
        if texts.get(tensor, ELIDED) != ELIDED:
            raise error(facts, "literal_hash", n, f"`{tensor}` has a hash and the text `{texts[tensor][:40]}`")
    _items(facts, types, texts)
    _by_rank(facts, types, made, texts)


def _value(text: str) -> Fraction | None:
    """The exact value of a number's text; None where it is none, or one that no type holds."""
    if len(text) > _LONGEST:
        return None
    if _RATIO.match(text):
        value = Fraction(text)
        return value if str(value) == text else None
    match = NUMBER.match(text)
    return rational(text) if match and abs(int(match[1] or 0)) <= EXPONENT_LIMIT else None


def is_literal(text: str) -> bool:
    """Whether a text is one real number."""
    return text in _WORDS or _value(text) is not None


def _numbers(text: str) -> list[str]:
    """The numbers of a literal text in order, complex ones as one."""
    return re.findall(r"\([^()]*\)|[^{},()]+", text)


def _fits(text: str, dtype: str, shape: tuple[int, ...]) -> bool:
    """Whether a text is a number, or as many as the shape asks for, of a type."""
    if text.startswith("{"):
        words = _numbers(text)
        return text.endswith("}") and len(words) == prod(shape) and all(_fits(word, dtype, ()) for word in set(words))
    if dtype.startswith("c") and text.startswith("(") and text.endswith(")"):
        parts = text[1:-1].split(",")
        return len(parts) == 2 and all(part in _WORDS or _value(part) is not None for part in parts)
    value = _value(text)
    if dtype == "pred" or _INTEGER.match(dtype):
        return value is not None and value.denominator == 1 and fits(dtype, int(value))
    return text in _WORDS or (value is not None and not is_beyond(value, dtype))


def _items(facts: Facts, types: Types, texts: dict[str, str]) -> None:
    """Items are those of the text, all of them; equal hashes have equal items."""
    found: dict[str, dict[int, int]] = {}
    for tensor, index, value in facts["literal_item"]:
        found.setdefault(tensor, {})[index] = value
    hashes: dict[str, str] = dict(facts["literal_hash"])
    by_hash: dict[str, list[int]] = {}
    for tensor, rows in found.items():
        dtype, shape = types[tensor]
        items = [rows.get(i) for i in range(len(rows))]
        text = texts.get(tensor, ELIDED)
        problem = ""
        if len(rows) != prod(shape) or None in items:
            problem = f"{len(rows)} items of {prod(shape)}, or not numbered from 0"
        elif not all(fits(dtype, item) for item in set(items) if item is not None):
            problem = f"items that {dtype} does not hold"
        elif text != ELIDED and _values(_same_count(_numbers(text), len(items))) != items:
            problem = f"other items than its text `{text[:40]}`"
        elif by_hash.setdefault(hashes.get(tensor, tensor), list(rows.values())) != list(rows.values()):
            problem = "other items than a constant of the same hash"
        if problem:
            raise error(facts, "literal_item", first(facts["literal_item"], 0, {tensor}), f"`{tensor}` has {problem}")


def _values(words: list[str]) -> list[Fraction | None]:
    """Of tables by rank, which have few different words."""
    known = {word: _value(word) for word in set(words)}
    return [known[word] for word in words]


def _same_count(words: list[str], count: int) -> list[str]:
    return words * count if len(words) == 1 else words


def _by_rank(facts: Facts, types: Types, made: dict[str, str], texts: dict[str, str]) -> None:
    """Numbers that depend on the rank: one for every rank that runs the op, in place of any other."""
    runs = runs_of(facts)
    graphs = {op: graph for op, graph, _ in facts["op"]}
    ranks: dict[tuple[str, str, int], set[int]] = {}
    for op, key, position, rank, _ in facts["rank_number"]:
        ranks.setdefault((op, key, position), set()).add(rank)
    fixed = {(op, key, position) for op, key, position, _ in facts["attr_number"]}
    constants = {op: tensor for tensor, op in made.items()}
    for n, (op, key, position, _, value) in enumerate(facts["rank_number"]):
        problem, expected = "", ""
        if ranks[op, key, position] != runs[graphs[op]]:
            problem = f"numbers on the ranks {in_short(sorted(ranks[op, key, position]))}"
            expected = f"one on each of {in_short(sorted(runs[graphs[op]]))}"
        elif (op, key, position) in fixed:
            problem, expected = "the same number in `attr_number`", "one of the two"
        elif op in constants:
            dtype, shape = types[constants[op]]
            if (key, position) != ("value", 0) or shape or not fits(dtype, value):
                problem = f"the number {value} at `{key}` {position} of a constant {dtype}{list(shape)}"
                expected = "`value` 0 of a scalar, a number that the type holds"
            elif constants[op] in texts:
                problem, expected = f"the text `{texts[constants[op]][:40]}` as well", "one of the two"
        if problem:
            raise error(facts, "rank_number", n, f"`{op}` has {problem}", expected=expected)


def known(facts: Facts, tensors: Iterable[str]) -> set[str]:
    """Those of the tensors that are constants with a value."""
    wanted = set(tensors)
    out = {tensor for tensor, text in facts["literal"] if tensor in wanted and text != ELIDED}
    out |= {tensor for table in ("literal_hash", "literal_item") for tensor, *_ in facts[table] if tensor in wanted}
    ranked = {row[0] for table in ("rank_number", "number_along") for row in facts[table]}
    return out | {tensor for op, _, tensor in facts["result"] if op in ranked and tensor in wanted}
