"""`dlverify plan`: a training plan to a verdict."""

from __future__ import annotations

import sys
from pathlib import Path

from scalify_dl.plans.verdict import judge_plan
from scalify_dl.prove.options import Options
from scalify_dl.prove.verdict import Verdict

from .progress import progress
from .run import check_outputs, print_report


def plan(path: Path, options: Options) -> int:
    """Read, check, fold, run the rules, print; the exit status. A file is a plan that is described by its dumps."""
    check_outputs(options)
    with progress("reading the plan") as say:
        if path.is_file():
            from scalify_dl.plans.described import read_described, report_on_described

            report = report_on_described(read_described(path), options, say)
        else:
            report = judge_plan(path, options, say)
    if options.certificate and report.verdict is not Verdict.PROVED:
        print(f"dlverify: no certificate is written: the verdict is {report.verdict.value}", file=sys.stderr)
    return print_report(report, options)
