"""The real Soufflé behind `Program`: the executable on PATH, interpreted or compiled.

Our front end reads the program and the facts, so errors are the same ones. Soufflé gets the core program (flat, our
join orders as `.plan` on recursive rules), the facts as files, one thread; its output files are read back.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.pysouffle.directives import Format
from scalify_dl.pysouffle.embedded import EmbeddedEngine
from scalify_dl.pysouffle.errors import EvaluationError
from scalify_dl.pysouffle.proofs import Derivation, Obstacle, Proof
from scalify_dl.pysouffle.schema import Relation
from scalify_dl.pysouffle.stats import Stats
from scalify_dl.pysouffle.symbolic import Symbol
from scalify_dl.pysouffle.values import Row

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


def find_executable() -> str:
    """The path of `souffle`, or an error that says what to do."""
    found = shutil.which("souffle")
    if found is None:
        raise InputError(
            "Soufflé is not installed: there is no executable `souffle` on PATH",
            hint='install it from https://souffle-lang.github.io, or use engine="embedded"',
        )
    return found


class SouffleEngine(EmbeddedEngine):
    """Rows before a run are the facts; after it, what Soufflé wrote."""

    def __init__(
        self,
        name: str,
        text: str,
        include_dirs: list[str],
        defines: Mapping[str, str],
        word_size: int | None,
        *,
        compiled: bool,
    ) -> None:
        self._executable = find_executable()
        self._compiled = compiled
        self._version = _version(self._executable)
        native = re.search(r"[Ww]ord size:\s*(\d+)", self._version)
        bits = int(native[1]) if native else (word_size or 64)
        if word_size is not None and word_size != bits:
            raise InputError(
                f"this Soufflé was built with {bits}-bit numbers, not {word_size}", hint=f"use word_size={bits}"
            )
        super().__init__(name, text, include_dirs, defines, bits, checked=False)
        if self.session.functors():
            names = ", ".join(functor for functor, *_ in self.session.functors())
            raise InputError(
                f"the program declares functors ({names}): Soufflé takes them from a shared library, not from Python",
                hint='use engine="embedded"',
            )
        self._results: EmbeddedEngine | None = None
        self._names: list[str] = []

    def fresh(self, symbols: Sequence[Symbol] = ()) -> SouffleEngine:
        again = super().fresh(symbols)
        assert isinstance(again, SouffleEngine)
        again._results, again._names = None, []
        return again

    def functor(self, name: str, function: Callable[..., Any]) -> None:
        raise InputError("Soufflé cannot call Python functors", hint='use engine="embedded"')

    # ---- running

    def run(self, timeout: float, max_tuples: int, max_memory: int) -> None:
        if max_tuples:
            raise InputError("max_tuples is a guard of the embedded engine only", hint="use timeout or max_memory")
        self._results = None
        self.session.settle()
        given = [super(SouffleEngine, self).size(relation) > 0 for relation in self.relations.values()]
        program, self._names = self.session.souffle(given)
        with tempfile.TemporaryDirectory(prefix="souffle-") as temporary:
            folder = Path(temporary)
            facts, out = folder / "facts", folder / "out"
            facts.mkdir()
            out.mkdir()
            for relation, has_facts in zip(self.relations.values(), given, strict=True):
                if has_facts:
                    super().write(relation, facts / f"{self._names[relation.index]}.facts", Format())
            source = folder / "program.dl"
            source.write_bytes(program)
            arguments = ["-F", str(facts), "-D", str(out), "-j1"]
            if self._compiled:
                command = [str(self._binary(program, source)), *arguments]
            else:
                command = [self._executable, "-w", *arguments, str(source)]
            _call(command, timeout, max_memory)
            self._results = self._read_results(program.decode("utf-8", "surrogateescape"), out)

    def _binary(self, program: bytes, source: Path) -> Path:
        """The compiled program, made once per program text and Soufflé version."""
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scalify_dl" / "souffle"
        digest = hashlib.sha256(self._version.encode() + b"\0" + program).hexdigest()
        binary = cache / digest[:32]
        if not binary.exists():
            cache.mkdir(parents=True, exist_ok=True)
            draft = source.with_name("compiled")
            _call([self._executable, "-w", "-o", str(draft), str(source)], 0, 0)
            part = binary.with_name(f"{binary.name}.{os.getpid()}")
            shutil.move(draft, part)
            part.replace(binary)  # whole or not at all, also when two processes compile
        return binary

    def _read_results(self, program: str, out: Path) -> EmbeddedEngine:
        """The output files, in an engine that knows the declarations only."""
        declared = [line for line in program.splitlines() if line.startswith((".type ", ".decl "))]
        text = "\n".join(line.split(" choice-domain ")[0] for line in declared)
        results = EmbeddedEngine("<results>", text, [], {}, self.word_size, checked=False)
        for relation in self.relations.values():
            name = self._names[relation.index]
            path = out / f"{name}.csv"
            if "@" not in relation.name:
                results.session.read_file(results.relations[name].index, str(path), "\t", False, False, [])
        results.run(0, 0, 0)
        return results

    # ---- results

    def _result(self, relation: Relation) -> tuple[EmbeddedEngine, Relation]:
        if self._results is None:
            raise EvaluationError("run the program first")
        return self._results, self._results.relations[self._names[relation.index]]

    def rows(self, relation: Relation) -> list[Row]:
        results, named = self._result(relation)
        return results.rows(named)

    def array(self, relation: Relation) -> npt.NDArray[np.int64]:
        results, named = self._result(relation)
        return results.array(named)

    def symbol(self, identity: int) -> str:
        if self._results is None:
            raise EvaluationError("run the program first")
        return self._results.symbol(identity)

    def size(self, relation: Relation) -> int:
        results, named = self._result(relation)
        return results.size(named)

    def contains(self, relation: Relation, row: Row) -> bool:
        results, named = self._result(relation)
        return results.contains(named, row)

    def text(self, relation: Relation, form: Format) -> bytes:
        results, named = self._result(relation)
        return results.text(named, form)

    def write(self, relation: Relation, path: Path, form: Format) -> None:
        results, named = self._result(relation)
        results.write(named, path, form)

    def total_tuples(self) -> int:
        return self.stats().total_tuples

    def stats(self) -> Stats:
        """Tuples only: Soufflé keeps rounds and times to itself."""
        return Stats({name: self.size(relation) for name, relation in self.relations.items()}, 0, 0, [])

    def prepare_provenance(self, timeout: float, max_tuples: int, max_memory: int) -> None:
        raise InputError("explanations need the embedded engine", hint='use engine="embedded"')

    def explain(self, relation: Relation, rows: Iterable[Row]) -> list[Proof | None]:
        raise InputError("explanations need the embedded engine", hint='use engine="embedded"')

    def derivation(self, rows: Mapping[int, list[Row]], leaves: list[int]) -> Derivation:
        raise InputError("derivations need the embedded engine", hint='use engine="embedded"')

    def why_not(self, relation: Relation, row: Row) -> list[Obstacle]:
        raise InputError("explanations need the embedded engine", hint='use engine="embedded"')


def _version(executable: str) -> str:
    try:
        return subprocess.run([executable, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise InputError(f"cannot run {executable}: {error}") from None


def _call(command: list[str], timeout: float, max_memory: int) -> None:
    """Run Soufflé; its complaint, if any, becomes ours."""

    def limit_memory() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (max_memory, max_memory))

    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout or None,
            preexec_fn=limit_memory if max_memory else None,
        )
    except subprocess.TimeoutExpired:
        raise EvaluationError(f"timeout: Soufflé took more than {timeout:g} s") from None
    except OSError as error:
        raise EvaluationError(f"cannot run {command[0]}: {error.strerror or error}") from None
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise EvaluationError(f"Soufflé failed with status {done.returncode}: {said or 'no message'}")
