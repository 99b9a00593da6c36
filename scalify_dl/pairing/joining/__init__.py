"""Programs of several ranks as one program that every rank runs.

Ranks differ by more than numbers where they are stages of a pipeline, or hold unequal parts of a tensor. Such programs
become one: what they do alike is done once, and what one of them does alone is done on all ranks as its own ranks do
it. So a message is a value that is there already, and what ranks of several programs add up is a sum of values.

`join` keeps an invariant, from which it is exact: a value of the joined program is, on each rank, what the program of
that rank computes (`Alike`), or on every rank what its counterpart among the ranks of one program computes.
"""

from .cells import Cells, cells_of
from .join import Joined, join
from .outputs import in_joined
from .ports import rows_of
from .values import NeverComes, Unjoinable

__all__ = ["Cells", "Joined", "NeverComes", "Unjoinable", "cells_of", "in_joined", "join", "rows_of"]
