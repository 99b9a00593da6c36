"""One call: two programs in, a report out.

report = scalify_dl.verify("base.hlo", "dist.hlo", mesh="tp=2")                   # dumps
report = scalify_dl.verify(model, parallelise, mesh={"tp": 2}, args=(x,))         # live torch
report = scalify_dl.verify(loss, sharded_loss, mesh=mesh, args=(x, w))            # live JAX
report.verdict                                                                    # PROVED, REFUTED or UNKNOWN

scalify_dl.assert_equivalent(model, parallelise, mesh={"tp": 2}, args=(x,))       # in a test
"""

from scalify_dl.report.of_pair import Report

from .check import NotEquivalent, assert_equivalent, verify

__all__ = ["NotEquivalent", "Report", "assert_equivalent", "verify"]
