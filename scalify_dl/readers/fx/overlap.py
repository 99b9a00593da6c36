"""Whether two views of one storage may have an element in common, and whether one may show an element twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .lowering import Unsupported
from .memory import Node

if TYPE_CHECKING:  # most programs write through no views, and are read without numpy
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["disjoint", "is_part", "repeats"]

LARGEST = 1 << 30
WORK = 100_000


def disjoint(one: Node, other: Node) -> bool:
    """Whether views of one storage have no element in common, as far as can be told: both are made of an array that is
    never touched, and compared by address."""
    import numpy as np

    shape = one.storage.type[1]
    if np.prod(shape, dtype=np.float64) > LARGEST:
        return False
    root = np.empty(shape, dtype=np.bool_)
    try:
        return not np.shares_memory(_viewed(root, one), _viewed(root, other), max_work=WORK)  # type: ignore[arg-type]
    except (Unsupported, np.exceptions.TooHardError):
        return False


def repeats(node: Node) -> bool:
    """Whether a view may show an element of its storage more than once, as far as can be told."""
    import numpy as np

    if node.parent is None:
        return False
    shape = node.storage.type[1]
    if np.prod(shape, dtype=np.float64) > LARGEST:
        return True
    try:
        _viewed(np.empty(shape, dtype=np.bool_), node)
    except Unsupported:
        return True
    return False


def is_part(one: Node, whole: Node) -> bool:
    """Whether a view is one of the equal parts in a row that another view of the storage consists of."""
    import numpy as np

    shape = one.storage.type[1]
    if np.prod(shape, dtype=np.float64) > LARGEST:
        return False
    root = np.empty(shape, dtype=np.bool_)
    try:
        part, all_ = _viewed(root, one), _viewed(root, whole)
    except Unsupported:
        return False
    offset = part.__array_interface__["data"][0] - all_.__array_interface__["data"][0]
    rows = part.flags.c_contiguous and all_.flags.c_contiguous and part.size > 0
    return bool(rows and offset % part.size == 0 and 0 <= offset <= all_.size - part.size)


def _viewed(root: NDArray[np.bool_], node: Node) -> NDArray[np.bool_]:
    """A view of the root as numpy's; Unsupported where it has to copy."""
    import numpy as np

    steps = []
    while node.parent is not None and node.step is not None:
        steps.append(node.step)
        node = node.parent
    array: Any = root
    for step in reversed(steps):
        for op in step.chain(node.storage.type[0], array.shape):
            if op.kind == "transpose":
                array = array.transpose(op.numbers["dimensions"])
            elif op.kind == "slice":
                bounds = zip(op.numbers["start"], op.numbers["limit"], op.numbers["stride"], strict=True)
                array = array[tuple(slice(*bound) for bound in bounds)]
            elif op.kind == "reshape":
                before, array = array, array.reshape(op.result.shape)
                if before.size and not np.may_share_memory(before, array):
                    raise Unsupported("a view that numpy has to copy")
            else:
                raise Unsupported(f"a view by {op.kind}")
    found: NDArray[np.bool_] = array
    return found
