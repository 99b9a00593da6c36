"""Which distributed input and output stands for which baseline value.

Keys of a relations file are positions (`#9`, `9`), names, paths, or globs over names and paths. Without a relation,
values pair by path (argument path, parameter name, descriptor) where both sides have it, or have it but for one module
around all of them (`model.up.weight` and `up.weight`), else by position among what is left. SSA names never pair
anything: they differ by accident. Names of arguments that stand in another order on both sides pair only where types
leave no other way: a call gives arguments by position.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Port, Tensor
from scalify_dl.yaml_nodes import Place


class Finder:
    """Ports by what names them."""

    def __init__(self, ports: Sequence[Port]) -> None:
        self.ports = ports
        self.exact: dict[str, list[int]] = {}
        for n, port in enumerate(ports):
            for name in {port.tensor.name, port.path, port.alias} - {None}:
                self.exact.setdefault(str(name), []).append(n)

    def find(self, key: str) -> list[int]:
        """Positions of the ports that a key names: exact name or path, else position, else glob."""
        if key in self.exact:
            return self.exact[key]
        match = re.fullmatch(r"#?(\d{1,9})", key)
        if match:
            position = int(match[1])
            return [position] if position < len(self.ports) else []
        return [
            n
            for n, port in enumerate(self.ports)
            if fnmatchcase(port.tensor.name, key) or (port.path is not None and fnmatchcase(port.path, key))
        ]


def find(ports: Sequence[Port], key: str) -> list[int]:
    """Positions of the ports that a key names."""
    return Finder(ports).find(key)


def find_one(ports: Sequence[Port], key: str, place: Place, what: str) -> int:
    """The one port that a key names; InputError otherwise."""
    found = find(ports, key)
    if len(found) == 1:
        return found[0]
    if not found:
        names = [name for port in ports for name in (port.path, port.tensor.name) if name]
        near = get_close_matches(key, names, 1, 0.8)
        hint = f"did you mean `{near[0]}`?" if near else None
        raise place.error(f"no {what} `{key}`", expected=f"one of {listing(ports)}", hint=hint)
    raise place.error(f"`{key}` names {len(found)} {what}s", expected=f"one of {listing(ports)}")


def find_value(graph: Graph, key: str, place: Place) -> Tensor:
    """An output by position or name, an input, or any value of the graph by name."""
    found = find(graph.outputs, key)
    if len(found) == 1:
        return graph.outputs[found[0]].tensor
    named = [port.tensor for port in graph.inputs if port.tensor.name == key]
    named += [result for op in graph.ops for result in op.results if result.name == key]
    if not named and key in graph.aliases:
        named = [graph.aliases[key]]
    if len(named) != 1:
        problem = "no value" if not named else f"{len(named)} values"
        raise place.error(
            f"{problem} of {graph.file or graph.name} with the name `{key}`",
            expected=f"an output ({listing(graph.outputs)}) or any named value",
        )
    return named[0]


def by_name(
    base: Sequence[Port], dist: Sequence[Port], given: Mapping[int, int], done: Iterable[int]
) -> dict[int, int]:
    """Pairs of the ports that have one path on both sides, or the same one within one module more, without those that
    are given or need no partner: distributed position → baseline position."""
    base_paths = _by_path(base, given.values())
    dist_paths = _by_path(dist, {*done, *given})
    pairs = {position: base_paths[path] for path, position in dist_paths.items() if path in base_paths}
    taken = set(pairs.values())
    left = {path: n for path, n in base_paths.items() if n not in taken}
    ours = {path: n for path, n in dist_paths.items() if n not in pairs}
    return pairs | {ours[path]: left[name] for path, name in _under_another(ours, left).items()}


def pair_rest(
    base: Sequence[Port], dist: Sequence[Port], given: Mapping[int, int], done: Iterable[int], what: str, place: str
) -> dict[int, tuple[int, bool]]:
    """Pairs the ports that no relation paired: distributed position → (baseline position, by path?).

    `given` are pairs that relations state; `done` are distributed positions that need no partner. InputError that lists
    both sides where something stays alone.
    """
    pairs = {d: (b, True) for d, b in by_name(base, dist, given, done).items()}
    done = set(done) | set(given)
    used = set(given.values()) | {position for position, _ in pairs.values()}
    rest_dist = [n for n in range(len(dist)) if n not in done and n not in pairs]
    rest_base = [n for n in range(len(base)) if n not in used and base[n].tensor.dtype != "token"]  # tokens: settled
    if what == "input" and not rest_dist:
        return pairs  # the distributed program does not use what is left: compilers drop unused arguments
    if len(rest_dist) != len(rest_base):
        raise InputError(
            f"{place}: {len(rest_base)} baseline {what}s and {len(rest_dist)} distributed {what}s cannot be paired:\n"
            f"  baseline: {listing([base[n] for n in rest_base]) or 'none'}\n"
            f"  distributed: {listing([dist[n] for n in rest_dist]) or 'none'}",
            hint=f"pair them in the relations file (`{what}s:` with `base:`"
            f"{'; `of:` where one holds several in a row, `concat:` where several hold one' * (what == 'input')}),"
            " or by `relate={…}` in Python; `dlverify relate` writes a template of dumps (verify(keep=DIR) keeps them)",
        )
    pairs.update({d: (b, False) for d, b in zip(rest_dist, rest_base, strict=True)})
    return pairs


def _under_another(ours: Iterable[str], theirs: Iterable[str]) -> dict[str, str]:
    """Names of theirs by those of ours, where all of one side are all of the other with one module around them."""
    mine, other = {p: _FIELD.fullmatch(p) for p in ours}, {p: _FIELD.fullmatch(p) for p in theirs}
    for inner, outer, turned in ((mine, other, False), (other, mine, True)):
        first = next((m[2] for m in inner.values() if m), "")
        for name in (m[2] for m in outer.values() if m):
            around = name.removesuffix(first)
            if not first or not around.endswith(".") or not name.endswith(first):
                continue
            found = {p: f"{m[1]}{around}{m[2]}" for p, m in inner.items() if m}
            if len(found) == len(inner) and set(found.values()) == set(outer):
                return {there: here for here, there in found.items()} if turned else found
    return {}


_FIELD = re.compile(r"((?:grad |written )?)([A-Za-z_][\w.]*)")
"""What a parameter or buffer is called, and what is said of it."""


def by_order_alone(
    base: Sequence[Port], dist: Sequence[Port], pairs: Mapping[int, tuple[int, bool]], given: Iterable[int] = ()
) -> list[int]:
    """Distributed positions that pair with values of another name: a guess where both names are keys, which have no
    order, or other places, or where other pairs have moved them."""
    told = set(given)
    found = []
    for d, (b, by_path) in sorted(pairs.items()):
        ours, theirs = dist[d].path, base[b].path
        if by_path or d in told or ours is None or theirs is None or ours == theirs:
            continue
        parameters = dist[d].parameter and base[b].parameter
        if d != b or parameters or any(sort.search(ours) and sort.search(theirs) for sort in (_KEYED, _PLACED)):
            found.append(d)
    return found


_KEYED = re.compile(r"\[['\"]|\.[A-Za-z_]|^(grad|written) |^output \D")
"""Paths of a dict's item, an attribute, a parameter of a module."""
_PLACED = re.compile(r"^output \d")
"""Paths of values that a live program returns, by their place."""


def _by_path(ports: Sequence[Port], without: Iterable[int]) -> dict[str, int]:
    """Path → position, for paths that only one port has."""
    without = set(without)
    found: dict[str, int] = {}
    twice: set[str] = set()
    for n, port in enumerate(ports):
        if port.path is None or n in without:
            continue
        if port.path in found:
            twice.add(port.path)
        found[port.path] = n
    return {path: n for path, n in found.items() if path not in twice}


def listing(ports: Sequence[Port], limit: int = 12) -> str:
    """Ports for people: `#3 x f32[8,16]`, …"""
    shown = [f"{port.path or port.tensor.name} {port.tensor.type}" for port in ports[:limit]]
    return ", ".join(shown) + (f", … ({len(ports)} in all)" if len(ports) > limit else "")
