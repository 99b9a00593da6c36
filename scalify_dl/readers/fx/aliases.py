"""What operators of torch write and what their results share memory with: `aliases.tsv`, made from torch's own schemas.

`scalify_dl.capture.torch_aliases` says what the columns mean and makes the table. Nothing is concluded from an
operator's name: one that is not in the table has effects that are not known.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import NamedTuple

__all__ = ["Argument", "Effect", "Share", "effect_of"]


class Argument(NamedTuple):
    """A parameter of an operator; `position` is None for a keyword-only one.

    `unless` is a flag without which it is not written (`training`).
    """

    name: str
    position: int | None
    unless: Argument | None = None


class Share(NamedTuple):
    """What a result shares memory with: an argument, or perhaps any (None); `sure` unless it may be a copy."""

    argument: Argument | None
    sure: bool


class Effect(NamedTuple):
    """What an operator does to memory.

    `written` are the arguments that it writes; with `metadata` it changes what they are views of, not what is in
    memory; `pointwise`: each element depends on those at its own position only. `results` says of each result what it
    shares memory with, None for memory of its own; empty where all have. `twin`
    computes what is written without writing it ("" where no operator does).
    """

    written: tuple[Argument, ...] = ()
    metadata: bool = False
    results: tuple[Share | None, ...] = ()
    twin: str = ""
    pointwise: bool = False


@cache
def _table() -> dict[str, Effect]:
    text = files(__package__).joinpath("aliases.tsv").read_text("utf-8")
    table = {}
    plain = Effect()
    for line in text.splitlines():
        name, *rest = line.split("\t")
        table[name] = _effect(*rest) if rest else plain
    return table


def _effect(written: str, results: str = "", twin: str = "", traits: str = "") -> Effect:
    arguments = tuple(_argument(text.removeprefix("~")) for text in written.split(",") if text)
    shares = tuple(None if text == "-" else _share(text) for text in results.split(",") if text)
    return Effect(arguments, written.startswith("~"), shares, twin, traits == "pointwise")


def _argument(text: str) -> Argument:
    place, _, flag = text.partition("/")
    name, _, position = place.partition("@")
    return Argument(name, int(position) if position else None, _argument(flag) if flag else None)


def _share(text: str) -> Share:
    plain = text.removesuffix("?")
    return Share(_argument(plain) if plain else None, plain == text)


@cache
def _packets() -> dict[str, list[str]]:
    packets: dict[str, list[str]] = {}
    for name in _table():
        packets.setdefault(name.rpartition(".")[0], []).append(name)
    return packets


def effect_of(name: str, keywords: Collection[str] = ()) -> Effect | None:
    """The effect of `aten.add_.Tensor`, or of a packet, `aten.add_`, as far as its overloads agree; None if not known.

    `keywords` are those of the call: overloads that write a keyword-only argument which is not given are not meant.
    """
    if (found := _table().get(name)) is not None:
        return found
    space, plain, *_ = *name.split("."), ""
    packet = f"{space}.{plain}"
    overloads = [_table()[overload] for overload in _packets().get(packet, ())]
    meant = [e for e in overloads if all(a.position is not None or a.name in keywords for a in e.written)]
    outs = [e for e in meant if any(a.position is None for a in e.written)]
    meant = outs or meant
    if meant and all(effect[:3] == meant[0][:3] for effect in meant):
        return meant[0]._replace(twin=meant[0].twin.rpartition(".")[0])
    return Effect(results=(Share(None, False),)) if meant and not any(effect.written for effect in meant) else None
