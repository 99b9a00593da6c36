"""`dlverify check`: replay a certificate."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from scalify_dl.certificate.check import Checker
from scalify_dl.certificate.files import CertificateError
from scalify_dl.errors import InputError
from scalify_dl.garbage import paused
from scalify_dl.prove.pipeline import rule_files
from scalify_dl.pysouffle import rules_dir

from .progress import progress
from .run import load


def check(certificate: Path, directory: Path, rules: tuple[Path, ...], *, as_json: bool) -> int:
    """Status 0 for an accepted certificate, 3 for one that is rejected; bad input where there is none."""
    if not certificate.is_file():
        raise InputError(
            "no such certificate", file=certificate, hint="`dlverify run FACTS --certificate F` writes one"
        )
    if not directory.is_dir():
        raise InputError("no such facts directory", file=directory)
    try:
        facts = load(directory)  # facts that contradict each other are bad input, whatever is proved from them
        with paused(), progress("replaying the proof"):
            found = Checker(rule_files(rules), rules_dir()).replay(certificate, facts)
    except CertificateError as error:
        if as_json:
            print(json.dumps({"accepted": False, "reason": str(error)}, indent=2))
        print(f"dlverify: the certificate is rejected: {error}", file=sys.stderr)
        return 3
    if as_json:
        outputs = [{"tensor": d, "base_tensor": b, "layout": layout} for d, b, layout in found.outputs]
        assumptions = [{"tensor": t, "text": text, "why": why} for t, text, why in found.assumptions]
        print(
            json.dumps(
                {"accepted": True, "outputs": outputs, "assumptions": assumptions, "steps": found.steps}, indent=2
            )
        )
    else:
        print(f"accepted: {found.steps:,} steps, {len(found.outputs)} outputs, {len(found.assumptions)} assumptions")
        for dist, base, layout in found.outputs:
            print(f"  {dist} = {base}  {layout}")
    return 0
