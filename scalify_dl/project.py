"""`dlverify.toml`, or `[tool.dlverify]` of `pyproject.toml`: named pairs, and how they are verified.

    strict = true                         # for all pairs: strict, accept, rules, timeout, max_memory

    [pairs.attention]
    base = "dumps/attention.base.fx.txt"
    dist = "dumps/attention.r*.fx.txt"    # a file, a glob, or a list of them
    mesh = "tp=4"
    relate = "attention.yaml"
    expect = "PROVED"                     # the verdict that is right, PROVED unless said

Paths are relative to the file. `dlverify verify attention` verifies one, `dlverify verify` all of them.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError

NAME = "dlverify.toml"
SHARED: dict[str, tuple[type, ...]] = {
    "strict": (bool,), "accept": (str,), "rules": (str, list), "timeout": (int, float), "max_memory": (int,),
}  # fmt: skip
_PAIR: dict[str, tuple[type, ...]] = {
    "base": (str,), "dist": (str, list), "mesh": (str, dict), "relate": (str,), "sizes": (str, list), "expect": (str,),
    "facts": (str,), **SHARED,
}  # fmt: skip
_PROPOSE: dict[str, tuple[type, ...]] = {
    "url": (str,), "model": (str,), "key_env": (str,), "timeout": (int, float), "max_tokens": (int,),
}  # fmt: skip
VERDICTS = ("PROVED", "REFUTED", "UNKNOWN")


@dataclass(frozen=True)
class Pair:
    """A named pair, with paths resolved."""

    name: str
    mesh: str = ""
    base: Path | None = None
    dist: tuple[Path, ...] = ()
    facts: Path | None = None
    relate: Path | None = None
    sizes: tuple[str, ...] = ()
    rules: tuple[Path, ...] = ()
    accept: Path | None = None
    strict: bool = False
    timeout: float | None = None
    max_memory: int | None = None
    expect: str = "PROVED"
    missing: InputError | None = None
    """Files that are not there: this pair is bad input, others are none the less what they are."""

    def there(self) -> None:
        """InputError where files are missing."""
        if self.missing is not None:
            raise self.missing


@dataclass(frozen=True)
class Project:
    """What a configuration says: its file, and pairs by name."""

    file: Path
    pairs: Mapping[str, Pair]
    propose: Mapping[str, Any] = field(default_factory=dict)
    """Where `dlverify propose` asks."""

    def pair(self, name: str) -> Pair:
        """A pair by name; InputError with those that there are."""
        if name in self.pairs:
            return self.pairs[name]
        near, some = get_close_matches(name, self.pairs, 1), sorted(self.pairs)
        named = ", ".join(some[:8]) + (f", … ({len(some)} in all)" if len(some) > 8 else "")
        raise InputError(
            f"no pair `{name}`", file=self.file, expected=f"one of {named}" if named else None,
            hint=f"did you mean `{near[0]}`?" if near else None,
        )  # fmt: skip


def find(start: Path | None = None) -> Project | None:
    """The configuration in a folder or the nearest one above it; None if there is none."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        if (folder / NAME).is_file():
            return load(folder / NAME)
        file = folder / "pyproject.toml"
        if file.is_file() and "[tool.dlverify" in file.read_text("utf-8", errors="replace"):
            return load(file)
    return None


def load(file: Path) -> Project:
    """Read a configuration; InputError names the key that is not understood."""
    try:
        content: Any = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        line = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
        text = re.sub(r" \(at .*\)", "", str(error))
        at = (int(line[1]), int(line[2])) if line else (0, 0)
        raise InputError(f"not TOML: {text}", file=file, line=at[0], column=at[1]) from None
    if file.name == "pyproject.toml":
        content = content.get("tool", {}).get("dlverify", {})
    shared = checked(content, {**SHARED, "pairs": (dict,), "propose": (dict,)}, file, "")
    listed = shared.pop("pairs", {})
    endpoint = checked(shared.pop("propose", {}), _PROPOSE, file, "propose")
    pairs = {name: named_pair(name, said, shared, file) for name, said in listed.items()}
    return Project(file, pairs, endpoint)


