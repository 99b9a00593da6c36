"""What a forger does to a certificate: every move takes its lines and makes others, hashes always put right.

A certificate is a header, lines of values, and steps (certificate/files.py). Moves come in four kinds: on steps (drop,
repeat, reorder, rebind, other premises, rows out of nothing), on clauses (other names for variables, an aggregate's own
among them, other clauses), on the header (claims, assumptions, choices, orders of texts), and on the form of the file.
`FORGERIES` are random; `ambitions` aim at a false claim.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from itertools import pairwise
from typing import Any

from scalify_dl.certificate.terms import LOCAL

Lines = list[Any]
Move = Callable[[random.Random, Lines, Sequence[Any]], None]
"""(chance, lines to change, lines of another certificate)"""

JUNK: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**64, 1.0, float("nan"), "", "0", "1", "x'", [], [[]], [0], {},
    {"values": [1]}, {"decide": [0, 1, 2]}, [0, [], []], ["holds", [0, 1, 2]], ["holds", [[0]]],
    {"decide": 3}, [[], {}], [0, 0, 0],
)  # fmt: skip
FORGED_ROWS = (
    "holds",
    "proved",
    "output_verdict",
    "assumption",
    "kept_up",
    "pair",
    "given",
    "expect",
    "accepted",
    "text",
)


def forged(chance: random.Random, lines: Sequence[Any], other: Sequence[Any]) -> Lines:
    """A forgery: one to four moves on a copy."""
    out: Lines = deepcopy(list(lines))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        with suppress(TypeError, KeyError, IndexError, ValueError, AttributeError):  # of a file already malformed
            chance.choice(FORGERIES)(chance, out, other)
    return out


def mended(chance: random.Random, lines: Sequence[Any], at: int) -> Lines:
    """A forgery that was refused at a line, with that line made otherwise."""
    out: Lines = deepcopy(list(lines))
    with suppress(TypeError, KeyError, IndexError, ValueError, AttributeError):
        kind = chance.random()
        if kind < 0.5:
            rename(chance, out, [at])
        elif kind < 0.75:
            out[at][2][chance.randrange(len(out[at][2]))] = new_value(chance, out)
        elif kind < 0.9:
            out[at][1][chance.randrange(len(out[at][1]))] = chance.randrange(len(derived(out)))
        else:
            del out[at]
    return out


def steps(lines: Lines) -> list[int]:
    """Where steps are."""
    return [
        i for i, line in enumerate(lines) if isinstance(line, list) and len(line) == 3 and isinstance(line[1], list)
    ]


def derived(lines: Lines) -> list[int]:
    """Where lines are that show a row."""
    return [i for i, line in enumerate(lines[1:], 1) if not (isinstance(line, dict) and "values" in line)]


def values(lines: Lines) -> list[Any]:
    """All values that are stated, in order."""
    return [
        v for line in lines if isinstance(line, dict) and isinstance(line.get("values"), list) for v in line["values"]
    ]


def new_value(chance: random.Random, lines: Lines) -> int:
    """The number of a value that may be a new one."""
    known = values(lines)
    if known and chance.random() < 0.7:
        return chance.randrange(len(known))
    texts = [v for v in known if isinstance(v, str)] or ["x"]
    made = chance.choice(
        [
            chance.randint(-3, 12),
            chance.choice(texts),
            str(chance.randint(0, 4)),
            None,
            [chance.randrange(len(known) or 1) for _ in range(2)],
        ]
    )
    lines.insert(1 + chance.randrange(len(lines)) if chance.random() < 0.1 else last_values(lines), {"values": [made]})
    return len(known)


def last_values(lines: Lines) -> int:
    """The place after the last line of values."""
    return max((i for i, line in enumerate(lines) if isinstance(line, dict) and "values" in line), default=0) + 1


# ---- steps


def drop(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A line is left out."""
    if where := derived(lines):
        del lines[chance.choice(where)]


