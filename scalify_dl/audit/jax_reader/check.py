"""One random program: run by JAX, written as StableHLO and HLO, read back and run by the oracle, compared.

The optimised HLO must give what was run. The program before that must give it, too, or what JAX gives op by op: XLA's
optimiser moves a slice of a slice where a start is out of range. Where neither is what was read, StableHLO's own
interpreter decides: what it gives is right, and XLA's own is counted by the step that it begins with.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import jax
import numpy as np

from scalify_dl.facts.tables import TableWriter
from scalify_dl.ir.graph import Graph, Op
from scalify_dl.ir.literals import ELIDED
from scalify_dl.ir.mesh import Mesh
from scalify_dl.oracle import load_program
from scalify_dl.oracle.execute import Machine
from scalify_dl.oracle.meaning import Unsupported
from scalify_dl.oracle.randomness import Draws
from scalify_dl.readers import hlo
from scalify_dl.readers.normalise import normalise
from scalify_dl.readers.stablehlo import read_baseline

from . import steps_access, steps_data, steps_flow, steps_named, steps_windows  # noqa: F401  (they register steps)
from .coverage import Seen
from .reference import interpreted
from .steps_plain import STEPS
from .world import FLOATS, INTEGERS, Refused, World, drawn, is_float

Array = np.ndarray[Any, Any]
ONE = Mesh((("r", 1),))
TOLERANCE = {
    "float64": 1e-9, "float32": 2e-3, "bfloat16": 0.1, "float16": 2e-2, "float8_e4m3fn": 0.3, "float8_e5m2": 0.6
}  # fmt: skip
QUICK = {
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
}
"""How machine code is made, which is not what is read here: HLO is optimised as ever."""
PLAINER = {"xla_cpu_use_fusion_emitters": False}
"""XLA's older way of fusing, a quarter of the work; now and then the current one is taken."""
CURRENT_EVERY = 16
FORMS = ("stablehlo", "hlo", "compiled")
BARE = "several updates at indices without components: XLA applies one, the interpreter writes into the operand"
STEEP = frozenset(["cosh", "exp", "exp2", "exponential", "expm1", "exponential_minus_one", "sinh"])
"""Steps that make a rounding of their operand larger by its size."""
OPTIMISER = "XLA's optimised program gives other numbers than its ops one by one"
DEFINED = "XLA gives other numbers than StableHLO's interpreter, of a"


@dataclass
class Outcome:
    """What became of one program: `mismatches` by form, `kinds` of ops in the graphs, forms that were `unknown` in
    part, and the `steps` drawn."""

    seed: int
    mismatches: list[str] = field(default_factory=list)
    kinds: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    unknown: Counter[str] = field(default_factory=Counter)


def draw(seed: int) -> tuple[World, list[Any]]:
    """A random program and inputs for it."""
    rng = np.random.default_rng(seed)
    w = World(rng)
    shape = w.shape((1, 2, 2, 3))
    dtype = w.choice(FLOATS)
    for _ in range(2):
        w.input(shape, dtype)
    w.input(shape, w.choice(INTEGERS))
    w.input(w.choice((shape, shape[::-1])), "int32")
    w.input((), "int32")
    w.input(w.choice((shape, ())), "bool")
    w.input(w.shape(), w.choice(FLOATS))
    names = list(STEPS)
    weights = np.array([STEPS[name][1] for name in names])
    wanted, tried = 12 if w.chance(0.06) else w.integer(2, 6), 0
    while len(w.steps) < wanted and tried < 200:
        tried += 1
        try:
            STEPS[names[int(rng.choice(len(names), p=weights / weights.sum()))]][0](w)
        except Refused:
            continue
    return w, [drawn(rng, type_) for type_ in w.types[: w.inputs]]


def check(
    seed: int, forms: tuple[str, ...] = FORMS, look: Callable[[Counter[str]], Seen | None] = lambda _: None
) -> Outcome:
    """Draws, runs and reads back one program; its texts are noted in what `look` gives for its steps. `jax_enable_x64`
    must be on."""
    w, inputs = draw(seed)
    options = QUICK if seed % CURRENT_EVERY == 0 else QUICK | PLAINER
    steps = Counter(step.name for step in w.steps)
    return read_back(w, inputs, Outcome(seed, steps=steps), forms, look(steps), options)


