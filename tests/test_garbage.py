"""Pauses of the cyclic collector: nothing is searched meanwhile, and what they made is searched now and then."""

from __future__ import annotations

import gc
import weakref

from scalify_dl.garbage import SEARCHED, paused


class Ring:
    """An object that only the cyclic collector can free."""

    def __init__(self) -> None:
        self.own = self


def test_cycles_of_many_pauses_are_freed() -> None:
    with paused():
        ring = weakref.ref(Ring())
        assert not gc.isenabled()
        assert ring() is not None
    for _ in range(SEARCHED):
        with paused():
            pass
    assert ring() is None
    assert gc.isenabled()
