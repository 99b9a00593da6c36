"""Where the shipped rules are."""

from __future__ import annotations

from pathlib import Path


def rules_dir() -> Path:
    """The folder of the `.dl` files: `scalify_dl/datalog` when installed, `datalog/` at the root of the source tree."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "datalog", package.parent / "datalog"):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"the rules are missing: neither {package / 'datalog'} nor {package.parent / 'datalog'} exists"
    )
