"""Functions that XLA has no op for, expanded in the baseline as XLA expands them in the distributed program.

`jax.nn.gelu(x, approximate=False)` is one op (`chlo.erfc`) as it is traced, and polynomials behind the partitioner.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

DIALECT = "chlo."
PASS = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
SET_ASIDE = "dlverify.set_aside"
KIND = "dlverify.kind"


def expanded(base: str, dist: str) -> str:
    """The text of a StableHLO module whose functions that HLO text `dist` has no op for are expanded.

    By StableHLO's own pass, which is XLA's; unchanged where jaxlib has it not, or it does not know an op."""
    names = set(re.findall(r"\bchlo\.(\w+)", base))
    kept = {name for name in names if re.search(rf" {name.replace('_', '[_-]?')}\(", dist)}
    if not names - kept:
        return base
    try:
        from jaxlib.mlir import ir, passmanager
        from jaxlib.mlir.dialects import stablehlo

        from scalify_dl.readers.stablehlo.mlir import context

        stablehlo.register_stablehlo_passes()
    except (ImportError, AttributeError):
        return base
    try:
        with context() as made:
            made.allow_unregistered_dialects = True
            module = ir.Module.parse(base)
            aside = {DIALECT + name for name in kept}
            for op in [op for op in _all(module.operation) if op.name in aside]:
                _renamed(ir, op, SET_ASIDE, {KIND: ir.StringAttr.get(op.name)})
            passmanager.PassManager.parse(PASS).run(module.operation)
            for op in [op for op in _all(module.operation) if op.name == SET_ASIDE]:
                _renamed(ir, op, ir.StringAttr(op.attributes[KIND]).value, {})
            return str(module.operation.get_asm(enable_debug_info=True))
    except (ir.MLIRError, AttributeError, ValueError, RuntimeError):
        return base


def _all(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region:
            for inner in block:
                yield inner.operation
                yield from _all(inner.operation)


def _renamed(ir: Any, op: Any, name: str, more: dict[str, Any]) -> None:
    """Another op in the place of one, with its operands, results and attributes."""
    names = (str(getattr(a, "name", a)) for a in op.attributes)  # pairs, or names alone, by jaxlib's version
    attributes = {key: op.attributes[key] for key in names if key != KIND} | more
    with ir.InsertionPoint(op), op.location:
        new = ir.Operation.create(
            name, results=[r.type for r in op.results], operands=list(op.operands), attributes=attributes
        )
    for old, result in zip(op.results, new.results, strict=True):
        old.replace_all_uses_with(result)
    op.erase()
