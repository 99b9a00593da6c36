"""What StableHLO's own interpreter gives: the definition, where XLA and the readers disagree.

XLA has faults and freedoms: a scatter whose index vectors are empty applies one update of several where it is compiled
(XLA's own evaluation of constants applies all), and of equal extremes in a window, either is the selected one. The
interpreter ends the process on what it does not know, so it runs in one of its own.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
PATIENCE = 60.0
"""Seconds after which there is no answer."""
PASSES = "builtin.module(func.func(chlo-legalize-to-stablehlo,shape-legalize-to-stablehlo),inline)"


def interpreted(text: str, inputs: list[Any]) -> list[Array] | None:
    """The results of a StableHLO module, of real and whole numbers and booleans; None where the interpreter cannot."""
    given = pickle.dumps((text, [np.asarray(x) for x in inputs]))
    try:
        done = subprocess.run([sys.executable, "-m", __name__], input=given, capture_output=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode:
        return None
    found: list[Array] = pickle.loads(done.stdout)
    return found


def evaluate(text: str, inputs: list[Array]) -> list[Array]:
    """The same in this process."""
    from jax.interpreters import mlir
    from jaxlib.mlir import ir, passmanager
    from jaxlib.mlir.dialects import stablehlo

    stablehlo.register_stablehlo_passes()
    with mlir.make_ir_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse(PASSES).run(module.operation)
        _widen(module)
        given = [_literal(x, ir.RankedTensorType.get(x.shape, mlir.dtype_to_ir_type(x.dtype))) for x in inputs]
        return [_array(value) for value in stablehlo.eval_module(module, given)]


def _widen(module: Any) -> None:
    """Has a module give its reals in 64 bits, since attributes of narrower ones cannot be read."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    (main,) = (op for op in module.body.operations if op.attributes["sym_name"].value == "main")
    *_, last = main.regions[0].blocks[0].operations
    with ir.InsertionPoint(last):
        for n, value in enumerate(last.operands):
            if isinstance(value.type.element_type, ir.FloatType):
                wide = ir.RankedTensorType.get(value.type.shape, ir.F64Type.get())
                last.operands[n] = stablehlo.convert(wide, value)
    results = [value.type for value in last.operands]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(main.type.inputs, results))


def _literal(x: Array, type_: Any) -> Any:
    """A value as an MLIR attribute of a type."""
    from jaxlib.mlir import ir

    text = str(x.tolist()).lower() if x.dtype == bool else f'"0x{np.ascontiguousarray(x).tobytes().hex()}"'
    return ir.Attribute.parse(f"dense<{text if x.size else ''}> : {type_}")


def _array(value: Any) -> Array:
    """An MLIR attribute as a value: numbers in 64 bits."""
    items = list(value) if 0 not in value.type.shape else []
    element = str(value.type.element_type)
    whole = np.uint64 if element.startswith("ui") else np.int64
    dtype = bool if element == "i1" else np.float64 if element == "f64" else whole
    return np.array(items, dtype).reshape(value.type.shape)


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(evaluate(*pickle.loads(sys.stdin.buffer.read()))))
