"""Commands and their arguments, declared by annotations, and read where what is written leaves no question.

    def run(facts: Annotated[Path, Argument("FACTS")], json: Annotated[bool, Option("--json")] = False) -> int: ...

`read` understands plain argument lists only: options by their full names, numbers in digits. For anything else (help,
a mistake, `-ab`, `--`) it gives None, and the command line of `typer_app.py` is asked, which knows all of it, and takes
longer to import than a small proof takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin

_F = TypeVar("_F", bound=Callable[..., Any])


class Argument:
    """A value by its place. A list takes all that are left."""

    def __init__(self, metavar: str, help: str = "") -> None:
        self.metavar, self.help = metavar, help


class Option:
    """A value by its name, `--` and the parameter's where none is given. A list takes one each time it is named.

    `check` gives the value, or ValueError for one that is none; numbers are `least` or more.
    """

    def __init__(
        self,
        *names: str,
        metavar: str | None = None,
        help: str = "",
        check: Callable[[Any], Any] | None = None,
        least: int | None = None,
    ) -> None:
        self.names, self.metavar, self.help, self.check, self.least = names, metavar, help, check, least


class Command:
    """A function that `get` gives, under a name, perhaps in a group. In place of its parameters named in `makers` stand
    those of a function that makes the argument. It gives an exit status (none: 0)."""

    def __init__(
        self, name: str, get: Callable[[], Callable[..., Any]], makers: Mapping[str, Callable[..., Any]], group: str
    ) -> None:
        self.name, self.get, self.makers, self.group = name, get, makers, group

    def parameters(self) -> list[Parameter]:
        """What may be said on the command line."""
        own = signature(self.get(), eval_str=True).parameters
        return [p for name, one in own.items() for p in self._of_maker(name) or [one]]

    def _of_maker(self, name: str) -> list[Parameter]:
        maker = self.makers.get(name)
        return list(signature(maker, eval_str=True).parameters.values()) if maker else []

    def __call__(self, **given: Any) -> int:
        taken = {name: [p.name for p in self._of_maker(name)] for name in self.makers}
        made = {name: make(**{p: given.pop(p) for p in taken[name]}) for name, make in self.makers.items()}
        return self.get()(**given, **made) or 0


def entering(commands: list[Command]) -> Callable[..., Callable[[_F], _F]]:
    """A decorator that enters functions as commands there, by their own name or another, perhaps in a group; keywords
    are `makers`."""

    def command(name: str = "", group: str = "", **makers: Callable[..., Any]) -> Callable[[_F], _F]:
        def enter(function: _F) -> _F:
            commands.append(Command(name or function.__name__, lambda: function, makers, group))
            return function

        return enter

    return command


class _Doubtful(Exception):
    """What is written is not plain."""


def read(commands: Sequence[Command], argv: Sequence[str]) -> tuple[Command, dict[str, Any]] | None:
    """The command that is named and its arguments by name; None where anything is out of the ordinary."""
    for command in commands:
        named = [command.group, command.name] if command.group else [command.name]
        if list(argv[: len(named)]) == named:
            try:
                return command, _Reading(command).read(argv[len(named) :])
            except (_Doubtful, ValueError):
                return None
    return None


class _Reading:
    def __init__(self, command: Command) -> None:
        self.places: list[Parameter] = []
        self.names: dict[str, Parameter] = {}
        self.given: dict[str, Any] = {}
        self.parameters = command.parameters()
        for p in self.parameters:
            said = _said(p)
            if isinstance(said, Argument):
                self.places.append(p)
            else:
                for name in said.names or ("--" + p.name.replace("_", "-"),):
                    self.names[name] = p

    def read(self, words: Sequence[str]) -> dict[str, Any]:
        placed: list[str] = []
        rest = iter(words)
        for word in rest:
            if not word.startswith("-"):
                placed.append(word)
                continue
            name, equals, value = word.partition("=")
            p = self.names.get(name)
            if p is None or (equals and not name.startswith("--")):
                raise _Doubtful
            if _type(p) is bool:
                if equals or p.name in self.given:
                    raise _Doubtful
                self.given[p.name] = True
            else:
                self._take(p, value if equals else next(rest, ""))
        self._place(placed)
        for p in self.parameters:
            if p.name not in self.given:
                if p.default is Parameter.empty:
                    raise _Doubtful
                self.given[p.name] = p.default
        return self.given

    def _take(self, p: Parameter, word: str) -> None:
        value = _value(p, word)
        if get_origin(_type(p)) is list:
            self.given.setdefault(p.name, []).append(value)
        elif p.name in self.given:
            raise _Doubtful
        else:
            self.given[p.name] = value

    def _place(self, words: list[str]) -> None:
        for p in self.places:
            many = get_origin(_type(p)) is list
            if many and p is not self.places[-1]:
                raise _Doubtful
            for word in words if many else words[:1]:
                self._take(p, word)
            words = [] if many else words[1:]
        if words:
            raise _Doubtful


def _said(p: Parameter) -> Argument | Option:
    said = get_args(p.annotation)[1]
    assert isinstance(said, Argument | Option)
    return said


def _type(p: Parameter) -> Any:
    """The type of a parameter; that beside None, where None is its default."""
    type_ = get_args(p.annotation)[0]
    return get_args(type_)[0] if isinstance(type_, UnionType) else type_


_PLAIN = {int: re.compile(r"\d{1,15}"), float: re.compile(r"\d{1,15}(\.\d{1,15})?")}


def _value(p: Parameter, word: str) -> Any:
    type_, said = _type(p), _said(p)
    type_ = get_args(type_)[0] if get_origin(type_) is list else type_
    if not word or word.startswith("-"):
        raise _Doubtful
    if type_ in _PLAIN and not _PLAIN[type_].fullmatch(word):
        raise _Doubtful
    if type_ not in (str, Path, *_PLAIN):
        raise _Doubtful
    value = type_(word)
    if isinstance(said, Option):
        if said.least is not None and value < said.least:
            raise _Doubtful
        if said.check is not None:
            value = said.check(value)
    return value
