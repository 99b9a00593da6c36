"""What the inputs and outputs of distributed programs are of the baseline's, before any table is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from scalify_dl.ir.graph import Assumption, Tensor
from scalify_dl.ir.layout import Layout

from .correspond import Correspondence
from .ranges import Bounds

__all__ = ["Paired"]


@dataclass
class Paired:
    """By graph: correspondences of inputs, of unprinted constants, expectations of outputs and what was guessed of
    them; and bounds of integer inputs."""

    found: Sequence[Correspondence]
    elided: Sequence[Sequence[tuple[Tensor, Tensor, Layout]]]
    expected: Sequence[dict[tuple[Tensor, Tensor], str]]
    guessed: Sequence[Sequence[Assumption]]
    bounds: dict[Tensor, Bounds]
