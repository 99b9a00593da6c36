"""`dlverify lint`: what is wrong with the placement of a distributed program, without a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from scalify_dl.ir.mesh import Mesh
from scalify_dl.lint.judge import Several, lint
from scalify_dl.lint.reported import reported, undecided
from scalify_dl.prove.options import Options

from .progress import progress
from .run import check_outputs, print_report


def run(
    dist: Sequence[Path], mesh: str, relate: Path | None, options: Options, *, show_baseline: bool, show_types: bool,
    show_costs: bool, backward: Sequence[Path] = (), derive_backward: bool = False,
    kernels: Sequence[str] = (),
) -> int:
    """Read, lift, decide, print; the exit status."""
    check_outputs(options, [*dist, *backward])
    follow = None
    if kernels:  # else kernels need not be known at all
        from scalify_dl.kernels.inside import following

        follow = following(kernels)
    try:
        with progress("lifting the program"):
            result = lint(dist, Mesh.parse(mesh), relate, options, follow, backward=backward,
                          derive_backward=derive_backward)  # fmt: skip
        report = reported(result, dist[0], show_baseline=show_baseline, show_types=show_types, show_costs=show_costs)
    except Several as several:
        report = undecided(f"{several}: lint lifts one program that all ranks run", dist[0])
    return print_report(report, options)
