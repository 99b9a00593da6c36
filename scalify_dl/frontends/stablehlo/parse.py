"""MLIR text or bytecode → a verified module in memory, by jaxlib's parser and its bundled dialects (no jax import)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError

if TYPE_CHECKING:
    from jaxlib.mlir import ir

MAGIC = b"ML\xefR"
"""First bytes of MLIR bytecode."""

EXTRA = "pip install 'scalify-dl[jax]'"
NESTING_LIMIT = 400
_DIAGNOSTIC = re.compile(r'error: (?:"-":(?P<line>\d+):(?P<column>\d+)|[^:]*): (?P<message>.*?)(?:\n|\Z)')
_BRACKETS = re.compile(rb"[(\[{]|[)\]}]")


def is_mlir(data: bytes) -> bool:
    """Whether a file's content is MLIR (bytecode, or text with a module or function), as opposed to HLO or FX text."""
    if data.startswith(MAGIC):
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
    bytecode = data.startswith(MAGIC)
    if not bytecode:
        _check_nesting(data, file)
    from jaxlib.mlir import ir

    try:
        if bytecode:
            return _read_bytecode(data, context)
        return ir.Module.parse(data.decode("utf-8"), context)
    except UnicodeDecodeError as error:
        raise InputError(f"the file is neither MLIR bytecode nor UTF-8 text ({error.reason})", file=file) from None
    except (ir.MLIRError, ValueError, RuntimeError) as error:
        raise _explain(str(error), data, bytecode, file) from None


def _context(file: str | None) -> ir.Context:
    try:
        from jaxlib.mlir import ir
        from jaxlib.mlir._mlir_libs import _jax_mlir_ext
        from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo
    except ImportError as error:
        missing = getattr(error, "name", None) or ""
        raise InputError(
            "StableHLO needs jaxlib's MLIR parser, which is not installed"
            if missing.split(".")[0] in ("jaxlib", "jax")
            else f"jaxlib's MLIR parser does not load: {error}",
            file=file,
            hint=f"install the `jax` extra: {EXTRA}; HLO text (after XLA's partitioner) is read without it",
        ) from None
    registry = ir.DialectRegistry()
    # jaxlib registers upstream dialects (func, arith, …) nowhere public
    _jax_mlir_ext.register_dialects(registry)
    context = ir.Context()
    context.append_dialect_registry(registry)
    for dialect in (stablehlo, sdy, chlo):
        dialect.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    return context


def _read_bytecode(data: bytes, context: ir.Context) -> ir.Module:
    """Plain bytecode, or a portable artifact (VHLO), which `jax.export` writes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    module = ir.Module.parse(data, context)
    if any(op.operation.name.startswith("vhlo.") for op in module.body.operations):
        artifact: Any = stablehlo.deserialize_portable_artifact(context, data)
        module = artifact
    return module


def _check_nesting(data: bytes, file: str | None) -> None:
    """The parser recurses: text that nests without end must not reach it."""
    depth = 0
    for match in _BRACKETS.finditer(data):
        depth += 1 if match[0] in b"([{" else -1
        if depth > NESTING_LIMIT:
            line = data.count(b"\n", 0, match.start()) + 1
            raise InputError(f"more than {NESTING_LIMIT} brackets are open at once", file=file, line=line)


def _explain(text: str, data: bytes, bytecode: bool, file: str | None) -> InputError:
    """The parser's first diagnostic with its place and a way out."""
    match = _DIAGNOSTIC.search(text)
    message = (match["message"] if match else text.split("\n")[0]).strip().rstrip(";")
    line, column = (int(match["line"] or 0), int(match["column"] or 0)) if match else (0, 0)
    hint = None
    unknown = re.search(r"[Dd]ialect [`'\"]([\w.]+)[`'\"] not found|unregistered dialect [`'\"]?([\w.]+)", text)
    if unknown:
        message = f"unknown dialect `{unknown[1] or unknown[2]}`"
        hint = "known dialects: stablehlo, chlo, sdy, mhlo, vhlo, func and upstream MLIR; lower the module to StableHLO"
    elif bytecode:
        message = f"the bytecode cannot be read: {message}"
        hint = "the file may be cut off or written by a newer StableHLO"
    elif line and line >= data.rstrip().count(b"\n"):
        hint = "the file may be cut off"
    return InputError(message, file=file, line=line, column=column, expected="a StableHLO module", hint=hint)
