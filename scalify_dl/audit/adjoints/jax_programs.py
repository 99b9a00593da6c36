"""Random JAX programs of wide floats: the derived backward of what is read, and `jax.vjp`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.readers.stablehlo import read_baseline

from ..children import Say
from ..jax_reader.check import FORMS  # its import registers the steps
from ..jax_reader.raw import OP
from ..jax_reader.steps_plain import STEPS
from ..jax_reader.world import INTEGERS, Refused, Step, World, is_float
from .executed import gradients, slope

Array = np.ndarray[Any, Any]
BATCH = 200
"""Programs of one process."""
WIDE = ("float32", "float64")
RAW = "steps_named"
"""Steps that are ops of StableHLO by name, of which JAX has no backward."""
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""Each program is run once."""
TOLERANCE = 1e-6


@dataclass
class Outcome:
    """What became of a program: gradients that differ, kinds without a backward, the steps drawn."""

    seed: int
    compared: int = 0
    mismatches: list[str] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)


def draw(seed: int) -> World:
    """A random program of wide floats."""
    rng = np.random.default_rng(seed)
    w = World(rng)
    shape = w.shape((1, 2, 2, 3))
    for _ in range(3):
        w.input(shape, "float64")
    w.input(w.choice((shape, shape[::-1])), "float64")
    w.input(shape, w.choice(INTEGERS))
    w.input((), "int32")
    w.input(w.choice((shape, ())), "bool")
    names = [name for name in STEPS if not STEPS[name][0].__module__.endswith(RAW)]
    weights = np.array([STEPS[name][1] for name in names])
    wanted, tried = w.integer(2, 6), 0
    while len(w.steps) < wanted and tried < 200:
        tried += 1
        before = len(w.types), len(w.steps)
        try:
            STEPS[names[int(rng.choice(len(names), p=weights / weights.sum()))]][0](w)
        except Refused:
            continue
        if any(is_float(t) and t.dtype.name not in WIDE for t in w.types[before[0] :]) or any(
            step.drawn or _by_name(w, step) for step in w.steps[before[1] :]
        ):
            del w.types[before[0] :], w.steps[before[1] :]
    return w


def _by_name(w: World, step: Step) -> bool:
    """Whether a step takes reals to an op of StableHLO by name, of which JAX has no backward."""
    given = [w.types[n] for n in step.operands]
    return any(map(is_float, given)) and OP.name in str(jax.make_jaxpr(step.function)(*given))


def check(seed: int) -> Outcome:
    """Draws, differentiates and compares one program. Inputs are no round numbers, so that none lies on a step."""
    w = draw(seed)
    outcome = Outcome(seed, steps=Counter(step.name for step in w.steps))
    rng = np.random.default_rng([seed, 1])
    inputs = [_drawn(rng, type_) for type_ in w.types[: w.inputs]]
    results = w.types[w.inputs :]
    real = [n for n, type_ in enumerate(inputs) if type_.dtype.kind == "f"]
    outs = [n for n, type_ in enumerate(results) if is_float(type_)]
    if not real or not outs:
        return outcome
    cotangents = {n: rng.normal(size=results[n].shape).astype(results[n].dtype) for n in outs}
    run = w.program()

    def part(*floats: Any) -> tuple[Any, ...]:
        given = [jax.numpy.asarray(x) for x in inputs]
        for n, x in zip(real, floats, strict=True):
            given[n] = x
        values = run(*given)
        return tuple(values[n] for n in outs)

    try:
        text = jax.jit(run, keep_unused=True).lower(*w.types[: w.inputs]).as_text()
        graph = read_baseline(text.encode(), "module.mlir")
    except Exception as error:
        outcome.unknown[f"not read: {type(error).__name__}"] += 1
        return outcome
    strange = [op.kind for op in graph.ops if op.kind.startswith(("unknown:", "custom:"))]
    if strange or any(["region"] in op.symbols.values() for op in graph.ops):
        outcome.unknown[f"a part is not understood: {(strange or ['a function'])[0]}"] += 1
        return outcome
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
    try:
        found, why, left = gradients(graph, wide, {n: g.astype(np.float64) for n, g in cotangents.items()})
    except Unsupported as error:
        outcome.unknown[f"not run: {str(error).partition(' of op ')[0][:60]}"] += 1
        return outcome
    except Exception as error:
        outcome.mismatches.append(f"{type(error).__name__}: {str(error)[:300]}")
        return outcome
    outcome.unknown.update(f"no backward: {kind}" for kind in why)
    if not left:
        return outcome
    bits = [op.numbers["mantissa_bits"][0] for op in graph.ops if op.kind == "reduce-precision"]
    kept = {n: g.astype(np.float64) for n, g in cotangents.items() if n in left}
    plain = read_baseline(text.encode(), "module.mlir")
    _compare(outcome, part, [inputs[n] for n in real], real, outs, cotangents, left, found,
             lambda n, way: slope(plain, wide, n, way, kept), 2.0 ** -min(bits, default=52))  # fmt: skip
    return outcome


