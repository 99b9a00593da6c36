"""A counterexample as a title and labelled lines, the same in all formats for people."""

from __future__ import annotations

from typing import Any

from .pattern import pattern

_TITLES = {
    "refutation": "Counterexample",
    "witness": "Witness (not a refutation: it rests on an invented meaning or a guess)",
    "precision": "Witness (not a refutation: it shows only where casts round)",
}


def _shape(sizes: list[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _numbers(expected: Any, actual: Any) -> tuple[str, str]:
    """Two numbers, with as many digits as tell them apart."""
    if isinstance(expected, float) and isinstance(actual, float):
        for digits in (6, 9, 12):
            texts = f"{expected:.{digits}g}", f"{actual:.{digits}g}"
            if texts[0] != texts[1]:
                return texts
    return str(expected), str(actual)


def counterexample_lines(found: dict[str, Any]) -> tuple[str, list[tuple[str, str]]]:
    """What `Counterexample.as_dict` of the oracle says, for people."""
    name = found.get("called", found["name"])
    lines = [("output", f"{name}, element {_shape(found['index'])} of {_shape(found['local_shape'])}")]
    lines.append(("on rank", str(found["rank"])))
    lines += zip(("expected", "actual"), _numbers(found["expected"], found["actual"]), strict=True)
    lines.append(("placed as", pattern(found["layout"], len(found["base_shape"]))))
    lines.append(("wrong", f"{100 * found['share_wrong']:.3g} % of the elements"))
    lines.append(("inputs", f"seed {found['seed']}, {found['draw']}, {found['sizes']} sizes"))
    if found["reason"]:
        lines.append(("because", found["reason"]))
    first = found["first_op"]
    if first is not None:
        there = first.get("base_name", first["base_op"])
        where = f", where the baseline has {there}" if there else ""
        lines.append(("first op", f"{first.get('name', first['op'])} ({first['kind']}){where}"))
    return _TITLES[found["kind"]], lines
