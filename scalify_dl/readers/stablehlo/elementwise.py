"""StableHLO and CHLO ops that work element by element."""

from __future__ import annotations

from scalify_dl.ir.graph import Tensor

from ..orders import LOGICAL, OPCODES, comparison_order
from .known import Known
from .scope import Site, Value, lowers, unknown
from .structural import broadcast_scalar, expand
from .types import Type, agrees

PLAIN = {name.replace("-", "_"): kind for name, kind in OPCODES.items() if name != "erf"}
"""StableHLO name → kind; those that need more than their operands are lowered below."""

CHLO = {"erf": "erf", "erf_inv": "erf-inv", "lgamma": "lgamma", "tan": "tan"}


@lowers(*(f"stablehlo.{name}" for name in PLAIN), *(f"chlo.{name}" for name in CHLO))
def plain(site: Site) -> list[Value]:
    """One op of the same meaning."""
    dialect, _, name = site.op.name.partition(".")
    kind = (CHLO if dialect == "chlo" else PLAIN)[name]
    operands = site.operands
    if operands[0].dtype == "pred":
        kind = LOGICAL.get(kind, kind)
    return [site.emit(kind, operands)]


@lowers("stablehlo.compare")
def compare(site: Site) -> list[Value]:
    """`compare` with its direction."""
    return [compared(site, site.operands)]


def compared(site: Site, operands: list[Tensor]) -> Tensor:
    """Operands of one shape, compared."""
    symbols = {"direction": [comparison(site.text("comparison_direction"))]}
    if site.has("compare_type"):
        symbols |= comparison_order(comparison(site.text("compare_type")), operands[0].dtype)
    return site.emit("compare", operands, symbols=symbols)


def comparison(text: str) -> str:
    """`EQ` from `#stablehlo<comparison_direction EQ>` and the like."""
    return text.rstrip(">").split()[-1].rstrip(">")


@lowers("stablehlo.convert")
def convert(site: Site) -> list[Value]:
    """A change of type; to the same type it is the operand."""
    (value,) = site.values
    whole = site.exact_float(value) if isinstance(value, Known) else None
    if whole is not None:
        return [whole]
    (x,) = site.operands
    return [x if x.dtype == site.type[0] else site.emit("convert", [x])]


@lowers("stablehlo.bitcast_convert")
def bitcast(site: Site) -> list[Value]:
    """The same bits as another type; to the same type it is the operand."""
    (x,) = site.operands
    if not agrees(site.type, x.shape):
        return unknown(site)  # types of different widths change the shape
    return [x if x.dtype == site.type[0] else site.emit("bitcast-convert", [x], symbols={"from": [x.dtype]})]


@lowers("stablehlo.reduce_precision")
def reduce_precision(site: Site) -> list[Value]:
    """Rounding to a format given by its bits."""
    numbers = {key: [site.number(key)] for key in ("exponent_bits", "mantissa_bits")}
    return [site.emit("reduce-precision", site.operands, numbers=numbers)]


@lowers("stablehlo.select")
def select(site: Site) -> list[Value]:
    """The predicate may be a scalar: broadcast."""
    pred, on_true, on_false = site.operands
    return [site.emit("select", [broadcast_scalar(site, pred, on_true.shape), on_true, on_false])]


@lowers("stablehlo.clamp")
def clamp(site: Site) -> list[Value]:
    """The bounds may be scalars: broadcast."""
    low, x, high = site.operands
    return [site.emit("clamp", [broadcast_scalar(site, low, x.shape), x, broadcast_scalar(site, high, x.shape)])]


@lowers("chlo.square")
def square(site: Site) -> list[Value]:
    """x · x"""
    (x,) = site.operands
    return [site.emit("multiply", [x, x])]


@lowers("chlo.atan")
def atan(site: Site) -> list[Value]:
    """atan2(x, 1)"""
    (x,) = site.operands
    return [site.emit("atan2", [x, site.constant(1.0, (x.dtype, x.shape))])]


@lowers("chlo.erfc")
def erfc(site: Site) -> list[Value]:
    """1 − erf(x)"""
    (x,) = site.operands
    return [site.emit("subtract", [site.constant(1.0, (x.dtype, x.shape)), site.emit("erf", [x])])]


@lowers("chlo.sinh", "chlo.cosh")
def hyperbolic(site: Site) -> list[Value]:
    """(exp(x) ∓ exp(−x)) / 2"""
    (x,) = site.operands
    up, down = site.emit("exponential", [x]), site.emit("exponential", [site.emit("negate", [x])])
    both = site.emit("subtract" if site.op.name == "chlo.sinh" else "add", [up, down])
    return [site.emit("multiply", [both, site.constant(0.5, (x.dtype, x.shape))])]


@lowers("chlo.is_inf", "chlo.is_pos_inf", "chlo.is_neg_inf")
def is_inf(site: Site) -> list[Value]:
    """Comparison with an infinity."""
    (x,) = site.operands
    type_: Type = (x.dtype, x.shape)
    if site.op.name == "chlo.is_inf":
        x = site.emit("abs", [x], type_)
    bound = float("-inf") if site.op.name == "chlo.is_neg_inf" else float("inf")
    return [site.emit("compare", [x, site.constant(bound, type_)], symbols={"direction": ["EQ"]})]


BINARY = """add and atan2 complex divide maximum minimum multiply or power remainder shift_left
shift_right_arithmetic shift_right_logical subtract xor""".split()  # noqa: SIM905
BROADCASTING = {f"chlo.broadcast_{name}": PLAIN[name] for name in BINARY}


@lowers(*BROADCASTING, "chlo.broadcast_compare", "chlo.broadcast_select")
def broadcasting(site: Site) -> list[Value]:
    """Operands of lower rank or with dims of size 1 are broadcast first (numpy's rules, or `broadcast_dimensions`)."""
    shape = site.type[1]
    given = site.numbers("broadcast_dimensions") if site.has("broadcast_dimensions") else None
    operands = [stretch(site, x, shape, given) for x in site.operands]
    name = site.op.name.removeprefix("chlo.broadcast_")
    if name == "compare":
        return [compared(site, operands)]
    kind = "select" if name == "select" else BROADCASTING[site.op.name]
    return [site.emit(LOGICAL.get(kind, kind) if operands[0].dtype == "pred" else kind, operands)]


def stretch(site: Site, x: Tensor, shape: tuple[int, ...], given: list[int] | None) -> Tensor:
    """Broadcasts an operand to the result's shape."""
    trailing = range(len(shape) - len(x.shape), len(shape))
    return expand(site, x, shape, given if given is not None and len(given) == len(x.shape) else trailing)
