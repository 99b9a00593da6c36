"""What a certificate says of a plan; `scalify_dl/certificate/premises.py` tests it."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

from scalify_dl.certificate.premises import follows, hashes
from scalify_dl.certificate.premises import premises as summary
from scalify_dl.pysouffle import rules_dir

from .check import MAIN, Premises, premises
from .meanings.declared import FILE
from .model import read_side
from .prepare import Prepared
from .slots import slots
from .tables import SIDES, TABLES, Tables
from .traits import Traits
from .world import World


def texts(directory: Path) -> dict[str, str]:
    """The texts of all tables, by file."""
    files = [directory / f"{side}_{name}.tsv" for side in SIDES for name in TABLES]
    files.append(directory / FILE)
    return {file.name: file.read_bytes().decode("utf-8", "surrogateescape") for file in files if file.is_file()}


def judged(directory: Path) -> Premises:
    """What the rules judge of a plan."""
    base, plan = (read_side(Tables(directory, side)) for side in "sp")
    world = World(plan)
    named = slots(plan, world)
    return premises(plan, base, world, named, Traits(plan, world, named))


def outputs(prepared: Prepared) -> dict[str, list[list[str]]]:
    """(distributed, baseline) tensors of every output, by name."""
    found: dict[str, list[list[str]]] = defaultdict(list)
    for pair, name in prepared.names.items():
        found[name].append(list(pair))
    return dict(found)


def said(prepared: Prepared) -> dict[str, Any]:
    """What is said of a plan that is PROVED."""
    rules, directory = rules_dir() / MAIN, prepared.plan.tables.directory
    tables, files = hashes(rules, rules_dir(), texts(directory))
    derived = dict(follows(rules, judged(directory)))
    return {
        "tables": tables, "rules": files, "outputs": outputs(prepared),
        "premises": summary(derived["raw"], derived["absent"]), **derived,
    }  # fmt: skip
