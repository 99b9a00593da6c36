"""MLIR text or bytecode → a verified module in memory, by jaxlib's parser and its bundled dialects (no jax import)."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError

from . import mlir

if TYPE_CHECKING:
    from jaxlib.mlir import ir

EXTRA = "pip install 'scalify-dl[jax]'"
NESTING_LIMIT = 400
PATIENCE = 300
"""Seconds that reading a module in a child process may take."""
_DIAGNOSTIC = re.compile(r'error: (?:"-":(?P<line>\d+):(?P<column>\d+)|[^:]*): (?P<message>.*?)(?:\n|\Z)')
_ESCAPES = re.compile(rb"(?:\\[0-9A-Fa-f]{2})+")
_BRACKETS = re.compile(rb"[(\[{]|[)\]}]")
_ONE_KIND = bytes.maketrans(b"[{]}", b"(())")
_NO_BRACKETS = bytes(c for c in range(256) if c not in b"()[]{}")


def is_mlir(data: bytes) -> bool:
    """Whether a file's content is MLIR (bytecode, or text with a module or function), as opposed to HLO or FX text."""
    if data.startswith(mlir.MAGIC):
        return True
    for line in data[:65536].split(b"\n"):
        word = line.strip()
        if not word or word.startswith((b"//", b"#")):
            continue
        return bool(re.match(rb'(builtin\.)?module\b(?!\s*,)|func\.func\b|"builtin\.module"|\{-#', word))
    return False


def parse(data: bytes, file: str | None = None) -> ir.Module:
    """The module; InputError where jaxlib is missing or the file is no valid MLIR of the bundled dialects."""
    context = _context(file)
    if data.startswith(mlir.MAGIC) or not _names_are_text(data):
        _try_out(data, file)
    if not data.startswith(mlir.MAGIC):
        _check_nesting(data, file)
    from jaxlib.mlir import ir

    try:
        return mlir.read(data, context)
    except UnicodeDecodeError as error:
        raise InputError(f"the file is neither MLIR bytecode nor UTF-8 text ({error.reason})", file=file) from None
    except (ir.MLIRError, ValueError, RuntimeError) as error:
        raise _explain(str(error), data, file) from None


def _context(file: str | None) -> ir.Context:
    try:
        return mlir.context()
    except ImportError as error:
        missing = (getattr(error, "name", None) or "").split(".")[0]
        raise InputError(
            "StableHLO needs jaxlib's MLIR parser, which is not installed"
            if missing in ("jaxlib", "jax")
            else f"jaxlib's MLIR parser does not load: {error}",
            file=file,
            hint=f"install the `jax` extra: {EXTRA}; HLO text (after XLA's partitioner) is read without it",
        ) from None


def _names_are_text(data: bytes) -> bool:
    """Whether the escaped bytes `\\C3\\A9` in strings of a text are UTF-8."""
    for run in set(_ESCAPES.findall(data)):
        try:
            bytes.fromhex(run.replace(b"\\", b"").decode("ascii")).decode("utf-8")
        except UnicodeDecodeError:
            return False
    return True


def _try_out(data: bytes, file: str | None) -> None:
    """Reads a module in a child process; InputError where that fails or crashes."""
    try:
        child = subprocess.run([sys.executable, "-P", mlir.__file__], input=data, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        raise InputError(f"the module is not read within {PATIENCE} s", file=file) from None
    if child.returncode:
        message = child.stderr.decode("utf-8", "replace") if child.returncode == 1 else "the parser crashes on it"
        raise _explain(message, data, file)


def _check_nesting(data: bytes, file: str | None) -> None:
    """The parser recurses: text that nests without end must not reach it."""
    left = data.translate(_ONE_KIND, _NO_BRACKETS)
    for _ in range(NESTING_LIMIT):  # each time the pairs that hold none
        before, left = len(left), left.replace(b"()", b"")
        if not left:
            return
        if len(left) == before:
            break
    depth = 0
    for match in _BRACKETS.finditer(data):
        depth += 1 if match[0] in b"([{" else -1
        if depth > NESTING_LIMIT:
            line = data.count(b"\n", 0, match.start()) + 1
            raise InputError(f"more than {NESTING_LIMIT} brackets are open at once", file=file, line=line)


def _explain(text: str, data: bytes, file: str | None) -> InputError:
    """The parser's first diagnostic with its place and a way out."""
    bytecode = data.startswith(mlir.MAGIC)
    match = _DIAGNOSTIC.search(text)
    message = (match["message"] if match else text.split("\n")[0]).strip().rstrip(";")
    line, column = (int(match["line"] or 0), int(match["column"] or 0)) if match else (0, 0)
    hint = None
    unknown = re.search(r"[Dd]ialect [`'\"]([\w.]+)[`'\"] not found|unregistered dialect [`'\"]?([\w.]+)", text)
    if unknown:
        message = f"unknown dialect `{unknown[1] or unknown[2]}`"
        hint = "known dialects: stablehlo, chlo, sdy, mhlo, vhlo, func and upstream MLIR; lower the module to StableHLO"
    elif bytecode or not match:
        message = f"the {'bytecode' if bytecode else 'module'} cannot be read: {message}"
        hint = "the file may be cut off or written by a newer StableHLO"
    elif line and line >= data.rstrip().count(b"\n"):
        hint = "the file may be cut off"
    return InputError(message, file=file, line=line, column=column, expected="a StableHLO module", hint=hint)
