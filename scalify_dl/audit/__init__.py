"""Numeric audit of correspondences: is every tuple of a `corr` table true, on every rank, for random inputs?

    report = audit(load("facts/row_parallel_linear").tables, read_corr("out/"))
    for finding in report.false: print(finding)

The table may come from our rules or from anybody: tab-separated columns dist, dist_piece, base, base_piece, layout
(docs/facts.md, “Layout text”).
"""

from __future__ import annotations

from .check import Audit, Finding, audit
from .table import read_corr

__all__ = ["Audit", "Finding", "audit", "read_corr"]
