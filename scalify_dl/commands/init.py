"""`dlverify init`: a configuration and relations files, drafted from dumps. Nothing that was guessed is written as
given: what a relations file would have to say stands there as comments, for people to confirm."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.ir.mesh import Mesh
from scalify_dl.project import NAME
from scalify_dl.readers.sdy import DeviceMesh
from scalify_dl.whole import write_whole

from .progress import progress

_BASE = re.compile(r"(?P<stem>.+)\.base(?P<suffix>(\.fx\.txt|\.mlir|\.hlo|\.stablehlo|\.txt))")
_DIST = re.compile(r"\.(dist|r\d+)(\.fx\.txt|\.mlir|\.hlo|\.stablehlo|\.txt)")
_SDY = re.compile(r"^\s*sdy\.mesh\s+@\S+\s*=\s*(<.*?>)", re.MULTILINE)
_SKIPPED = frozenset({"node_modules", "build", "dist", "__pycache__"})
_HEAD_OF_ALL = "# Pairs that `dlverify verify` (all) and `dlverify verify NAME` verify. docs/testing.md\n\n"
_HEAD = """\
# Relations of {name}: what the dumps do not say. Nothing is said yet: what follows is inferred anew each time,
# and every verdict lists it as an assumption (why = shape, name or annotation). Take the `#` away from what you know to
# be so; a line that is right as it stands need not be said. docs/relations.md
"""


@dataclass(frozen=True)
class Found:
    """A pair of dumps, and their mesh (empty: not said)."""

    name: str
    base: Path
    dist: tuple[Path, ...]
    mesh: str


def init(dumps: Sequence[Path], mesh: str | None, name: str | None) -> int:
    """Write pairs into `dlverify.toml` here, behind those that are there, and a relations file for each that has
    something to be said; those whose mesh is not known are told. InputError, and nothing written, where none is, or
    nothing is new."""
    target = Path(NAME)
    there = _there(target)
    pairs = [_given(dumps, mesh, name)] if dumps else _lying_here(Path(), mesh)
    if not pairs:
        raise InputError(
            "no pair of dumps lies here",
            expected="NAME.base.fx.txt with NAME.r0.fx.txt …; NAME.base.mlir or .hlo with NAME.dist.mlir or .hlo",
            hint="dlverify init BASE DIST… --mesh tp=2 takes files of any name",
        )
    new = [pair for pair in pairs if pair.name not in there]
    if not new:
        raise InputError(
            f"{', '.join(pair.name for pair in pairs)} stands there already",
            file=target,
            hint="what is there is edited by hand, and not overwritten; --name gives the pair another name",
        )
    if unknown := [pair for pair in new if not pair.mesh]:
        files = " ".join(map(str, (unknown[0].base, *unknown[0].dist)))
        error = InputError(
            f"no dump says the mesh of {', '.join(pair.name for pair in unknown)}",
            expected="--mesh AXIS=N,…",
            hint=f"`dlverify init {files} --mesh AXIS=N` adds one pair"
            + ("; `dlverify init --mesh AXIS=N` drafts all on one mesh" if len(unknown) > 1 else ""),
        )
        new = [pair for pair in new if pair.mesh]
        if not new:
            raise error
        print(f"dlverify: left out: {error}", file=sys.stderr)
    text = target.read_text("utf-8").rstrip("\n") + "\n\n" if target.exists() else _HEAD_OF_ALL
    write_whole(target, text + "\n".join(line for pair in new for line in _table(pair, _relations(pair))))
    print(f"{target}: {', '.join(pair.name for pair in new)}")
    return 0


def _there(target: Path) -> set[str]:
    """The names of the pairs that a configuration has; InputError where it is none."""
    if not target.exists():
        return set()
    try:
        found = tomllib.loads(target.read_text("utf-8"))
    except (ValueError, OSError) as error:
        raise InputError(f"this is no TOML: {error}", file=target) from None
    pairs = found.get("pairs", {})
    return set(pairs) if isinstance(pairs, dict) else set()


def _given(dumps: Sequence[Path], mesh: str | None, name: str | None) -> Found:
    if len(dumps) < 2:
        raise InputError("no distributed program is given", expected="dlverify init BASE DIST…")
    for file in dumps:
        if not file.is_file():
            raise InputError("no such file", file=file, expected="a dump")
    stem = (m := _BASE.fullmatch(dumps[0].name)) and m["stem"]
    called = name or stem or dumps[0].name.split(".")[0]
    return Found(called, dumps[0], tuple(dumps[1:]), _mesh(dumps[1:], called, mesh))


def _lying_here(folder: Path, mesh: str | None) -> list[Found]:
    """Pairs of dumps in a folder and three levels below, by their names."""
    found: list[Found] = []
    for pattern in ("*", "*/*", "*/*/*", "*/*/*/*"):
        for base in sorted(folder.glob(pattern)):
            match = _BASE.fullmatch(base.name)
            if not match or _SKIPPED.intersection(base.parts) or any(part[0] == "." for part in base.parts):
                continue
            stem = match["stem"]
            dist = [
                f for f in base.parent.iterdir() if f.name.startswith(stem) and _DIST.fullmatch(f.name[len(stem) :])
            ]
            dist.sort(key=lambda f: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", f.name)])
            if dist:
                taken = {pair.name for pair in found}
                name = stem if stem not in taken else f"{base.parent.name}-{stem}"
                found.append(Found(name, base, tuple(dist), _mesh(dist, name, mesh)))
    return found


def _mesh(dist: Sequence[Path], name: str, given: str | None) -> str:
    """What the first rank's JSON says, or Shardy's mesh in a module; else what is given, or asked at a terminal; else
    empty."""
    noted = _noted(dist)
    if given is None or noted is None:
        return given or noted or _asked(name)
    if Mesh.parse(given) != Mesh.parse(noted):
        raise InputError(f"captured on {noted}, --mesh is {given}", file=dist[0], expected=f"--mesh {noted}")
    return given


def _noted(dist: Sequence[Path]) -> str | None:
    notes = dist[0].with_name(re.sub(r"\.fx\.txt$", "", dist[0].name) + ".json")
    if notes.is_file():
        try:
            said = json.loads(notes.read_text("utf-8")).get("mesh")
        except (ValueError, AttributeError, OSError, RecursionError):
            said = None
        if isinstance(said, dict) and all(isinstance(size, int) for size in said.values()):
            return ",".join(f"{axis}={size}" for axis, size in said.items())
    with suppress(OSError, InputError):
        named = _SDY.findall(dist[0].read_text("utf-8", "replace"))
        meshes = {DeviceMesh.parse(text).axes for text in named} - {()}
        if len(meshes) == 1:
            return ",".join(f"{axis}={size}" for axis, size in meshes.pop())
    return None


def _asked(name: str) -> str:
    if sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
        print(f"mesh of {name} (such as dp=2,tp=4): ", end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()
    return ""


def _relations(pair: Found) -> Path | None:
    """A relations file beside us, all of it comments, or the one that is there; None where there is nothing to be
    said."""
    target = Path(f"{re.sub(r'[^A-Za-z0-9_.-]', '_', pair.name)}.relations.yaml")
    if target.exists():
        return target  # edited by hand
    from scalify_dl.pairing.relate import HEAD, relations_template

    with progress("reading the programs"):
        text = relations_template(pair.base, pair.dist, pair.mesh).removeprefix(HEAD)
    worth = ("guessed", "ambiguous", "a partner", "no partner", "by position", "\n# ")
    if not any(word in text for word in worth):
        return None
    drafted = "".join(line if line.startswith("#") else f"# {line}" for line in text.splitlines(keepends=True))
    write_whole(target, _HEAD.format(name=pair.name) + drafted)
    return target


def _table(pair: Found, relations: Path | None) -> list[str]:
    def text(value: str) -> str:
        return json.dumps(value, ensure_ascii=False)

    name = pair.name if re.fullmatch(r"[A-Za-z0-9_-]+", pair.name) else text(pair.name)
    files = [text(file.as_posix()) for file in pair.dist]
    lines = [f"[pairs.{name}]", f"base = {text(pair.base.as_posix())}"]
    lines.append(f"dist = {files[0]}" if len(files) == 1 else f"dist = [{', '.join(files)}]")
    lines.append(f"mesh = {text(pair.mesh)}")
    if relations is not None:
        lines.append(f"relate = {text(relations.as_posix())}")
    return [*lines, ""]
