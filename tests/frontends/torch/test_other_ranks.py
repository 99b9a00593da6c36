"""A file of another rank is read by the lines in which it differs, and comes out as if it were read whole."""

from __future__ import annotations

import random

import pytest

from scalify_dl.errors import InputError
from scalify_dl.readers.fx import reader
from scalify_dl.readers.fx.other_ranks import Earlier
from scalify_dl.readers.fx.reader import Module

TEXT = '''class GraphModule(torch.nn.Module):
    def forward(self, ids: "i64[2, 16]", w: "f32[16, 8]"):
        # File: model.py:12 in forward, code: mask
        lt: "b8[2, 16]" = torch.ops.aten.lt.Scalar(ids, 0)
        sub: "i64[2, 16]" = torch.ops.aten.sub.Tensor(ids, 16);  ids = None
        body_0 = self.body_0
        split = torch.ops.aten.split.Tensor(w, 4)
        getitem: "f32[4, 8]" = split[0]
        getitem_1: "f32[4, 8]" = split[1];  split = None
        # called from train.py:30 in step
        cat: "f32[8, 8]" = torch.ops.aten.cat.default([
            getitem,
            getitem_1])
        map_0: "f32[4, 8]" = torch.ops.higher_order.wrap(body_0, getitem);  getitem = None
        copied: "f32[4, 8]" = torch.ops.aten.clone.default(map_0)
        return (sub, cat, copied)

    class body_0(torch.nn.Module):
        def forward(self, x: "f32[4, 8]"):
            add: "f32[4, 8]" = torch.ops.aten.add.Tensor(x, 1)
            mul: "f32[4, 8]" = torch.ops.aten.mul.Tensor(add, 2);  add = None
            return mul
'''


def whole(text: str) -> tuple[Module, object]:
    return reader._Reader(text.split("\n"), None).read()


def by_lines(text: str) -> Module | None:
    return Earlier(TEXT.split("\n"), *whole(TEXT)).of(text.split("\n"))


SAME = {
    "a number": ("ids, 16)", "ids, 32)"),
    "a number in a called graph": ("mul.Tensor(add, 2)", "mul.Tensor(add, 4)"),
    "another name and the line that reads it": ('copied: "f32[4, 8]"', 'copied_1: "f32[4, 8]"'),
    "an item of another number": ('getitem_1: "f32[4, 8]" = split[1]', 'getitem_2: "f32[4, 8]" = split[2]'),
    "nothing": ("", ""),
}


@pytest.mark.parametrize("what", SAME)
def test_other_statements_take_the_place_of_earlier_ones(what: str) -> None:
    text = TEXT.replace(*SAME[what])
    assert by_lines(text) == whole(text)[0]


LEFT = {
    "a line more": ("        return (sub", "        extra = split[1]\n        return (sub"),
    "a comment": ("model.py:12", "model.py:13"), "a statement over several lines": ("getitem_1])", "getitem])"),
    "what is returned": ("(sub, cat, copied)", "(sub, cat, map_0)"), "a parameter": ('16]", w', '8]", w'),
    "a name twice": ('copied: "f32[4, 8]"', 'map_0: "f32[4, 8]"'), "no type": ('lt: "b8[2, 16]"', "lt"),
    "brackets that stay open": ("lt.Scalar(ids, 0)", "lt.Scalar(ids, (0"), "no FX text": ("split[0]", "lambda: 0"),
    "another graph": ("torch.ops.aten.add.Tensor(x, 1)", "1\n    class other(torch.nn.Module):"),
}  # fmt: skip


@pytest.mark.parametrize("what", LEFT)
def test_what_is_more_than_a_statement_is_read_anew(what: str) -> None:
    text = TEXT.replace(*LEFT[what])
    assert text != TEXT
    assert by_lines(text) is None


def outcome(text: str) -> object:
    try:
        return reader.parse(text)
    except InputError as error:
        return str(error)


def anew(text: str) -> object:
    try:
        return whole(text)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("seed", range(4))
def test_random_edits_are_read_as_without_what_was_read_before(seed: int) -> None:
    draw = random.Random(seed)
    words = ["0", "ids", "getitem", "torch.ops.aten.relu.default(", ")", "\n", " = ", "# x", ",", "None", "[1]"]
    for _ in range(250):
        assert outcome(TEXT) == whole(TEXT)
        text = TEXT
        for _ in range(draw.choice((1, 1, 2, 5))):
            at = draw.randrange(len(text))
            text = text[:at] + draw.choice(words) + text[at + draw.randrange(12) :]
        assert outcome(text) == anew(text), text
