"""Arguments of `verify` that are no such thing, said before anything is read or run."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from scalify_dl.errors import InputError
from scalify_dl.prove.options import Options

if TYPE_CHECKING:
    from scalify_dl.readers.relations import Relations

__all__ = ["a", "files", "of_live_programs", "options", "path", "relations", "sizes_of_axes", "texts", "with_hints"]


def a(value: Any) -> str:
    """The type of a value, with its article: `an int`."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


P = ParamSpec("P")
R = TypeVar("R")


def with_hints(also: Callable[..., Any] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorates a function that says of a misspelt argument which one is meant: one of its own, or of `also`, which it
    hands the others to."""

    def decorated(function: Callable[P, R]) -> Callable[P, R]:
        names = {name for of in (function, also) if of is not None for name in inspect.signature(of).parameters}

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            __tracebackhide__ = True
            for key in kwargs.keys() - names:
                near = get_close_matches(key, names, 1, 0.5)
                meant = f"; did you mean `{near[0]}`?" if near else f"; it has {', '.join(sorted(names - {'options'}))}"
                raise TypeError(f"{function.__name__}() has no argument `{key}`{meant}")
            return function(*args, **kwargs)

        return called

    return decorated


def path(name: str, value: Any) -> Path | None:
    """One path, or none."""
    if value is None:
        return None
    if not isinstance(value, str | PathLike):
        raise InputError(f"`{name}` is {a(value)}", expected="the path of a file")
    return Path(value)


def relations(value: Any) -> Path | Relations | None:
    """A relations file, or what one would say as a mapping."""
    if not isinstance(value, Mapping):
        return path("relate", value)
    from scalify_dl.readers.relations import parse_relations

    try:
        return parse_relations(json.dumps(value, ensure_ascii=False), file="`relate`")
    except (TypeError, ValueError) as error:
        raise InputError(f"`relate` says what no file can: {error}", expected='relate={"inputs": {"w1": …}}') from None


def texts(name: str, value: Any) -> tuple[str, ...]:
    """Several texts or paths; one alone will do, and None is none."""
    if value is None:
        return ()
    several = [value] if isinstance(value, str | PathLike) else value
    if isinstance(several, Mapping) or not isinstance(several, Sequence):
        raise InputError(f"`{name}` is {a(value)}", expected="a list of texts")
    for item in several:
        if not isinstance(item, str | PathLike):
            raise InputError(f"`{name}` has {a(item)} in it", expected="a list of texts")
    return tuple(map(str, several))


def files(value: Any) -> list[str]:
    """The dumps of the distributed side."""
    found = texts("dist", value)
    if not found:
        raise InputError("`dist` is an empty list", expected="a dump, or one for each rank")
    return list(found)


def options(rules: Any, strict: bool, accept: Any, timeout: Any, max_memory: Any, refute: bool) -> Options:
    """Options of the proof, as the command line has them."""
    limits: tuple[tuple[str, Any, Any, str], ...] = (
        ("timeout", timeout, int | float, "seconds"),
        ("max_memory", max_memory, int, "MB"),
    )
    for name, value, kinds, unit in limits:
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) or not 0 < value < 2**40):
            raise InputError(f"`{name}` is {value!r}", expected=f"a number of {unit} above 0")
    return Options(
        rules=tuple(map(Path, texts("rules", rules))),
        strict=strict,
        accept=path("accept", accept),
        timeout=timeout,
        max_memory=max_memory,
        refute=refute,
    )


def of_live_programs(given: Mapping[str, Any]) -> None:
    """What says how programs are called says nothing of dumps."""
    for name, value in given.items():
        if value is not None and value is not False:
            raise InputError(f"`{name}` is for live programs, and `base` is a dump")


def sizes_of_axes(mesh: Mapping[Any, Any]) -> dict[str, int]:
    """Axes of a mesh and their sizes."""
    if not mesh:
        raise InputError("the mesh has no axes", expected='mesh={"tp": 2}')
    for axis, size in mesh.items():
        if not isinstance(axis, str) or not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise InputError(f"`mesh` has {axis!r}: {size!r}", expected='names and sizes: mesh={"dp": 2, "tp": 4}')
    return dict(mesh)