def _compare(
    outcome: Outcome, part: Any, floats: list[Array], real: list[int], outs: list[int], cotangents: dict[int, Array],
    left: set[int], found: dict[int, Array], measured: Callable[[int, Array], float], rounding: float,
) -> None:  # fmt: skip
    """`rounding` is by how much JAX rounds gradients, where the program rounds its values on purpose."""
    given = tuple(cotangents[n] if n in left else np.zeros_like(cotangents[n]) for n in outs)

    def both(floats: Any, given: Any) -> Any:
        values, back = jax.vjp(part, *floats)
        return values, back(given)

    try:
        compiled = jax.jit(both).lower(floats, given).compile(compiler_options=QUICK)
        values, wanted = compiled(floats, given)
        expected = [np.asarray(g) for g in wanted]
    except (TypeError, ValueError, NotImplementedError, jax.errors.JaxRuntimeError) as error:
        outcome.unknown[f"JAX has no backward: {' '.join(str(error).split())[:60]}"] += 1
        return
    narrow = any(np.asarray(v).dtype != np.float64 for v in values)
    sane = all(np.isfinite(np.asarray(v)).all() for n, v in zip(outs, values, strict=True) if n in left)
    if not sane or not all(np.isfinite(g).all() for g in expected):
        outcome.unknown["numbers without end"] += 1
        return
    outcome.compared = 1
    for n, want in zip(real, expected, strict=True):
        got = found.get(n, np.zeros_like(want))
        size = max(1.0, float(np.abs(want).max(initial=0)))
        near = max(2e-3 if narrow else TOLERANCE, rounding) * size
        if got.shape == want.shape and (np.abs(got - want) <= near).all():
            continue
        way = np.sign(got - want)  # which of them is what the program does
        steep = measured(n, way) if got.shape == want.shape else np.nan
        if abs(steep - float((got * way).sum())) <= 1e-3 * size:
            outcome.unknown["JAX's gradient is not the slope, the derived one is"] += 1
        else:
            outcome.mismatches.append(f"gradient of input {n}: {_show(got)}, JAX gives {_show(want)}")


def _drawn(rng: np.random.Generator, type_: Any) -> Array:
    if is_float(type_):
        return np.asarray(rng.normal(size=type_.shape), type_.dtype)
    most = 2 if type_.dtype == bool else 4
    return np.asarray(rng.integers(0, most, type_.shape), type_.dtype)


def _show(x: Array) -> str:
    return " ".join(str(np.asarray(x).ravel()[:5]).split())


def batch(say: Say, first: int) -> Iterator[Outcome]:
    """Checks programs first, first + 1, …"""
    jax.config.update("jax_enable_x64", True)
    assert FORMS
    for seed in range(first, first + BATCH):
        yield check(seed)
