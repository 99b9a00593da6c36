"""A broadcast that is put before rows in blocks: a class token, before the patches of a batch that is cut."""

from __future__ import annotations

from scalify_dl.audit import audit
from scalify_dl.audit.derive import derive
from scalify_dl.audit.pair import Pair
from scalify_dl.ir.graph import Graph, Tensor
from scalify_dl.ir.layout import Digit, Layout


def with_token(g: Graph, token: Tensor, x: Tensor) -> Tensor:
    """token[1, w] before the rows of every x[n, k, w]."""
    wide = g.emit("broadcast", [token], shape=(x.shape[0], 1, x.shape[2]), dimensions=[1, 2])
    return g.emit("concatenate", [wide, x], dimension=1)


def batch(*, own: bool = False) -> Pair:
    """A batch of 8 over two axes, the second one major; `own`: every rank has its own token."""
    pair = Pair({"dp": 2, "tp": 2})
    blocks = [("dp", [Digit(0, 2, 2)]), ("tp", [Digit(0, 4, 2)])]
    x, part = pair.input((8, 3, 5), layout=Layout.of([[Digit(0, 1, 2)], [Digit(1, 1, 3)], [Digit(2, 1, 5)]], blocks))
    token, held = pair.input((1, 5))
    if own:
        rank = pair.dist.emit("convert", [pair.dist.emit("partition-id", [], shape=(), dtype="u32")], dtype="f32")
        held = pair.dist.emit("add", [held, pair.dist.emit("broadcast", [rank], shape=(1, 5), dimensions=[])])
    over = {"dimensions": [0], "reducer": "sum"}
    base, dist = with_token(pair.base, token, x), with_token(pair.dist, held, part)
    total = pair.dist.emit("reduce", [pair.dist.emit("multiply", [dist, dist])], **over)
    total = pair.dist.emit("all-reduce", [total], reducer="sum", groups=pair.groups("dp", "tp"))
    pair.outputs(pair.base.emit("reduce", [pair.base.emit("multiply", [base, base])], **over), total)
    return pair


def test_a_broadcast_lies_as_what_it_is_put_before() -> None:
    tables = batch().tables()
    derived = derive(tables)
    assert not derived.unproved
    assert audit(tables, derived.corr).false == []


def test_tokens_of_ranks_are_none() -> None:
    tables = batch(own=True).tables()
    derived = derive(tables)
    assert not derived.proved
    assert audit(tables, derived.corr).false == []
