"""Names and texts that rules make: none is a name of the facts, and no two different things get the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from scalify_dl.certificate.rules import read_rules
from scalify_dl.certificate.terms import Apply, Clause, Const, Term
from scalify_dl.errors import InputError
from scalify_dl.facts.files import load, write
from scalify_dl.facts.model import Facts
from scalify_dl.facts.names import SEPARATOR, readable
from scalify_dl.facts.tables import clean, exact
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import MAIN, analyse
from scalify_dl.pysouffle import rules_dir


def verdict(facts: Facts) -> str:
    """PROVED or UNKNOWN: what the rules say about the only output."""
    ((_, _, found, _),) = analyse(facts, Options()).rows("output_verdict")
    return str(found)


def slice_of(name: str) -> Facts:
    """The baseline returns an input of that name; the distributed program a slice of another one."""
    pair = Pair("tp=2")
    b, d = pair.base, pair.dist
    b.input("x", (8,))
    b.output(b.input(name, (4,)))
    x = d.shard("x")
    d.shard(name)
    d.output(d.slice(x, 0, 0, 4))
    return pair.facts()


@pytest.mark.parametrize("name", ["x@0:0:4", "¦piece¦x¦0:0:4", "slice x@0:0:4"])
def test_a_value_of_the_facts_is_no_slice_because_of_its_name(name: str) -> None:
    assert verdict(slice_of(name)) == "UNKNOWN"


def test_an_id_with_the_separator_is_refused_with_its_place(tmp_path: Path) -> None:
    facts = slice_of("y")
    renamed = {"y": "¦piece¦x¦0:0:4"}
    for table, rows in facts.tables.items():
        facts.tables[table] = [tuple(renamed.get(cell, cell) for cell in row) for row in rows]
    assert verdict(facts) == "UNKNOWN"  # whoever runs the rules without loading proves nothing
    write(facts, tmp_path / "facts")
    with pytest.raises(InputError, match=r"\.facts:\d+:\d+: .*table `\w+` has `¦`"):
        load(tmp_path / "facts")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ({"a": "1;b=2"}, {"a": "1", "b": "2"}),
        ({"a": "1", "b": "2"}, {"a": "1¦b¦=2"}),
        ({"a": "1"}, {"a": 1}),
        ({"a": "1,2"}, {"a": [1, 2]}),
        ({"a": ["1", "2"]}, {"a": "1;a=2"}),
        ({"a": ["1", "2"]}, {"a": "1", "a#1": "2"}),
        ({"a=b": "c"}, {"a": "b=c"}),
        ({"a": "k;has_side_effect=1"}, {"a": "k", "has_side_effect": "1"}),
        ({"a": "x\ty"}, {"a": "x y"}),
        ({"a": "x\ty"}, {"a": "x\\x9;y"}),
        ({"a": "x¦y"}, {"a": "x|y"}),
    ],
)
def test_calls_with_different_attributes_are_different(one: dict[str, object], two: dict[str, object]) -> None:
    """(A call whose factors are known: others are not related at all.)"""
    for mine in (one, two):
        for other in (one, two):
            pair = Pair("tp=2")
            b, d = pair.base, pair.dist
            for program, x, w, own in (
                (b, b.input("x", (8, 4)), b.input("w", (8,)), mine),
                (d, d.shard("x", {1: "tp"}), d.shard("w"), other),
            ):
                call = program.op("custom:AwsNeuronRmsNorm", x, w, dtype="f32", shape=x.shape, attributes=own)
                program.output(call.result)
            assert verdict(pair.facts()) == ("PROVED" if mine is other else "UNKNOWN")


def test_constants_are_equal_by_what_they_are_not_by_how_it_is_written() -> None:
    def constants(hash_: str, text: str) -> Facts:
        pair = Pair("tp=2")
        b, d = pair.base, pair.dist
        b.output(b.add(b.input("x", (2,)), b.constant(1.5, "f32", (2,))))
        d.output(d.add(d.shard("x"), d.constant(1.5, "f32", (2,))))
        facts = pair.facts()
        facts.tables["literal_rational"] = []
        facts.tables["literal"] = [(t, text) for t, _ in facts["literal"] if not t.startswith("base/")]
        facts.tables["literal_hash"] = [(t, hash_) for t, _, _, _ in facts["tensor"] if t.startswith("base/const")]
        return facts

    assert verdict(constants("ab12", "#ab12")) == "UNKNOWN"


def _made(clause: Clause) -> Iterator[list[Term]]:
    """The parts of every text that a rule joins."""
    todo: list[object] = [clause.head, *clause.body]
    while todo:
        node = todo.pop()
        if isinstance(node, Apply) and node.name == "cat":
            yield _flat(node)
        elif isinstance(node, tuple):
            todo += node


def _flat(term: Term) -> list[Term]:
    """The parts of nested `cat`s in order."""
    if isinstance(term, Apply) and term.name == "cat":
        return [part for argument in term.args for part in _flat(argument)]
    return [term]


def test_every_made_name_is_a_tag_with_as_many_parts_as_any_other_of_that_tag() -> None:
    """So texts that are joined in different ways, or of different parts, differ (parts are names, made or not, or have
    no separator; a made name begins with the separator, one of the facts does not)."""
    shapes: dict[str, set[str]] = {}
    for clause in read_rules([rules_dir() / MAIN]).clauses:
        for parts in _made(clause):
            if _OTHER_TEXTS.match(clause.head.relation) and clause.head.relation not in ("what", "class_of"):
                continue
            if not isinstance(parts[0], Const) or not str(parts[0].value).startswith(SEPARATOR):
                continue
            shape = "".join(str(p.value) if isinstance(p, Const) else "*" for p in parts)
            tag = shape.split(SEPARATOR)[1]
            assert re.fullmatch(rf"{SEPARATOR}[^{SEPARATOR}*]+{SEPARATOR}\*([:{SEPARATOR}]\*)*", shape), shape
            shapes.setdefault(tag, set()).add(shape)
    assert len(shapes) > 30
    assert {tag: found for tag, found in shapes.items() if len(found) > 1} == {}


# rules whose texts are for people, are digits of paths, or are layout and piece texts
_OTHER_TEXTS = re.compile(
    r"place_text$|part_text$|diag_|origin_of$|case_|assumption$|inconsistent$|trait$|stated$|piece_string$|sum_|order_until$|digit_text$|list_text$"
    r"|dims_text$|axis_written$|mesh_text$|text$|number_text$|item$|all_text$|meaning_text$|traits_text$|meaning_of$"
    r"|extents_text$|types_text$|results_text$|value_text$|filled$|what$|class_of$|work$|constant_value$"
    r"|value_of_constant$|meaning$"
)


def test_rules_make_names_in_no_other_way() -> None:
    for clause in read_rules([rules_dir() / MAIN]).clauses:
        for first, *_ in _made(clause):
            if not _OTHER_TEXTS.match(clause.head.relation):
                assert isinstance(first, Const), clause
                assert str(first.value).startswith(SEPARATOR), clause


def test_values_are_escaped_one_to_one_and_names_cleaned() -> None:
    texts = ["a b", "a\tb", "a\nb", "a  b", "a\\x9;b", "a\\x5c;x9;b", "a¦b", "a|b", "a\\b", "\x7f", "a\xa0b"]
    written = [exact(text) for text in texts]
    assert len(set(written)) == len(texts)
    assert not any(SEPARATOR in text or re.search(r"[^\S ]|[\x00-\x1f\x7f-\x9f]", text) for text in written)
    assert exact("plain text, {1,2}\\n") == "plain text, {1,2}\\n"
    assert clean("a¦b\tc") == "a|b c"


def test_made_names_are_told_in_words() -> None:
    assert readable("operand 0, ¦piece¦x¦0:0:4, holds y") == "operand 0, x (dim 0 from 0 to 4), holds y"
    assert readable("compare¦direction¦=EQ¦pred") == "compare direction=EQ pred"
    assert readable("slice¦0¦~slice 0:4:1¦f32") == "slice slice 0:4:1 f32"
    assert readable("x") == "x"
