"""jaxlib's MLIR parser: a context with its bundled dialects, and the reading of text and bytecode.

Corrupted bytecode can end the process inside of the parser, and so can names in locations that are not UTF-8. What may
be such is first read by a child process: run as a script, this file reads a module on standard input and exits with 0
where that works, with 1 and the parser's message where it does not. It imports nothing but jaxlib (no jax).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jaxlib.mlir import ir


def context() -> ir.Context:
    """A context that knows StableHLO, CHLO, MHLO, Shardy and upstream dialects; ImportError without jaxlib."""
    from jaxlib.mlir import ir
    from jaxlib.mlir._mlir_libs import _jax_mlir_ext
    from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

    if not hasattr(ir, "CallSiteLoc"):
        raise ImportError("it is older than 0.10, which is the first that shows locations", name="mlir")
    registry = ir.DialectRegistry()
    # jaxlib registers upstream dialects (func, arith, …) nowhere public
    _jax_mlir_ext.register_dialects(registry)
    made = ir.Context()
    made.append_dialect_registry(registry)
    for dialect in (stablehlo, sdy, chlo):
        dialect.register_dialect(made)
    mhlo.register_mhlo_dialect(made)
    return made


MAGIC = b"ML\xefR"
"""First bytes of MLIR bytecode."""


def read(data: bytes, within: ir.Context) -> ir.Module:
    """A module from text, bytecode, or a portable artifact (VHLO), which `jax.export` writes."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    module: Any = ir.Module.parse(data if data.startswith(MAGIC) else data.decode("utf-8"), within)
    if any(op.operation.name.startswith("vhlo.") for op in module.body.operations):
        module = stablehlo.deserialize_portable_artifact(within, data)
    return module


def touch(module: ir.Module) -> None:
    """Reads every name in every location."""
    from jaxlib.mlir import ir

    def visit(view: Any) -> Any:
        op = view.operation
        seen = [op.location, *(a.location for region in op.regions for block in region.blocks for a in block.arguments)]
        while seen:
            here = seen.pop()
            if isinstance(here, ir.FileLineColLoc):
                _ = here.filename
            elif isinstance(here, ir.NameLoc):
                _ = here.name_str
                seen.append(here.child_loc)
            elif isinstance(here, ir.CallSiteLoc):
                seen += [here.callee, here.caller]
            elif isinstance(here, ir.FusedLoc):
                seen += here.locations
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


if __name__ == "__main__":
    try:
        touch(read(sys.stdin.buffer.read(), context()))
    except Exception as error:  # whatever the parser raises is told to the parent
        sys.exit(str(error))
