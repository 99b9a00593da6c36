"""What a certificate says of a plan; `scalify_dl/certificate/premises.py` tests it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from scalify_dl.certificate.premises import follows, hashes, premises
from scalify_dl.pysouffle import rules_dir

from .check import MAIN
from .prepare import Prepared
from .tables import SIDES, TABLES


def texts(directory: Path) -> dict[str, str]:
    """The texts of all tables, by file."""
    files = [directory / f"{side}_{name}.tsv" for side in SIDES for name in TABLES]
    return {file.name: file.read_bytes().decode("utf-8", "surrogateescape") for file in files if file.is_file()}


def outputs(prepared: Prepared) -> dict[str, list[list[str]]]:
    """(distributed, baseline) tensors of every output, by name."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for pair, name in prepared.names.items():
        found[name].append(list(pair))
    return dict(found)


def said(prepared: Prepared) -> dict[str, Any]:
    """What is said of a plan that is PROVED."""
    rules = rules_dir() / MAIN
    tables, files = hashes(rules, rules_dir(), texts(prepared.plan.tables.directory))
    derived = dict(follows(rules, prepared.premises))
    return {
        "tables": tables, "rules": files, "outputs": outputs(prepared),
        "premises": premises(derived["raw"], derived["absent"]), **derived,
    }  # fmt: skip
