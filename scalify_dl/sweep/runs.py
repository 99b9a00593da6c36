"""Runs the pairs of a sweep, several at once, each in a process of its own, and keeps what each found in a folder.

A result is kept under a key of all that it follows from: the files that are read, what is asked, and this package. A
sweep that is started again does what is lacking. Sweeps on several machines may share the folder: whoever holds the
lock of a run does it, and the lock of one that dies is free again.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import scalify_dl
from scalify_dl.errors import InputError
from scalify_dl.project import Pair
from scalify_dl.whole import write_whole

try:
    import fcntl
except ImportError:  # no such locks on this system: one sweep a folder
    fcntl = None  # type: ignore[assignment]

PACKAGE = Path(scalify_dl.__file__).parent
ATTEMPTS = 2
"""How often a run is begun whose process is killed."""
_SPARE = 30.0
"""Seconds that a process gets beyond twice its --timeout before it is killed."""
_AGAIN = 0.2
"""Seconds between looks at a run that another sweep is doing."""

Result = dict[str, Any]
"""`name`, `key`, `seconds`, and either `report` (as --json prints it) or `error` (why there is none)."""


def sweep(pairs: Mapping[str, Pair], folder: Path, jobs: int, said: Callable[[Result], None]) -> list[Result]:
    """The results of all runs, in their order; `said` is told each as it comes."""
    folder.mkdir(parents=True, exist_ok=True)
    stopping: list[bool] = []

    def one(pair: Pair) -> Result:
        result = _result(pair, folder, stopping)
        if not stopping:
            said(result)
        return result

    with ThreadPoolExecutor(jobs) as pool:
        futures = [pool.submit(one, pair) for pair in pairs.values()]
        try:
            return [future.result() for future in futures]
        except BaseException:
            stopping.append(True)
            for future in futures:
                future.cancel()
            raise


def command(pair: Pair) -> list[str]:
    """The arguments of `dlverify` that verify a pair."""
    words = ["run", str(pair.facts)] if pair.facts else ["verify", str(pair.base), *map(str, pair.dist)]
    for option, value in (
        ("--mesh", pair.mesh if not pair.facts else ""), ("--relate", pair.relate), ("--accept", pair.accept),
        ("--timeout", pair.timeout), ("--max-memory", pair.max_memory),
    ):  # fmt: skip
        words += [option, str(value)] if value else []
    for option, values in (("--size", pair.sizes), ("--rules", pair.rules)):
        for value in values:
            words += [option, str(value)]
    return [*words, *(["--strict"] if pair.strict else []), "--json"]


def key(pair: Pair) -> str:
    """A hash of all that the result of a run follows from; InputError for a file that cannot be read."""
    whole = hashlib.sha256(package_hash().encode())
    whole.update(json.dumps(command(pair)).encode())
    for file in _files(pair):
        whole.update(b"\0" + str(file).encode() + b"\0" + _hashed(file).encode())
    return whole.hexdigest()


@cache
def package_hash() -> str:
    """Of the verifier's own code and rules, and of the language that runs it."""
    whole = hashlib.sha256(sys.version.encode())
    for folder in (PACKAGE, PACKAGE.parent / "datalog"):
        for file in sorted(folder.rglob("*")):
            if file.suffix in (".py", ".dl", ".so", ".json") and file.is_file():
                whole.update(str(file.relative_to(PACKAGE.parent)).encode() + file.read_bytes())
    return whole.hexdigest()


