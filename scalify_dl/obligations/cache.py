"""Answers on disk, by the hash of the formula. A lost or damaged entry is only solved again."""

from __future__ import annotations

import json
import os
from pathlib import Path

from .enumerate import Witness

VERSION = 1
"""Part of every file name: raised when the meaning of a formula changes."""


def default_folder() -> Path:
    """`$SCALIFY_DL_CACHE`, else the user's cache folder."""
    named = os.environ.get("SCALIFY_DL_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scalify-dl"


class Cache:
    """Proofs and refutations; what a solver could not decide is not kept."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def _file(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / f"obligations-{VERSION}" / key[:2] / key

    def get(self, key: str) -> tuple[bool, Witness | None] | None:
        """(proved, where it fails), None if not known."""
        file = self._file(key)
        try:
            if file is None:
                return None
            content = json.loads(file.read_text("utf-8"))
            if content["proved"] is True:
                return True, None
            return False, Witness(tuple(map(int, content["digits"])), int(content["place"]), int(content["x"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def put(self, key: str, proved: bool, witness: Witness | None) -> None:
        """Keep an answer; a cache that cannot be written is no error."""
        file = self._file(key)
        if file is None:
            return
        content: dict[str, object] = {"proved": proved}
        if witness is not None:
            content |= {"digits": witness.digits, "place": witness.place, "x": witness.x}
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            fresh = file.with_name(f".{file.name}.{os.getpid()}")
            fresh.write_text(json.dumps(content), "utf-8")
            fresh.replace(file)
        except OSError:
            pass
