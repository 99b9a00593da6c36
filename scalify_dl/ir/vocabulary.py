"""The op vocabulary of `docs/facts.md` as sets: which kinds exist, which are elementwise, random, collective."""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The set of words of a text."""
    return frozenset(text.split())


ELEMENTWISE = words(
    """abs add and atan2 bitcast-convert cbrt ceil clamp clz compare complex convert cosine divide erf erf-inv
    exponential exponential-minus-one floor imag is-finite lgamma log log-plus-one logistic maximum minimum multiply
    negate not or popcnt power real reduce-precision remainder round-nearest-afz round-nearest-even rsqrt select
    shift-left shift-right-arithmetic shift-right-logical sign sine sqrt subtract tan tanh trunc xor floor-divide
    gelu gelu-tanh gelu-backward gelu-tanh-backward relu softplus"""
)
PREDICATES = words("compare is-finite")
"""Elementwise kinds whose result is boolean whatever the operands are."""

RANDOM = words("rng rng-bit-generator rng-uniform rng-normal dropout-mask")

GROUPED = words("all-reduce all-gather reduce-scatter all-to-all collective-broadcast")
COLLECTIVES = GROUPED | {"collective-permute"}

KINDS = (
    ELEMENTWISE
    | RANDOM
    | COLLECTIVES
    | words(
        """constant iota partition-id replica-id broadcast reshape transpose slice pad concatenate reverse reduce
        cumulative reduce-window select-and-scatter dot convolution gather scatter dynamic-slice dynamic-update-slice
        sort top-k empty attention attention-backward while conditional send recv"""
    )
)
"""Every kind but `custom:…` and `unknown:…`."""

MODES = ("clamp", "wrap")
"""What a gather does with ids out of range."""

REDUCERS = ("sum", "max", "min", "prod", "and", "or", "xor")
INDEX_REDUCERS = ("argmax", "argmin")

DTYPES = words(
    """pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f4e2m1fn f8e3m4 f8e4m3
    f8e4m3b11fnuz f8e4m3fn f8e4m3fnuz f8e5m2 f8e5m2fnuz f8e8m0fnu token"""
)


def is_kind(kind: str) -> bool:
    """Whether a kind belongs to the vocabulary (opaque and unknown ones included)."""
    return kind in KINDS or kind.startswith(("custom:", "unknown:"))


ARITY = {
    **dict.fromkeys(ELEMENTWISE, 1),
    **dict.fromkeys(
        words(
            """add and atan2 compare complex divide maximum minimum multiply or power remainder shift-left
            shift-right-arithmetic shift-right-logical subtract xor floor-divide gelu-backward gelu-tanh-backward"""
        ),
        2,
    ),
    **dict.fromkeys(words("select clamp"), 3),
    **dict.fromkeys(words("convolution select-and-scatter"), 2),
}
"""Operands of the kinds that have always as many."""

ONE_SHAPE = ELEMENTWISE | words(
    "reverse cumulative sort all-reduce collective-permute collective-broadcast dropout-mask"
)
"""Kinds whose operands and results have one shape."""

ONE_TYPE = (ELEMENTWISE | words("pad concatenate")) - words("shift-left shift-right-arithmetic shift-right-logical")
"""Kinds whose operands have one element type (a choice: what is chosen from)."""

_REDUCES = {"reducer": frozenset(REDUCERS)}
SYMBOLS: dict[str, dict[str, frozenset[str]]] = {
    "compare": {"direction": words("EQ NE LT LE GT GE")},
    "reduce": {"reducer": frozenset((*REDUCERS, *INDEX_REDUCERS))},
    "cumulative": {"reducer": frozenset((*REDUCERS, "logsumexp"))},
    "reduce-window": _REDUCES,
    "scatter": {"reducer": words("replace sum max min prod")},
    "sort": {"direction": words("ASC DESC")},
    "all-reduce": _REDUCES,
    "reduce-scatter": _REDUCES,
    "bitcast-convert": {"from": DTYPES},
    "dropout-mask": {"probability": frozenset()},
    "attention": {"scale": frozenset()},
    "attention-backward": {"scale": frozenset()},
}
"""Texts that a kind must have, and what they may be (empty: anything); kinds with a region may lack them."""

NUMBERS = {
    "iota": ("dimension",),
    "concatenate": ("dimension",),
    "cumulative": ("dimension",),
    "sort": ("dimension",),
    "top-k": ("k",),
    "all-gather": ("dimension",),
    "reduce-scatter": ("dimension",),
    "all-to-all": ("split_dimension", "concat_dimension"),
}
"""Numbers that a kind must have, one each (beside those that its shape rule asks for)."""

LITERALS = words("probability scale")
"""Texts that are numbers."""

FLAGS = {"attention": "causal", "attention-backward": "causal", "cumulative": "reverse"}
"""Numbers that a kind may have and that say yes or no."""

REGIONAL = words(
    "while conditional reduce reduce-window scatter select-and-scatter sort all-reduce reduce-scatter cumulative"
)
"""Kinds that may have regions: loops, branches, and what combines elements in a way that is not recognised."""

BITWISE = words("and or xor not shift-left shift-right-arithmetic shift-right-logical popcnt clz")
"""Kinds, and reducers, of integers and truth values."""

WINDOW = ("window_stride", "window_pad_low", "window_pad_high", "window_dilation", "base_dilation")

RANKED = {"constant": words("value"), "slice": words("start limit"), "send": words("peer"), "recv": words("peer")}
"""Numbers that may depend on the rank."""
