"""What texts of programs contain: ops by name, and the values of their attributes; and what was never seen, and why."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from scalify_dl.frontends.hlo.lower import HARMLESS as HLO_HARMLESS
from scalify_dl.frontends.hlo.lower import OPCODES
from scalify_dl.frontends.hlo.module import parse_module
from scalify_dl.frontends.stablehlo.parse import parse
from scalify_dl.frontends.stablehlo.scope import HANDLERS, attribute_names
from scalify_dl.frontends.stablehlo.scope import HARMLESS as STABLEHLO_HARMLESS

if TYPE_CHECKING:
    from jaxlib.mlir import ir

SEVERAL = "a program of several ranks: read in tests/frontends, run by the oracle in tests/oracle"
REASONS = {
    "all-gather": SEVERAL, "all-reduce": SEVERAL, "all-to-all": SEVERAL, "reduce-scatter": SEVERAL,
    "collective-permute": SEVERAL, "collective-broadcast": SEVERAL, "partition-id": SEVERAL, "replica-id": SEVERAL,
    "rng": "random: nothing to compare", "rng-bit-generator": "random: nothing to compare",
    "get-dimension-size": "sizes that a text leaves open: tests/frontends/jax/test_open_sizes.py",
    "custom-call": "opaque", "select-and-scatter": "drawn as the gradient of a maximum over windows where JAX makes it",
    "token": "carries no data", "tuple": "current JAX makes none",
    "sdy": "placements: tests/frontends/jax/test_shard_map_programs.py",
    "chlo.broadcast": "JAX broadcasts by itself: tests/frontends/jax/test_reader.py",
    "dynamic": "sizes that a text leaves open: tests/frontends/jax/test_open_sizes.py",
    "asynchronous": "made by XLA for accelerators only: tests/frontends/hlo",
    "never": "not made by JAX on a CPU: tests/frontends/hlo, tests/frontends/jax/test_lowering.py",
}  # fmt: skip
"""Why an op of the tables need not be drawn."""
TOKENS = frozenset({"after-all", "create-token", "add-dependency", "send-done", "optimization-barrier", "opt-barrier"})
NEVER = frozenset(
    """domain topk erf-inv tan cosh reduce-precision logistic round-nearest-afz map call fusion count-leading-zeros
    popcnt copy erf cbrt atan2 bitcast expm1 real imag complex remainder stablehlo.composite stablehlo.cbrt
    stablehlo.dot stablehlo.round_nearest_afz stablehlo.real_dynamic_slice stablehlo.logistic mhlo.constant
    stablehlo.exponential_minus_one stablehlo.log_plus_one chlo.top_k chlo.tan chlo.is_inf chlo.is_pos_inf
    chlo.is_neg_inf stablehlo.atan2 stablehlo.map stablehlo.tan stablehlo.optimization_barrier""".split()  # noqa: SIM905
)


class Seen:
    """Names of ops that occurred, and per attribute the different values it had (up to a few)."""

    def __init__(self) -> None:
        self.ops: set[str] = set()
        self.values: dict[tuple[str, str], set[str]] = defaultdict(set)

    def hlo(self, text: str) -> None:
        """Takes note of an HLO text."""
        for computation in parse_module(text).computations.values():
            for i in computation.instructions:
                self.ops.add(i.opcode)
                for key in i.attributes:
                    self._value(i.opcode, key, dict.get(i.attributes, key, ""))

    def stablehlo(self, text: str) -> None:
        """Takes note of a StableHLO text."""
        module = parse(text.encode())
        todo: list[ir.Operation] = [view.operation for view in module.body.operations]
        while todo:
            op = todo.pop()
            self.ops.add(op.name)
            for key in attribute_names(op):
                self._value(op.name, key, str(op.attributes[key]))
            todo += [view.operation for region in op.regions for block in region.blocks for view in block.operations]

    def _value(self, op: str, key: str, value: Any) -> None:
        held = self.values[op, key]
        if len(held) < 4:
            held.add(str(value)[:80])

    def never_drawn(self) -> dict[str, str]:
        """Ops of the tables that never occurred, and attributes that had one value only: name → the reason, empty where
        there is none."""
        missing = {name: reason(name) for name in (*OPCODES, *HANDLERS) if name not in self.ops}
        for (op, key), values in self.values.items():
            known = op in OPCODES or op in HANDLERS
            if known and len(values) == 1 and key not in HLO_HARMLESS | STABLEHLO_HARMLESS and "." not in key:
                missing[f"{op} {key}={next(iter(values))}"] = reason(op)
        return missing


def reason(name: str) -> str:
    """Why an op need not be drawn; empty where it should be."""
    plain = name.removeprefix("stablehlo.").replace("_", "-")
    if plain in REASONS:
        return REASONS[plain]
    for family, why in (("sdy.", "sdy"), ("chlo.broadcast_", "chlo.broadcast")):
        if name.startswith(family):
            return REASONS[why]
    if "dynamic" in plain and plain not in ("dynamic-slice", "dynamic-update-slice"):
        return REASONS["dynamic"]
    if plain.endswith(("-start", "-done", "-update")):
        return REASONS["asynchronous"]
    if plain in ("tuple", "get-tuple-element") and name != plain:
        return REASONS["tuple"]
    if plain in TOKENS:
        return REASONS["token"]
    return REASONS["never"] if name in NEVER or plain == "set-dimension-size" else ""
