"""A folder of sources in which the engine was not built.

Python looks into the folder that one is in first, so there the sources hide the package of `pip install .`, which has
the engine. The installed package is read in their place then: all of it, for an engine fits only the Python files that
it was installed with."""

from __future__ import annotations

import os
import sys
from importlib.machinery import EXTENSION_SUFFIXES

HOW = """\
the engine of scalify_dl is not built for this Python in {package}.
If this is the project's own folder, one of these helps:
  run from another folder, after `pip install .`
  pip install -e .        # uses this folder, and builds the engine
  tools/build_engine.sh   # builds the engine in this folder"""


def has_engine(package: str) -> bool:
    """Whether a folder of the package has an engine that this Python loads."""
    return any(os.path.isfile(f"{package}/pysouffle/_engine{suffix}") for suffix in EXTENSION_SUFFIXES)


def installed_elsewhere(here: str) -> str | None:
    """The installed package that these sources hide; None where the engine is beside them, or nothing is installed."""
    if has_engine(here):
        return None
    packages = [os.path.join(os.path.abspath(folder or os.curdir), "scalify_dl") for folder in sys.path]
    found = [p for p in packages if os.path.isfile(f"{p}/__init__.py") and not os.path.samefile(p, here)]
    return next(filter(has_engine, found), None)


def prefer_installed(here: str, path: list[str]) -> None:
    """Makes an installed package that these sources hide the one whose modules are found."""
    if installed := installed_elsewhere(here):
        import warnings

        path[:] = [installed]
        warnings.warn(
            f"the engine is not built in {here}: the installed {installed} is used, not these sources", stacklevel=3
        )
