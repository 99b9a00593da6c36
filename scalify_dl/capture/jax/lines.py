"""Source lines of backward passes that a program writes by hand (`custom_vjp`).

JAX says of what they run where the op stands that they differentiate, which is not where a collective is lacking.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

from ..raised import is_the_programs

__all__ = ["own_lines"]


@contextmanager
def own_lines() -> Iterator[None]:
    """What functions of the program run while JAX goes through another function's ops is said to be at their lines.

    Nothing changes where JAX (its internals are no interface) does not say how it goes through them.
    """
    try:
        from jax._src import source_info_util as info

        manager = info.UserContextManager
        current, enter, leave = info.current, manager.__enter__, manager.__exit__
    except (ImportError, AttributeError):
        yield
        return
    entered: list[FrameType] = []
    the_programs = cache(is_the_programs)

    def entering(self: Any) -> Any:
        entered.append(sys._getframe(1))
        return enter(self)

    def leaving(self: Any, *error: Any) -> Any:
        entered.pop()
        return leave(self, *error)

    def calls_users(frame: FrameType | None) -> bool:
        """Whether a function of the program is called from where the last context was entered."""
        while frame is not None and frame is not entered[-1]:
            if the_programs(frame.f_code.co_filename):
                return True
            frame = frame.f_back
        return False

    def nearest() -> Any:
        found = current()
        if entered and calls_users(sys._getframe(1)):
            return found.replace(traceback=type(found.traceback).get_traceback())
        return found

    info.current, manager.__enter__, manager.__exit__ = nearest, entering, leaving
    try:
        yield
    finally:
        info.current, manager.__enter__, manager.__exit__ = current, enter, leave
