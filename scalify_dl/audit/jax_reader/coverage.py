"""What texts of programs contain: ops by name, and the values of their attributes; and what was never seen, and why.

The ops are those of the readers' tables. Their attributes are those that the dialect defines (StableHLO, CHLO), or that
the reader asks for (HLO, which defines none)."""

from __future__ import annotations

import inspect
import re
from collections import defaultdict
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from scalify_dl.errors import InputError
from scalify_dl.readers.hlo.lower import HARMLESS as HLO_HARMLESS
from scalify_dl.readers.hlo.lower import OPCODES, Lowering
from scalify_dl.readers.hlo.module import parse_module
from scalify_dl.readers.stablehlo.parse import parse
from scalify_dl.readers.stablehlo.scope import HANDLERS, attribute_names
from scalify_dl.readers.stablehlo.scope import HARMLESS as STABLEHLO_HARMLESS

if TYPE_CHECKING:
    from jaxlib.mlir import ir

REASONS = {
    "a program of several ranks: read in tests/frontends, run by the oracle in tests/oracle": """
        all-gather* all-reduce* all-to-all* reduce-scatter* collective-* partition-id replica-id stablehlo.all_*
        stablehlo.reduce_scatter* stablehlo.collective_* stablehlo.partition_id stablehlo.replica_id""",
    "placements: tests/frontends/jax/test_shard_map_programs.py": "sdy.*",
    "opaque: equal only to the same call of the same operands, or unknown": "custom-call* stablehlo.custom_call*",
    "random numbers of the machine: nothing to compare": """
        rng rng/* rng-bit-generator* stablehlo.rng stablehlo.rng/* stablehlo.rng_bit_generator*""",
    "sizes that a text leaves open: tests/frontends/jax/test_open_sizes.py": """
        stablehlo.dynamic_[bgipr]* stablehlo.real_dynamic_slice*""",
    "asynchronous, made by XLA for accelerators: tests/frontends/hlo": "*-start *-done *-update *-start/* *-done/*",
    "carries no data": "after-all create-token add-dependency domain stablehlo.after_all stablehlo.create_token",
    "a tuple, of which current JAX makes none: refused": "stablehlo.tuple stablehlo.get_tuple_element*",
    "the smallest numbers: unknown when given": "topk/largest",
    "calls of LAPACK, where JAX runs on a CPU: tests/frontends/hlo/test_library_ops.py": """
        cholesky* triangular-solve* stablehlo.cholesky* stablehlo.triangular_solve*""",
    "functions of signals, not compared: tests/frontends/hlo/test_library_ops.py": "fft/* stablehlo.fft/*",
    "how a machine rounds: tests/frontends/hlo/test_asked_rounding.py": "*/operand_precision",
    "a way to compute in narrower types: unknown when given": "stablehlo.dot_general/algorithm",
    "another name for what is drawn: tests/frontends": """
        optimization-barrier mhlo.constant fusion/to_apply fusion/is_composite""",
    "a constant where XLA writes it: tests/frontends/hlo": "get-dimension-size get-dimension-size/*",
}
"""Why an op (or an op/attribute) need not be drawn: the reason, and patterns of names."""
FUNCTIONS = frozenset(
    "to_apply calls condition body branch_computations true_computation false_computation select scatter".split()  # noqa: SIM905
)
"""Attributes that name functions, which have many names."""


class Seen:
    """Names of ops that occurred; per attribute the different values that it had (a few; None: it was not given)."""

    def __init__(self) -> None:
        self.ops: set[str] = set()
        self.values: dict[tuple[str, str], set[str | None]] = defaultdict(set)

    def hlo(self, text: str) -> None:
        """Takes note of an HLO text."""
        module = parse_module(text)
        with suppress(InputError):
            Lowering(module, None, None).run()
        for computation in module.computations.values():
            for i in computation.instructions:
                self.ops.add(i.opcode)
                for key in i.attributes.read | set(i.attributes):
                    self._value(i.opcode, key, dict.get(i.attributes, key))

    def stablehlo(self, text: str) -> None:
        """Takes note of a StableHLO text."""
        module = parse(text.encode())
        todo: list[ir.Operation] = [view.operation for view in module.body.operations]
        while todo:
            op = todo.pop()
            self.ops.add(op.name)
            given = set(attribute_names(op))
            for key in given.union(defined(op)):
                self._value(op.name, key, str(op.attributes[key]) if key in given else None)
            todo += [view.operation for region in op.regions for block in region.blocks for view in block.operations]

    def update(self, other: Seen) -> None:
        """Takes over what another has seen."""
        self.ops |= other.ops
        for (op, key), values in other.values.items():
            for value in values:
                self._value(op, key, value)

    def _value(self, op: str, key: str, value: Any) -> None:
        held = self.values[op, key]
        if len(held) < 4:
            held.add(None if value is None else str(value)[:80])

    def never_drawn(self) -> dict[str, str]:
        """Ops of the tables that never occurred, and attributes that always had one value or were never given: name →
        the reason, empty where there is none."""
        missing = [name for name in (*OPCODES, *HANDLERS) if name not in self.ops]
        for (op, key), values in self.values.items():
            known = op in OPCODES or op in HANDLERS
            matters = key not in HLO_HARMLESS | STABLEHLO_HARMLESS | FUNCTIONS and "." not in key
            if known and matters and len(values) < 2:
                missing.append(f"{op}/{key}")
        return {name: reason(name) for name in missing}


def defined(op: ir.Operation) -> frozenset[str]:
    """The attributes that a dialect defines for an op."""
    view = type(op.opview)
    if view not in DEFINED:
        DEFINED[view] = frozenset(re.findall(r'\.attributes\["(\w+)"\]', inspect.getsource(view)))
    return DEFINED[view]


DEFINED: dict[type[Any], frozenset[str]] = {}
"""What `defined` has found."""


def reason(name: str) -> str:
    """Why an op or an op/attribute need not be drawn; empty where it should be."""
    return next((why for why, names in REASONS.items() if any(fnmatchcase(name, p) for p in names.split())), "")