def read_back(
    w: World,
    inputs: list[Any],
    outcome: Outcome,
    forms: tuple[str, ...] = FORMS,
    seen: Seen | None = None,
    options: dict[str, Any] = QUICK,
) -> Outcome:
    """Runs and reads back a program; `options` are the compiler's."""
    try:
        lowered = jax.jit(w.program(), keep_unused=True).lower(*w.types[: w.inputs])
        compiled = lowered.compile(compiler_options=options)
        expected = [np.asarray(value) for value in jax.tree.leaves(compiled(*inputs))]
    except (jax.errors.JaxRuntimeError, ValueError) as error:
        outcome.unknown[f"JAX does not run it: {' '.join(str(error).split())[:80]}"] += 1
        return outcome
    texts: dict[str, Callable[[], str]] = {
        "stablehlo": lowered.as_text,
        "hlo": lambda: lowered.compiler_ir("hlo").as_hlo_text(True),
        "compiled": lambda: _whole_text(compiled),
    }
    for form in forms:
        try:
            text = texts[form]()
            if seen is not None:
                (seen.stablehlo if form == "stablehlo" else seen.hlo)(text)
            graph = read_baseline(text.encode(), "module.mlir") if form == "stablehlo" else hlo.read_text(text)
            found = _run(form, graph, inputs, outcome)
            if found is None:
                continue
            wrong = _differences(w, inputs, expected, found)
            if wrong and (plain := _one_by_one(w, inputs)) and not _differences(w, inputs, plain, found):
                outcome.unknown[f"{form} {OPTIMISER}"] += 1
            elif wrong and (defined := _as_defined(w, inputs, texts["stablehlo"](), expected, found, set(wrong))):
                outcome.unknown[f"{form} {DEFINED} {_maker(w, min(wrong))}"] += 1
            elif wrong and _undefined_scatter(graph, defined is None):
                outcome.unknown[f"{form} {BARE}"] += 1
            else:
                outcome.mismatches += [f"{form}: result {n} ({_maker(w, n)}): {what}" for n, what in wrong.items()]
        except Unsupported as error:
            outcome.unknown[f"{form} oracle: {str(error).partition(' of op ')[0][:80]}"] += 1
        except Exception as error:  # a reader or the oracle that fails on a program of JAX is a finding
            outcome.mismatches.append(f"{form}: {type(error).__name__}: {str(error)[:300]}")
    return outcome


def _undefined_scatter(graph: Graph, silent: bool) -> bool:
    """Whether several updates are at indices without components, and the interpreter is `silent` or cannot know: it
    writes them into an operand that is read elsewhere."""
    uses = Counter(x for op in graph.ops for x in op.operands) + Counter(port.tensor for port in graph.outputs)
    for op in graph.ops:
        if op.kind == "scatter" and not op.numbers.get("scatter_dims_to_operand_dims"):
            indices, vector = op.operands[1].shape, op.numbers["index_vector_dim"][0]
            several = prod(n for dim, n in enumerate(indices) if dim != vector) > 1
            if several and (silent or uses[op.operands[0]] > 1):
                return True
    return False


def _one_by_one(w: World, inputs: list[Any]) -> list[Array]:
    """What JAX gives without a compiler that sees more than one op; nothing where it fails at one."""
    try:
        with jax.disable_jit():
            return [np.asarray(value) for value in jax.tree.leaves(w.program()(*map(jax.numpy.asarray, inputs)))]
    except jax.errors.JaxRuntimeError:
        return []


def _as_defined(
    w: World, inputs: list[Any], text: str, expected: list[Array], found: list[Array], wrong: set[int]
) -> bool | None:
    """Whether StableHLO's interpreter gives what was found where that is not what was expected, in the types that were
    expected; None where it cannot. (It writes scatters into their operands, which spoils other results.)"""
    defined = interpreted(text, inputs)
    if defined is None:
        return None
    typed = [x.astype(other.dtype) for x, other in zip(defined, expected, strict=True)]
    return wrong.isdisjoint(_differences(w, inputs, typed, found))


def _whole_text(compiled: Any) -> str:
    """The optimised module, its large constants written out."""
    from jaxlib._hlo import HloPrintOptions

    options = HloPrintOptions()
    options.print_large_constants = True
    return str(compiled.runtime_executable().hlo_modules()[0].to_string(options))


def comparable(w: World, inputs: list[Any], results: list[Array]) -> list[float | None]:
    """For each result how far off it may be, by the size of what it was made of and the coarsest type on the way; None
    where it is not compared: something that is not a number, or a jump behind rounded values."""
    size: list[float | None] = [_size(x) for x in inputs]
    coarse = [_grain(x) for x in inputs]
    exact = [True] * len(inputs)
    endless = [_endless(x) for x in inputs]
    at = 0
    for step in w.steps:
        before = [size[n] for n in step.operands]
        whole = all(exact[n] for n in step.operands)
        made = results[at : at + step.results]
        at += step.results
        fine = all(b is not None for b in before) and (step.steady or whole)
        for value in made:
            endless.append(_endless(value))
            overflows = endless[-1] and step.name != "infinity" and not any(endless[n] for n in step.operands)
            here = None if overflows or step.drawn else _size(value)
            size.append(None if here is None or not fine else max([here, *(b for b in before if b is not None)]))
            rises = _bare(step.name) in STEEP and not whole
            steep = max([1.0, *(b for b in before if b is not None)]) if rises else 1.0
            coarse.append(max([_grain(value), *(coarse[n] * steep for n in step.operands)]))
            exact.append(whole and _exact(value))
    slack = [None if most is None else most * grain for most, grain in zip(size, coarse, strict=True)]
    return slack[len(inputs) :]


