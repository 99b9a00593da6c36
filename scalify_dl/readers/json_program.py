"""Programs as JSON: ops of the vocabulary by name, for code that cannot be captured (docs/propose.md).

    {"program": 1, "inputs": [{"name": "x", "dtype": "f32", "shape": [8, 16]}, …],
     "ops": [{"name": "y", "kind": "dot", "operands": ["x", "w"], "attributes": {"lhs_contracting_dims": [1], …}}],
     "outputs": ["y"]}

All that an op says is read: an unknown key, kind or attribute is bad input. Shapes are inferred, and must be what is
said where one is said.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from scalify_dl.errors import InputError
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.literals import Literal
from scalify_dl.ir.mesh import Mesh
from scalify_dl.ir.shapes import check_op, complete
from scalify_dl.ir.vocabulary import DTYPES, ELEMENTWISE, GROUPED

MOST_BYTES = 1 << 24
_WINDOW = "window_size window_stride window_pad_low window_pad_high window_dilation base_dilation reducer"
_TEXT = {
    "constant": "", "iota": "dimension", "broadcast": "dimensions", "reshape": "", "transpose": "dimensions",
    "slice": "start limit stride", "pad": "low high interior", "concatenate": "dimension", "reverse": "dimensions",
    "reduce": "dimensions reducer", "cumulative": "dimension reducer reverse", "reduce-window": _WINDOW,
    "dot": "lhs_batch_dims rhs_batch_dims lhs_contracting_dims rhs_contracting_dims",
    "gather": "offset_dims collapsed_slice_dims start_index_map operand_batching_dims start_indices_batching_dims "
    "slice_sizes index_vector_dim mode",
    "scatter": "update_window_dims inserted_window_dims scatter_dims_to_operand_dims input_batching_dims "
    "scatter_indices_batching_dims index_vector_dim reducer",
    "dynamic-slice": "sizes", "dynamic-update-slice": "", "sort": "dimension direction stable", "top-k": "k",
    "dropout-mask": "probability", "attention": "scale causal", "compare": "direction", "bitcast-convert": "from",
    "all-reduce": "reducer", "all-gather": "dimension", "reduce-scatter": "dimension reducer",
    "all-to-all": "split_dimension concat_dimension", "collective-broadcast": "", "collective-permute": "",
}  # fmt: skip
ATTRIBUTES = {kind: frozenset(_TEXT.get(kind, "").split()) for kind in (ELEMENTWISE | _TEXT.keys())}
"""What ops of a kind may say; kinds that are not here (loops, calls, messages) are not written so."""
_KEYS = {
    "program": ("program", "why", "inputs", "ops", "outputs"), "input": ("name", "dtype", "shape"),
    "op": ("name", "kind", "operands", "attributes", "dtype", "shape", "value", "groups", "pairs"),
}  # fmt: skip


def read(path: str | Path, mesh: Mesh | None = None) -> Graph:
    """A file."""
    data = Path(path).read_bytes()
    if len(data) > MOST_BYTES:
        raise InputError(f"a program of more than {MOST_BYTES:,} bytes", file=path)
    return parsed(data.decode("utf-8", "replace"), mesh, str(path))


def parsed(text: str, mesh: Mesh | None = None, file: str | None = None) -> Graph:
    """A text; InputError for the first thing in it that is not as it should be."""
    try:
        said = json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 0)
        raise InputError(f"not JSON: {getattr(error, 'msg', error)}", file=file, line=line) from None
    try:
        return _Program(mesh, file).graph(said)
    except InputError as error:
        raise error.located(file) from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError(f"a key is given twice: {', '.join(key for key, _ in pairs)[:60]}")
    return dict(pairs)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON")


class _Program:
    def __init__(self, mesh: Mesh | None, file: str | None) -> None:
        self.mesh = mesh
        self.made = Graph("program", file, for_all=True)
        self.known: dict[str, Tensor] = {}

    def graph(self, said: Any) -> Graph:
        _keys(said, "program", ("program", "inputs", "ops", "outputs"))
        if said["program"] != 1:
            raise InputError(f"a program of version {said['program']!r}"[:80], expected='"program": 1')
        for one in _list(said["inputs"], "inputs"):
            _keys(one, "input", ("name", "dtype", "shape"))
            self._name(one["name"], self.made.input(_text(one["name"]), _dtype(one["dtype"]), _shape(one["shape"])))
        for n, one in enumerate(_list(said["ops"], "ops")):
            _keys(one, "op", ("name", "kind"), f" (number {n})")
            try:
                self._op(one)
            except InputError as error:
                where = f"op `{_text(one['name'])}` ({_text(one['kind'])}): "
                raise InputError(where + error.message, expected=error.expected, hint=error.hint) from None
        for name in _list(said["outputs"], "outputs"):
            self.made.output(self._tensor(name))
        if not self.made.outputs:
            raise InputError("a program without outputs")
        if (why := said.get("why", "given")) not in ("given", "proposed"):
            raise InputError(f"`why` is {why!r}"[:80], expected="given, or proposed")
        if why == "proposed":
            for port in self.made.outputs:
                self.made.assume(port.tensor, "the program is what was drafted of its source", "proposed")
        return self.made

    def _op(self, one: Mapping[str, Any]) -> None:
        kind = _text(one["kind"])
        if kind not in ATTRIBUTES:
            raise InputError("this kind is not known here", expected="a kind of docs/facts.md without regions")
        numbers: dict[str, list[int]] = {}
        symbols: dict[str, list[str]] = {}
        attributes = one.get("attributes", {})
        if not isinstance(attributes, dict):
            raise InputError("attributes are an object")
        for key, value in attributes.items():
            if key not in ATTRIBUTES[kind]:
                raise InputError(f"no attribute `{key}`"[:80], expected=", ".join(sorted(ATTRIBUTES[kind])) or "none")
            values = value if isinstance(value, list) else [value]
            if all(isinstance(v, str) for v in values) and values:
                symbols[key] = values
            else:
                numbers[key] = [_whole(v) for v in values]
        operands = [self._tensor(name) for name in _list(one.get("operands", []), "operands")]
        types = None
        if kind == "constant" or "dtype" in one or "shape" in one:
            dtype = _dtype(one["dtype"]) if "dtype" in one else None
            shape = _shape(one["shape"]) if "shape" in one else () if kind == "constant" else None
            types = [complete(kind, operands, dtype, shape)]
        groups = self._groups(one) if kind in GROUPED else None
        if ("groups" in one and groups is None) or (kind == "collective-permute") != ("pairs" in one):
            raise InputError("`groups` belong to collectives, `pairs` to collective-permute")
        name = _text(one["name"])
        pairs = [(a, b) for a, b in _ranks(one["pairs"], 2)] if "pairs" in one else None
        op = self.made.add(
            kind, operands, types, name=name, numbers=numbers, symbols=symbols, groups=groups,
            pairs=pairs,
        )  # fmt: skip
        if (kind == "constant") != ("value" in one):
            raise InputError("`value` belongs to constants, and each has one")
        if kind == "constant":
            op.result.literal = Literal.scalar(_number(one["value"], op.result.dtype), op.result.dtype)
        check_op(op)
        for tensor in op.results:
            self._name(tensor.name, tensor)

    def _groups(self, one: Mapping[str, Any]) -> list[list[int]]:
        if self.mesh is None:
            raise InputError("a collective in a program of one device")
        if "groups" not in one:
            raise InputError("which ranks take part is not said", expected='"groups": [[0, 1], …]')
        groups = _ranks(one["groups"], None)
        every = [rank for group in groups for rank in group]
        if sorted(every) != list(range(self.mesh.size)):
            raise InputError(f"the groups are not the ranks 0 … {self.mesh.size - 1}, each once")
        return groups

    def _name(self, name: Any, tensor: Tensor) -> None:
        if _text(name) in self.known:
            raise InputError(f"the name `{name}` is given twice")
        self.known[name] = tensor

    def _tensor(self, name: Any) -> Tensor:
        if _text(name) not in self.known:
            raise InputError(f"nothing before has the name `{name}`")
        return self.known[name]


def _keys(said: Any, what: str, needed: tuple[str, ...], which: str = "") -> None:
    if not isinstance(said, dict):
        raise InputError(f"the {what}{which} is no object")
    if missing := [key for key in needed if key not in said]:
        raise InputError(f"the {what}{which} has no `{missing[0]}`", expected=f"{', '.join(_KEYS[what])}")
    if other := [key for key in said if key not in _KEYS[what]]:
        raise InputError(f"the {what}{which} has `{other[0]}`"[:80], expected=f"one of {', '.join(_KEYS[what])}")


def _list(said: Any, what: str) -> list[Any]:
    if not isinstance(said, list):
        raise InputError(f"{what} are a list")
    return said


def _text(said: Any) -> str:
    if not isinstance(said, str) or not said.isprintable() or not 0 < len(said) <= 200:
        raise InputError("a name is a text of 1 to 200 characters")
    return said


def _whole(said: Any) -> int:
    if isinstance(said, bool) or not isinstance(said, int) or abs(said) >= 1 << 63:
        raise InputError(f"{str(said)[:40]!r} is no whole number")
    return said


def _shape(said: Any) -> tuple[int, ...]:
    shape = tuple(_whole(n) for n in _list(said, "sizes"))
    if any(n < 0 for n in shape) or len(shape) > 16:
        raise InputError(f"{said} is no shape"[:80])
    return shape


def _dtype(said: Any) -> str:
    if said not in DTYPES - {"token"} or not isinstance(said, str):
        raise InputError(f"{said!r} is no element type"[:80], expected="f32, bf16, s32, pred …")
    return said


def _ranks(said: Any, size: int | None) -> list[list[int]]:
    found = [[_whole(n) for n in _list(group, "ranks")] for group in _list(said, "groups of ranks")]
    if any(size is not None and len(group) != size for group in found):
        raise InputError(f"each is a list of {size} ranks")
    return found


def _number(said: Any, dtype: str) -> int | float | bool:
    if isinstance(said, str) and said in ("inf", "-inf", "nan"):
        return float(said)
    if not isinstance(said, (bool, int, float)) or isinstance(said, bool) != (dtype == "pred"):
        raise InputError(f"{said!r} is no {dtype}"[:80], expected='a number, true, false, "inf"')
    if isinstance(said, float) and dtype[0] not in "fbc":
        raise InputError(f"{said} is no {dtype}")
    return said
