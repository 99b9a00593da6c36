"""Arguments and options that several commands have, each declared once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from scalify_dl.arguments import Argument, Option
from scalify_dl.errors import InputError
from scalify_dl.prove.options import Options

FactsDir = Annotated[Path, Argument("FACTS", help="Directory of fact tables.")]
Base = Annotated[Path, Argument("BASE", help="Dump of the single-device program.")]
Dist = Annotated[list[Path], Argument("DIST...", help="One SPMD program, or one per rank in row-major mesh order.")]
Mesh = Annotated[str, Option("--mesh", help="Mesh axes and sizes, major first: dp=2,tp=4.")]
Relate = Annotated[Path | None, Option("--relate", metavar="F.yaml", help="Relations file: placement of inputs.")]
Rules = Annotated[
    list[Path] | None, Option("--rules", metavar="F.dl...", help="Further rule files (meanings of opaque ops).")
]
Meanings = Annotated[
    list[Path] | None,
    Option("--meaning", metavar="F.py", help="Python file with numeric meanings of opaque calls (repeatable)."),
]
Json = Annotated[bool, Option("--json", help="Print one JSON object.")]
Out = Annotated[Path | None, Option("--out", metavar="DIR", help="Keep facts and derived relations here.")]
CertificateOut = Annotated[Path | None, Option("--certificate", metavar="F", help="Write the proof here.")]
Strict = Annotated[bool, Option("--strict", help="An assumption that is not accepted makes the verdict UNKNOWN.")]
Accept = Annotated[
    Path | None, Option("--accept", metavar="F", help="File of agreed assumptions (see docs/verdicts.md).")
]
Sarif = Annotated[Path | None, Option("--sarif", metavar="F", help="Write SARIF 2.1.0 for code scanning.")]
Html = Annotated[Path | None, Option("--html", metavar="F", help="Write a page with the report and the graphs.")]
Junit = Annotated[Path | None, Option("--junit", metavar="F", help="Write JUnit XML: a case for each output.")]
Baseline = Annotated[
    Path | None, Option("--baseline", metavar="F", help="SARIF of known findings: they are annotated no more.")
]


FORMATS = ("text", "json", "github", "quiet")


def _format(given: str) -> str:
    if given not in FORMATS:
        raise ValueError(f"one of {', '.join(FORMATS)} was expected")
    return given


OutputFormat = Annotated[
    str, Option("--output-format", metavar="|".join(FORMATS), check=_format, help="How the report is printed.")
]

Quiet = Annotated[bool, Option("--quiet", "-q", help="One line and the status: --output-format quiet.")]


def above_zero(given: float) -> float:
    """A number above 0; ValueError."""
    if not 0 < given < float("inf"):
        raise ValueError("a number above 0 was expected")
    return given


Timeout = Annotated[
    float | None, Option("--timeout", metavar="SECONDS", check=above_zero, help="Give up after this long.")
]
MaxMemory = Annotated[
    int | None,
    Option("--max-memory", metavar="MB", least=1, help="Stop the rules where their tables take more than this."),
]
Symbolic = Annotated[
    str | None,
    Option("--symbolic", metavar="NAMES", help="Prove for all sizes: tp,batch=tokens:0."),
]
Sample = Annotated[
    list[str] | None,
    Option("--sample", metavar="'BASE DIST tp=4'", help="The same pair at other sizes."),
]
Size = Annotated[
    list[str] | None,
    Option("--size", metavar="INPUT:DIM=N", help="A size that the dumps leave open: tokens:0=8, or s77=8."),
]
Kernel = Annotated[
    list[str] | None,
    Option("--kernel", metavar="OP=K.py[,as=NAME]", help="The kernel that an opaque call runs; it is proved, too."),
]
NoRefute = Annotated[bool, Option("--no-refute", help="Do not look for a counterexample.")]


def options(
    rules: Rules = None,
    json: Json = False,
    out: Out = None,
    strict: Strict = False,
    accept: Accept = None,
    timeout: Timeout = None,
    max_memory: MaxMemory = None,
    no_refute: NoRefute = False,
) -> Options:
    """What is asked of a run."""
    return Options(tuple(rules or ()), out, None, strict, accept, timeout, max_memory, not no_refute, json)


def written(
    certificate: CertificateOut = None,
    sarif: Sarif = None,
    html: Html = None,
    junit: Junit = None,
    baseline: Baseline = None,
    output_format: OutputFormat = "text",
    quiet: Quiet = False,
) -> dict[str, Any]:
    """What is to be written of it, and how it is printed."""
    given = {"certificate": certificate, "sarif": sarif, "html": html, "junit": junit, "baseline": baseline}
    return {**given, "format": _printed(output_format, quiet)}


def _printed(output_format: str, quiet: bool) -> str:
    if quiet and output_format not in ("text", "quiet"):
        raise InputError(f"--quiet and --output-format {output_format} together", expected="one of them")
    return "quiet" if quiet else output_format


def alone(
    rules: Rules = None,
    json: Json = False,
    timeout: Timeout = None,
    sarif: Sarif = None,
    html: Html = None,
    junit: Junit = None,
    baseline: Baseline = None,
    output_format: OutputFormat = "text",
    quiet: Quiet = False,
) -> Options:
    """What is asked of a run on one program, and written of it."""
    return Options(
        tuple(rules or ()), timeout=timeout, json=json, sarif=sarif, html=html, junit=junit, baseline=baseline,
        format=_printed(output_format, quiet),
    )  # fmt: skip


def named_pair(
    base: Annotated[Path | None, Argument("[BASE", help="Dump of the single-device program.")] = None,
    dist: Annotated[
        list[Path] | None, Argument("DIST...]", help="One SPMD program, or one per rank in row-major mesh order.")
    ] = None,
    mesh: Annotated[
        str | None, Option("--mesh", help="Mesh axes and sizes, major first: dp=2,tp=4. Without: names of pairs.")
    ] = None,
    size: Size = None,
    kernel: Kernel = None,
) -> Any:
    """A pair, or names of pairs."""
    from scalify_dl.families.capture import Capture
    from scalify_dl.readers.sizes import Sizes

    kernels = tuple(kernel or ())
    return Capture(base, tuple(dist or ()), mesh or "", sizes=Sizes.parse(size or ()), kernels=kernels)


def pair(base: Base, dist: Dist, mesh: Mesh, size: Size = None, kernel: Kernel = None) -> Any:
    """A pair of programs."""
    from scalify_dl.families.capture import Capture
    from scalify_dl.readers.sizes import Sizes

    return Capture(base, tuple(dist), mesh, sizes=Sizes.parse(size or ()), kernels=tuple(kernel or ()))
