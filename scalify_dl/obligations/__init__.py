"""Arithmetic that the rules leave open: claims about index terms, decided by enumeration or by Z3.

    discharger = Discharger()
    proved, refuted = discharger(rows_of_obligation, relation)

The rules cut claims into intervals and decide nearly all of them (datalog/integers/claims.dl). What comes here
contains a division, a remainder or a product of unknowns. A small finite case is enumerated; Z3 is imported only when
something larger is left.
"""

from .cache import Cache, default_folder
from .discharge import Discharger
from .formula import Formula, Mesh, canonical

__all__ = ["Cache", "Discharger", "Formula", "Mesh", "canonical", "default_folder"]