def _files(pair: Pair) -> Iterator[Path]:
    """All files that a run may read: those named, what front ends wrote beside them, what rules include."""
    pair.there()
    if pair.facts is not None:
        if not pair.facts.is_dir():
            raise InputError("no such directory", file=pair.facts, expected="a directory of fact tables")
        yield from sorted(file for file in pair.facts.rglob("*") if file.is_file())
    dumps = [pair.base, *pair.dist] if pair.base else []
    for file in (*dumps, pair.relate, pair.accept):
        if file is not None:
            yield file
    for file in dumps:
        stem = file.name.removesuffix(".txt").removesuffix(".fx") if file.suffix == ".txt" else file.stem
        beside = file.with_name(f"{stem}.json")
        if beside.is_file():
            yield beside
    if pair.rules:
        from scalify_dl.prove.own_rules import read_own  # where there are such files
        from scalify_dl.pysouffle import rules_dir

        yield from sorted(read_own(pair.rules, rules_dir()))


def _hashed(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", file=file) from None


def _result(pair: Pair, folder: Path, stopping: list[bool]) -> Result:
    """What is kept of a run, or what its process finds now."""
    try:
        wanted = key(pair)
    except InputError as error:
        return {"name": pair.name, "key": "", "seconds": 0.0, "error": str(error)}
    place = folder / f"{_file_name(pair.name)}.json"
    while True:
        with _claimed(folder / ".claims" / place.name) as mine:
            found = kept(place, pair.name, wanted)
            if found is not None:
                return found
            if mine:
                result = {"name": pair.name, "key": wanted, **_verified(pair, stopping)}
                if not stopping and not result.pop("killed", False):
                    body = json.dumps(result, ensure_ascii=False)
                    write_whole(place, f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}\n")
                return result
        if stopping:
            return {"name": pair.name, "key": wanted, "seconds": 0.0, "error": "interrupted"}
        time.sleep(_AGAIN)


def kept(place: Path, name: str, wanted: str) -> Result | None:
    """The result in a file, if it is whole, of this run, and of these inputs."""
    try:
        digest, body = place.read_text("utf-8").split("\n", 1)
        body = body.removesuffix("\n")
        result = json.loads(body) if hashlib.sha256(body.encode()).hexdigest() == digest else {}
    except (OSError, ValueError):
        return None
    return result if result.get("name") == name and result.get("key") == wanted else None


def _file_name(name: str) -> str:
    """A name of a file that no other run has; short enough for every system."""
    text = quote(name, safe=" =,+-_")
    return text if len(text) < 120 else f"{text[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:16]}"


@contextmanager
def _claimed(lock: Path) -> Iterator[bool]:
    """Whether this sweep alone may do a run meanwhile."""
    if fcntl is None:
        yield True
        return
    lock.parent.mkdir(exist_ok=True)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = True
        except OSError:
            mine = False
        yield mine
    finally:
        os.close(descriptor)


def _verified(pair: Pair, stopping: list[bool]) -> Result:
    """The report of a process of its own, or why there is none."""
    begun = time.monotonic()
    limit = None if pair.timeout is None else 2 * pair.timeout + _SPARE
    text, words, status = "", "", 0
    for _ in range(ATTEMPTS):
        text, words, status = _ran(command(pair), limit, stopping)
        if status >= 0 or stopping:
            break
    result: Result = {"seconds": round(time.monotonic() - begun, 2)}
    with suppress(ValueError):
        return result | {"report": json.loads(text)}
    if status < 0:
        return result | {"error": f"its process was ended by signal {-status}", "killed": True}
    said = "; ".join(line.strip() for line in words.removeprefix("dlverify: ").splitlines() if line.strip())
    return result | {"error": said or f"its process ended with status {status}"}


def _ran(arguments: list[str], limit: float | None, stopping: list[bool]) -> tuple[str, str, int]:
    """What `dlverify` printed, what it said on standard error, and its status (below 0: a signal)."""
    path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "scalify_dl", *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=errors,
            env=os.environ | {"PYTHONPATH": path},
        )  # fmt: skip
        begun = time.monotonic()
        while process.poll() is None:
            if stopping or (limit is not None and time.monotonic() - begun > limit):
                process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        out.seek(0)
        errors.seek(0)
        return out.read().decode("utf-8", "replace"), errors.read().decode("utf-8", "replace"), process.returncode
