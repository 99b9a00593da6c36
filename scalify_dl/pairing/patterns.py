"""Stars of a relations file: `layers.*.w1: {base: blocks.*.gate.weight}` says of every layer what its own name says.

A star of a key stands for some text of the name that the key fits; as many stars in what the entry names stand for the
same texts, in their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from scalify_dl.ir.graph import Port, Tensor
from scalify_dl.readers.relations import ConcatRelation

from .pairing import Finder, find

__all__ = ["NAME", "Entry", "each_concat", "filled", "plain", "starred"]


def filled(text: str, key: str, port: Port) -> str:
    """What an entry names, for one of the ports that its key fits."""
    if "*" not in text or text.count("*") != key.count("*") or re.search(r"[\[?]", key):
        return text
    like = re.compile("(.*)".join(map(re.escape, key.split("*"))))
    names = [name for name in (port.path, port.tensor.name) if name]
    match = next((m for name in names if (m := like.fullmatch(name))), None)
    if match is None:
        return text
    first, *rest = text.split("*")
    return first + "".join(stands + after for stands, after in zip(match.groups(), rest, strict=True))


def each_concat(relations: Iterable[ConcatRelation], base: Sequence[Port]) -> list[ConcatRelation]:
    """`concat:` entries, one for each input of the baseline that the key of one with stars fits."""
    found = []
    for one in relations:
        at = find(base, one.base) if any("*" in of for of in one.of) else []
        if len(at) > 1 or (at and "*" in one.base):
            for port in (base[n] for n in at):
                name = port.path or port.tensor.name
                found.append(one._replace(base=name, of=tuple(filled(of, one.base, port) for of in one.of)))
        else:
            found.append(one)
    return found


@dataclass(frozen=True)
class Entry:
    """What a relations file says of an input: its key, the names in it, and the text, in which `NAME` is one of them.

    `count` is how many inputs it speaks of."""

    key: str
    names: tuple[str, ...]
    text: str
    count: int = 1

    def written(self) -> str:
        """The names in their places, behind the key."""
        parts = self.text.split(NAME)
        said = parts[0] + "".join(plain(n) + part for n, part in zip(self.names, parts[1:], strict=True))
        return f"{plain(self.key)}: {said}"


NAME = "\0"


def plain(text: str) -> str:
    """A YAML string, without quotes where it needs none."""
    bare = _PLAIN.fullmatch(text) and text.lower() not in _WORDS
    return text if bare else json.dumps(text, ensure_ascii=False)


_PLAIN = re.compile(r"[A-Za-z_][\w.*]*")
_WORDS = frozenset(("null", "true", "false", "yes", "no", "on", "off", "y", "n"))
"""What YAML takes for something else than text."""

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)|^\d+(?=\.)|(?<=\.)\d+$")


def starred(entries: Sequence[Entry], ports: Sequence[Port]) -> list[Entry]:
    """The same with stars for the numbers of layers, where all entries of a pattern say the same and the pattern fits
    no other port."""
    finder = Finder(ports)
    alike: dict[Entry, list[Entry]] = {}
    for entry in entries:
        alike.setdefault(_general(entry), []).append(entry)
    found: list[Entry] = []
    for general, group in alike.items():
        keys = {n for entry in group for n in finder.find(entry.key)}
        whole = len(group) > 1 and set(finder.find(general.key)) == keys
        said = whole and all(_says(general, entry) for entry in group)
        found += [replace(general, count=len(group))] if said else group
    return found


def _general(entry: Entry) -> Entry:
    """With stars for its numbers, where all of its names have those of the key."""
    numbers = _NUMBER.findall(entry.key)
    if not numbers or any(_NUMBER.findall(name) != numbers for name in entry.names):
        return entry
    return Entry(_NUMBER.sub("*", entry.key), tuple(_NUMBER.sub("*", name) for name in entry.names), entry.text)


def _says(general: Entry, entry: Entry) -> bool:
    """Whether stars stand for the numbers, and so give the names of the entry."""
    port = Port(Tensor("", ()), entry.key)
    return all(filled(text, general.key, port) == name for text, name in zip(general.names, entry.names, strict=True))