def named_pair(name: str, said: Any, shared: Mapping[str, Any], file: Path, where: str = "pairs.") -> Pair:
    """A pair from what a file says of it, and of all; InputError."""
    return _pair(name, checked(said, _PAIR, file, where + name), shared, file, where)


def checked(said: Any, allowed: Mapping[str, tuple[type, ...]], file: Path, where: str) -> dict[str, Any]:
    """A table with none but these keys, whose values are of their types; InputError."""
    name = f"[{where}]" if where else "the file"
    if not isinstance(said, dict):
        raise InputError(f"{name} is no table", file=file, expected=f"[{where}] with {', '.join(allowed)}")
    for key, value in said.items():
        if key not in allowed:  # of YAML, which has keys that are no texts
            near = get_close_matches(str(key), allowed, 1)
            hint = f"did you mean `{near[0]}`?" if near else None
            raise InputError(f"unknown key `{key}` in {name}", file=file, line=_line(file, str(key)), hint=hint,
                             expected=", ".join(allowed))  # fmt: skip
        if not isinstance(value, allowed[key]) or (isinstance(value, bool) and bool not in allowed[key]):
            words = {str: "text", list: "a list", dict: "a table", bool: "true or false"}
            kinds = dict.fromkeys(words.get(t, "a number") for t in allowed[key])
            raise InputError(f"`{key}` in {name} is {value!r}", file=file, line=_line(file, key),
                             expected=" or ".join(kinds))  # fmt: skip
    return dict(said)


def _line(file: Path, key: str) -> int:
    """The first line that says a key."""
    lines = file.read_text("utf-8").splitlines()
    return next((n for n, line in enumerate(lines, 1) if re.match(rf"\s*\"?{re.escape(key)}\"?\s*[=:]", line)), 0)


def _pair(name: str, own: dict[str, Any], shared: Mapping[str, Any], file: Path, where: str) -> Pair:
    said = {**shared, **own}
    folder = file.parent

    def error(message: str, expected: str) -> InputError:
        return InputError(f"[{where}{name}]: {message}", file=file, expected=expected)

    def path(text: Any) -> Path:
        if not isinstance(text, str):
            raise error(f"{text!r} is no path", "text")
        full = folder / text
        return full.relative_to(here) if full.is_relative_to(here := Path.cwd()) else full

    expect = said.get("expect", "PROVED")
    if expect not in VERDICTS:
        raise error(f"expect = {expect!r}", " or ".join(VERDICTS))
    rules = said.get("rules", [])
    pair = Pair(
        name,
        relate=path(said["relate"]) if "relate" in said else None,
        sizes=tuple(map(str, _list(said.get("sizes", [])))),
        rules=tuple(path(one) for one in _list(rules)),
        accept=path(said["accept"]) if "accept" in said else None,
        strict=said.get("strict", False),
        timeout=said.get("timeout"),
        max_memory=said.get("max_memory"),
        expect=expect,
    )
    for key in ("timeout", "max_memory"):
        if key in said and not 0 < said[key] < float("inf"):
            raise error(f"{key} = {said[key]}", "a number above 0")
    if twice := sorted({"base", "dist", "mesh", "relate", "sizes"} & own.keys()) if "facts" in own else []:
        raise error(f"`facts` and `{twice[0]}`", "a directory of facts, or two programs")
    if "facts" in said:
        return replace(pair, facts=path(said["facts"]))
    for key in ("base", "dist", "mesh"):
        if key not in said:
            raise error(f"no `{key}`", "base, dist and mesh; or facts, a directory")
    mesh = said["mesh"]
    text = mesh if isinstance(mesh, str) else ",".join(f"{axis}={size}" for axis, size in mesh.items())
    dist = [(path(one), _files(path(one))) for one in _list(said["dist"])]
    none = next((pattern for pattern, files in dist if not files), None)
    missing = error(f"`{none}` matches no file", "the dumps of the distributed program") if none is not None else None
    files = tuple(file for _, found in dist for file in found)
    return replace(pair, base=path(said["base"]), dist=files, mesh=text, missing=missing)


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list) else [value]


def _files(path: Path) -> list[Path]:
    """A file, or those that a glob matches, numbers in order."""
    if not any(mark in path.name for mark in "*?["):
        return [path]
    return sorted(
        path.parent.glob(path.name), key=lambda p: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", p.name)]
    )
