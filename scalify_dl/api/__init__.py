"""One call: two programs in, a report out.

report = scalify_dl.verify("base.hlo", "dist.hlo", mesh="tp=2")                   # dumps
report = scalify_dl.verify(model, parallelise, mesh={"tp": 2}, args=(x,))         # live torch
report = scalify_dl.verify(loss, sharded_loss, mesh=mesh, args=(x, w))            # live JAX
report.verdict                                                                    # PROVED, REFUTED or UNKNOWN

scalify_dl.assert_equivalent(model, parallelise, mesh={"tp": 2}, args=(x,))       # in a test
"""

from . import check
from .arguments import with_hints
from .check import NotEquivalent
from .report import Report

verify = with_hints(check.verify, check.verify)
assert_equivalent = with_hints(check.assert_equivalent, check.verify)

__all__ = ["NotEquivalent", "Report", "assert_equivalent", "verify"]