def _bare(step: str) -> str:
    return step.rpartition(".")[2]


def _endless(value: Any) -> bool:
    return bool(is_float(value) and np.isinf(value.astype(np.float64)).any())


def _grain(value: Any) -> float:
    return TOLERANCE.get(np.asarray(value).dtype.name, 0.0)


def _size(value: Any) -> float | None:
    x = np.asarray(value)
    if not is_float(x):
        return 1.0
    wide = x.astype(np.float64)
    if np.isnan(wide).any() or (np.abs(wide[np.isfinite(wide)]) > 1e30).any():
        return None
    return float(np.abs(wide[np.isfinite(wide)]).max(initial=1.0))


def _exact(value: Any) -> bool:
    """Whether a value can hold no rounding: few bits of its type."""
    if not is_float(value):
        return True
    wide = np.asarray(value).astype(np.float64)
    most = {1: 1.0, 2: 2.0**5}.get(value.dtype.itemsize, 2.0**14)
    return bool(np.isfinite(wide).all() and (np.abs(wide) <= most).all() and (wide * 4 == np.round(wide * 4)).all())


def _run(form: str, graph: Graph, inputs: list[Any], outcome: Outcome) -> list[Array] | None:
    """The results of a graph, by the oracle; None where a part of it is not understood."""
    strange = [op.kind for op in graph.ops if op.kind.startswith(("unknown:", "custom:"))]
    strange += [f"{op.kind} by a function" for op in graph.ops if ["region"] in op.symbols.values()]
    strange += ["constant that is not printed" for op in graph.ops if _unprinted(op)]
    outcome.kinds.update(f"{form} {op.kind}" for op in graph.ops)
    outcome.unknown.update(f"{form} {kind}" for kind in strange)
    if strange:
        return None
    normalise(graph)
    writer = TableWriter(ONE)
    writer.graph(graph, "base", "base", "")
    program = load_program(writer.facts.tables)
    (base,) = program.top("base")
    values = {tensor: {0: _plain(x)} for tensor, x in zip(base.inputs, inputs, strict=True)}
    with np.errstate(all="ignore"):
        machine = Machine(program, Draws(program, 0).baseline, 0, True)
        kept = machine.run([base], values)
    return [kept[tensor][0] for tensor in base.outputs]


def _differences(w: World, inputs: list[Any], expected: list[Array], found: list[Array]) -> dict[int, str]:
    """What is wrong with which results."""
    wrong = {}
    for n, (got, want, slack) in enumerate(zip(found, expected, comparable(w, inputs, expected), strict=True)):
        if got.shape != want.shape:
            wrong[n] = f"has shape {got.shape}, JAX gives {want.shape}"
        elif slack is not None and not _agree(got, want, slack):
            wrong[n] = f"{_show(got)} read back, JAX gives {_show(want)}"
    return wrong


def _plain(x: Any) -> Array:
    """As the oracle holds it: reals in 64 bits, integers of less than a byte in one."""
    given: Array = np.asarray(x)
    if is_float(given):
        return given.astype(np.float64)
    byte = np.uint8 if given.dtype.name[0] == "u" else np.int8
    return given.astype(byte) if given.dtype.kind == "V" else given


def _unprinted(op: Op) -> bool:
    literal = op.results[0].literal if op.kind == "constant" else None
    return literal is not None and literal.text == ELIDED


def _agree(got: Array, want: Array, slack: float) -> bool:
    if not is_float(want):
        return bool(np.array_equal(got, _plain(want)))
    wide = want.astype(np.float64)
    with np.errstate(all="ignore"):
        typed = got.astype(want.dtype).astype(np.float64)  # infinite beyond the type
        same = (got == wide) | (typed == wide) | (np.isnan(typed) & np.isnan(wide))
        return bool((same | (np.abs(got - wide) <= slack)).all())


def _maker(w: World, n: int) -> str:
    for step in w.steps:
        if n < step.results:
            return step.name
        n -= step.results
    return "?"


def _show(x: Array) -> str:
    return " ".join(str(x.ravel()[:6]).split())