def drop_relation(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """All steps of one relation are left out, premises counted anew."""
    relations = {clause[0] for clause in lines[0]["clauses"]}
    relation = chance.choice(sorted(relations))
    keep: Lines = []
    numbers: dict[int, int] = {}
    count = 0
    for place, i in enumerate(derived(lines)):
        line = lines[i]
        if len(line) == 3 and isinstance(line, list) and lines[0]["clauses"][line[0]][0] == relation:
            continue
        if isinstance(line, list) and len(line) == 3:
            line = [line[0], [numbers.get(p, p) for p in line[1]], line[2]]
        numbers[place] = count
        count += 1
        keep.append(line)
    lines[last_values(lines) :] = keep


def repeat(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A line comes again, somewhere."""
    if where := derived(lines):
        lines.insert(chance.randint(1, len(lines)), deepcopy(lines[chance.choice(where)]))


def reorder(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """Two lines change places, or one is moved."""
    if where := derived(lines):
        i, j = chance.choice(where), chance.choice(where)
        if chance.random() < 0.5:
            lines[i], lines[j] = lines[j], lines[i]
        else:
            lines.insert(j, lines.pop(i))


def rebind(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A step with another value for a variable."""
    if where := steps(lines):
        line = lines[chance.choice(where)]
        if isinstance(line[2], list) and line[2]:
            line[2][chance.randrange(len(line[2]))] = new_value(chance, lines)


def other_premise(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A step with another premise: an earlier line, itself, or one that comes later."""
    where = [i for i in steps(lines) if lines[i][1]]
    if where:
        i = chance.choice(where)
        own = derived(lines).index(i)
        premise = chance.choice([chance.randrange(own + 1), own, own + 1, -1, own - len(where)])
        lines[i][1][chance.randrange(len(lines[i][1]))] = premise


def more_premises(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A premise too many, or too few."""
    if where := steps(lines):
        premises = lines[chance.choice(where)][1]
        premises.insert(0, 0) if chance.random() < 0.5 or not premises else premises.pop()


def row_of_nothing(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A row that is given by nobody, a claim that nobody decided."""
    row = [new_value(chance, lines) for _ in range(chance.choice((1, 2, 3, 3, 3, 4)))]
    line = {"decide": row[:3]} if chance.random() < 0.3 else [chance.choice(FORGED_ROWS), row]
    lines.insert(chance.randint(last_values(lines), len(lines)), line)


def borrow(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A step of another certificate, with the values and premises that it has there, at the place where it stands."""
    where = [i for i, line in enumerate(other) if isinstance(line, list) and len(line) == 3]
    if where:
        clause, premises, bindings = other[chance.choice(where)]
        foreign, count = values(list(other)), len(values(lines))
        lines[0]["clauses"].append(deepcopy(other[0]["clauses"][clause]))
        moved = [[count + n for n in value] if isinstance(value, list) else value for value in foreign]
        lines.insert(last_values(lines), {"values": moved})
        place = chance.randint(last_values(lines), len(lines))
        lines.insert(place, [len(lines[0]["clauses"]) - 1, list(premises), [count + n for n in bindings]])


# ---- clauses


def other_name(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """Steps of a clause with other variables."""
    number = chance.randrange(len(lines[0]["clauses"]))
    rename(chance, lines, [i for i in steps(lines) if lines[i][0] == number])


def rename(chance: random.Random, lines: Lines, where: Sequence[int]) -> None:
    """These steps, of one clause, with other variables: an aggregate's own, a name less, a name twice, one that the
    clause has not."""
    if not where:
        return
    relation, file, line, text, names = deepcopy(lines[0]["clauses"][lines[where[0]][0]])
    found = text.split()
    words = {word for word, after in pairwise(found) if word.isidentifier() and after not in ("(", ":")}
    fresh = chance.choice(sorted(words - {*names}) or ["z"]) + chance.choice(("", LOCAL, LOCAL))
    if chance.random() < 0.2:
        fresh = chance.choice([*names, "z"])
    before = last_values(lines)
    bound = new_value(chance, lines)
    where = [i + (last_values(lines) > before) for i in where]
    at = chance.randrange(len(names)) if names else 0
    less = names and chance.random() < 0.2
    names[at : at + less] = [] if less else [fresh]
    for i in where:
        lines[i][2][at : at + less] = [] if less else [bound]
        lines[i][0] = len(lines[0]["clauses"])
    lines[0]["clauses"].append([relation, file, line, text, names])


def other_clause(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A step of another clause, or a clause of another relation, file, line or text."""
    clauses = lines[0]["clauses"]
    if chance.random() < 0.5 and (where := steps(lines)):
        lines[chance.choice(where)][0] = chance.randint(-1, len(clauses))
    else:
        at = chance.randrange(4)
        chance.choice(clauses)[at] = chance.choice([*(c[at] for c in clauses), chance.choice(JUNK)])


# ---- the header


def claim(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """Another output is claimed, or one of them with another layout."""
    outputs = lines[0]["outputs"]
    texts = [v for v in values(lines) if isinstance(v, str)] or ["x"]
    output = [*chance.choice(outputs or [["d0", "t0", "1,"]])]
    output[chance.randrange(3)] = chance.choice(texts)
    outputs.append(output) if chance.random() < 0.5 else outputs.__setitem__(slice(0, 1), [output])


def hide_assumption(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """An assumption is not listed, or said otherwise; perhaps nothing that leads to it is shown."""
    listed = lines[0]["assumptions"]
    if listed:
        at = chance.randrange(len(listed))
        if chance.random() < 0.7:
            why = listed[at][2]
            lines[0]["assumptions"] = [row for row in listed if row[2] != why] if chance.random() < 0.5 else listed[:-1]
            if chance.random() < 0.7:
                drop_relation(chance, lines, other)
        else:
            listed[at][chance.randrange(3)] = chance.choice(JUNK)


def choose(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """Choices that the rules do not make, or make otherwise."""
    for relation, rows in lines[0]["choices"].items():
        kind = chance.randrange(5)
        if kind == 0 and rows:
            rows.pop()
        elif kind == 1:
            rows.append([chance.choice("dt") + str(chance.randrange(6)) for _ in range(2)])
        elif kind == 2 and rows:
            chance.choice(rows)[chance.randrange(2)] = chance.choice(("d2", "t2", "d3", "t4"))
        elif kind == 3:
            rows.append(chance.choice(JUNK))
        else:
            lines[0]["choices"] = {**lines[0]["choices"], chance.choice((relation, "holds", "proved")): [["d1", "t1"]]}


def order_otherwise(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """Other numbers for texts."""
    order = lines[0]["order"]
    if order:
        one, two = chance.choice(sorted(order)), chance.choice(sorted(order))
        kind = chance.randrange(4)
        if kind == 0:
            order[one], order[two] = order[two], order[one]
        elif kind == 1:
            order[one] = order[two]
        elif kind == 2:
            order[one] = chance.choice(JUNK)
        else:
            del order[one]


# ---- the form


def confuse(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """A value that is almost the same: a text for a number, true for 1, a record for its parts."""
    stated = [
        line for line in lines if isinstance(line, dict) and isinstance(line.get("values"), list) and line["values"]
    ]
    if stated:
        found = chance.choice(stated)["values"]
        at = chance.randrange(len(found))
        value = found[at]
        if isinstance(value, int):
            found[at] = chance.choice([str(value), float(value), value == 1, value + 2**32, [value]])
        elif isinstance(value, str):
            found[at] = chance.choice([value + " ", value.upper(), [at], int(value) if value.isdecimal() else None])
        else:
            found[at] = chance.choice([None, 0, "nil", value[:-1] if value else [at], [at, at]])


def malform(chance: random.Random, lines: Lines, other: Sequence[Any]) -> None:
    """Anything in place of any part."""
    node: Any = lines
    while True:
        keys = list(node) if isinstance(node, dict) else range(len(node))
        if not keys:
            return
        key = chance.choice(keys)
        below = node[key]
        if not isinstance(below, dict | list) or not below or chance.random() < 0.25:
            node[key] = deepcopy(chance.choice(JUNK))
            return
        node = below


FORGERIES: tuple[Move, ...] = (
    drop, drop_relation, repeat, reorder, rebind, rebind, other_premise, more_premises, row_of_nothing, borrow,
    other_name, other_name, other_clause, claim, hide_assumption, hide_assumption, choose, order_otherwise, confuse,
    malform,
)  # fmt: skip


def ambitions(lines: Sequence[Any], outputs: Sequence[tuple[str, str, str]], hashes: dict[str, str]) -> Lines:
    """The certificate of other facts, made out to be about these: their hashes, their outputs."""
    out: Lines = deepcopy(list(lines))
    out[0]["facts"] = hashes
    if outputs:
        out[0]["outputs"] = [list(output) for output in outputs]
    return out
