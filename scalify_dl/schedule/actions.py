"""Actions of torch's pipeline schedules, as its CSV files spell them: `2F0`, `3SEND_B7`, `(0F5;3B2)OVERLAP_F_B`."""

from __future__ import annotations

import re
from typing import NamedTuple

from scalify_dl.errors import InputError

COMPUTE = ("F", "B", "I", "W")
"""Forward, full backward, backward of the input, backward of the weights."""
MESSAGES = ("SEND_F", "RECV_F", "SEND_B", "RECV_B")
WHOLE = ("UNSHARD", "RESHARD", "REDUCE_GRAD")
"""Actions of a stage, without a micro-batch."""
KINDS = (*COMPUTE, "BW", *MESSAGES, *WHOLE)
"""All kinds, as numbered."""
EARLIER = {"BW": "B", "B": "I"}
"""The older dialect: `BW` is the full backward, and `B` that of the input."""
_ACTION = re.compile(r"(\d+)(F|I|W|BW|B|UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*)", re.ASCII)
_OVERLAP = re.compile(r"\(([^()]*)\)OVERLAP_F_B", re.ASCII)
LARGEST = 2**20
"""Stages and micro-batches are below this."""


class Action(NamedTuple):
    """What a rank does at one place of its program."""

    stage: int
    kind: str
    micro_batch: int
    """-1 for actions of a whole stage."""

    @property
    def name(self) -> str:
        """As torch prints it."""
        return f"{self.stage}{self.kind}{'' if self.micro_batch < 0 else self.micro_batch}"


def parse(cell: str) -> list[Action]:
    """The actions of one cell, none for an empty one; InputError without a place."""
    text = cell.strip()
    if not text or text == "None":
        return []
    if text[0] == "(":
        overlap = _OVERLAP.fullmatch(text)
        if overlap is None:
            raise _unknown(text)
        return [action for part in overlap[1].split(";") for action in parse(part)]
    match = _ACTION.fullmatch(text)
    if match is None:
        raise _unknown(text)
    stage, kind, micro_batch = match.groups()
    if (kind in WHOLE) == bool(micro_batch):
        raise InputError(
            f'action "{text}" {"has a" if micro_batch else "lacks its"} micro-batch',
            expected=f"[stage]{kind}" + ("" if kind in WHOLE else "[micro-batch]"),
        )
    if len(stage) > 7 or len(micro_batch) > 7 or max(int(stage), int(micro_batch or 0)) >= LARGEST:
        raise InputError(f'the numbers of action "{text[:60]}" are too large', expected=f"below {LARGEST}")
    return [Action(int(stage), kind, int(micro_batch) if micro_batch else -1)]


def _unknown(text: str) -> InputError:
    return InputError(
        f'unknown action "{text[:60]}"',
        expected="[stage][F|I|B|W|SEND_F|RECV_F|SEND_B|RECV_B][micro-batch], [stage][UNSHARD|RESHARD|REDUCE_GRAD], "
        "or (action;action)OVERLAP_F_B",
    )
