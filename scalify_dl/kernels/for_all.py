"""Kernels at all sizes of some names: proved on formulas (`any_size`), refuted at sizes that are tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any

from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.tir import read_kernel
from scalify_dl.readers.tir.syntax import Kernel
from scalify_dl.sizes import quotient, symbols, terms_of

from .any_size.decide import Answer, Read, Stated, for_all_sizes, of_kernel
from .any_size.stated import of_name
from .decide import ERASED, Judgement, Spec, erased, judge
from .domain import Undecided
from .specs import decided, is_kernel, spec_of

TRIED = (4, 2, 3, 2)
AGAIN = (2, 3, 4, 3)
"""Values of names that are tried, in turn, and how many blocks; others where the first ones refute nothing."""
ALSO = 4.0
"""Seconds of CPU for a run on numbers of what is proved."""


def decided_for_all(
    file: Path, function: str | None, named: str | None, spec: Path | None, known: Mapping[str, Any],
    names: Sequence[str], seconds: float = 60.0, *, reals: bool = False,
) -> tuple[Kernel, Spec, Judgement]:  # fmt: skip
    """The kernel at sizes that were tried, what is stated, and whether it computes that at all sizes."""

    read = _reading(file, function, named, spec, known, reals=reals)
    answer = for_all_sizes(names, read, seconds, reals=reals)
    sizes = _tried(answer.sizes, TRIED)
    kernel = read_kernel(file, {**known, **sizes}, function)
    if answer.proved:
        stated = spec_of(kernel, named, spec, {**known, **sizes})
        found = judge(kernel, stated, min(seconds, ALSO), prove=False)
    else:
        stated, found = decided(kernel, named, spec, {**known, **sizes}, seconds, reals=reals)
        other = _tried(answer.sizes, AGAIN)
        if found.verdict is not Verdict.REFUTED and other != sizes:
            again = read_kernel(file, {**known, **other}, function)
            more, judged = decided(again, named, spec, {**known, **other}, min(seconds, ALSO), reals=reals)
            if judged.verdict is Verdict.REFUTED:
                kernel, stated, found, sizes = again, more, judged, other
    found.sizes = sizes
    if found.verdict is Verdict.REFUTED:
        return kernel, stated, found
    found.for_all, found.alike = _multiples(answer), []
    without = answer.proved and _erased(kernel, stated, answer)
    if answer.proved and not without:
        found.verdict, found.reason, found.flaws = Verdict.PROVED, "", []
        found.assumptions = list(dict.fromkeys(answer.assumptions))
        return kernel, stated, found
    where = f"{kernel.file}:{answer.line}: " if answer.line else ""
    at = ", ".join(f"{name}={value}" for name, value in sizes.items())
    found.reason = without or f"for all sizes: {where}{answer.reason}; at {at} it is {found.verdict.value}"
    found.verdict = Verdict.UNKNOWN
    return kernel, stated, found


def decided_at(
    file: Path, function: str | None, named: str | None, spec: Path | None, known: Mapping[str, Any],
    seconds: float = 60.0, *, reals: bool = False,
) -> tuple[Kernel, Spec, Judgement]:  # fmt: skip
    """The kernel at the sizes that are said, what is stated, and whether it computes that: element by element, and
    where that tells nothing, as for all sizes."""
    kernel = read_kernel(file, known, function)
    stated, found = decided(kernel, named, spec, known, seconds, reals=reals)
    if found.verdict is Verdict.UNKNOWN and found.undecided and not found.flaws:
        answer = for_all_sizes((), _reading(file, function, named, spec, known, reals=reals), ALSO, reals=reals)
        if answer.proved:
            found.reason = _erased(kernel, stated, answer)
            if not found.reason:
                found.verdict, found.alike = Verdict.PROVED, []
                found.assumptions = list(dict.fromkeys(answer.assumptions))
    return kernel, stated, found


def _erased(kernel: Kernel, stated: Spec, answer: Answer) -> str:
    """Why conditions that formulas need prove nothing; empty where they leave nothing out."""
    try:
        return ERASED if erased(kernel, stated, answer.assumptions, ALSO) else ""
    except Undecided as error:
        return f"what conditions leave out was not tried: {error}"


def _reading(
    file: Path, function: str | None, named: str | None, spec: Path | None, known: Mapping[str, Any], *, reals: bool
) -> Read:
    """The kernel at sizes, and what is stated of it."""

    def read(sizes: Mapping[str, Any]) -> tuple[Kernel, Stated]:
        kernel = read_kernel(file, {**known, **sizes}, function)
        if named is not None:
            return kernel, of_name(named)
        assert spec is not None
        if not is_kernel(spec):
            return kernel, _none_for_programs
        other = read_kernel(spec, {**known, **sizes})
        same = zip([b.name for b in other.inputs], [b.name for b in kernel.inputs], strict=True)
        return kernel, of_kernel(other, dict(same), reals=reals)

    return read


def _none_for_programs(*_: Any) -> Any:
    raise Undecided("a program has one size: for all sizes --spec takes a kernel")


def _tried(sizes: Mapping[str, int], tried: Sequence[int]) -> dict[str, int]:
    """Small values of the names, as much multiples as they have to be."""
    values: dict[str, int] = {}
    for size in sizes.values():
        for name in symbols(size):
            values.setdefault(name, tried[3] if "/" in name else tried[len(values) % 3])
    return {
        name: sum(prod([values[n] for n in monomial], start=c) for monomial, c in terms_of(size).items())
        for name, size in sizes.items()
    }


def _multiples(answer: Answer) -> dict[str, str]:
    """For each name the product of names that it is a multiple of; nothing where it may be any number above 0."""
    found = {}
    for name, size in answer.sizes.items():
        factors, left = [], size
        for other, of in answer.sizes.items():
            whole = quotient(left, of) if other != name else None
            if whole is not None:
                factors.append(other)
                left = whole
        ((_, c),) = terms_of(left).items()
        found[name] = "·".join([*([str(c)] if c != 1 else []), *factors])
    return found
