"""Answers on disk, each with its formula and what decided it, signed with a key that only the user has.

A proof that is read is believed, so nobody else may write one: entries carry an HMAC over formula, answer and decider,
by a key that stands outside the cache folder, readable by nobody else. A cache may so be shared, restored from an
archive or lie in a folder that others write to. An entry that is lost, damaged, of another formula or signed by another
key is only solved again; without a key there is no cache.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from .enumerate import Witness
from .formula import Formula

VERSION = 2
"""Part of every file name and signature: raised when the meaning of a formula changes."""


def default_folder() -> Path:
    """`$SCALIFY_DL_CACHE`, else the user's cache folder."""
    named = os.environ.get("SCALIFY_DL_CACHE")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "scalify-dl"


def user_key(folder: Path | None = None) -> bytes | None:
    """The user's key, made when it is first asked for; None where none can be kept that nobody else reads.

    `folder`: the user's folder of settings, if not `$XDG_CONFIG_HOME/scalify-dl`.
    """
    if folder is None:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "scalify-dl"
    file = folder / "cache-key"
    with suppress(OSError, RuntimeError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with suppress(FileExistsError):
            fresh = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
            descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                with os.fdopen(descriptor, "wb") as out:
                    out.write(secrets.token_bytes(32))
                os.link(fresh, file)  # whole, and only if there is none
            finally:
                fresh.unlink()
        about = os.lstat(file)
        own = stat.S_ISREG(about.st_mode) and about.st_uid == os.getuid() and not about.st_mode & 0o077
        key = file.read_bytes() if own else b""
        return key if len(key) == 32 else None
    return None


class Cache:
    """Proofs and refutations; what a solver could not decide is not kept."""

    def __init__(self, folder: Path | None, key: bytes | None = None) -> None:
        """`key`: if not the user's."""
        self.secret = key or (None if folder is None else user_key())
        self.folder = None if self.secret is None else folder

    def _file(self, key: str) -> Path | None:
        return None if self.folder is None else self.folder / f"obligations-{VERSION}" / key[:2] / key

    def _signature(self, content: dict[str, object]) -> str:
        text = json.dumps([VERSION, sorted(content.items())])
        return hmac.digest(self.secret or b"", text.encode(), "sha256").hex()

    def get(self, formula: Formula) -> tuple[bool, Witness | None] | None:
        """(proved, where it fails), None if not known."""
        file = self._file(formula.key)
        try:
            if file is None:
                return None
            content = json.loads(file.read_text("utf-8"))
            signature = content.pop("signature")
            if content["formula"] != formula.text or not hmac.compare_digest(signature, self._signature(content)):
                return None
            if content["proved"] is True:
                return True, None
            return False, Witness(tuple(map(int, content["digits"])), int(content["place"]), int(content["x"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError):
            return None

    def put(self, formula: Formula, proved: bool, witness: Witness | None, by: str) -> None:
        """Keep an answer and what decided it; a cache that cannot be written is no error."""
        file = self._file(formula.key)
        if file is None or (not proved and witness is None):
            return
        content: dict[str, object] = {"formula": formula.text, "proved": proved, "by": by}
        if witness is not None:
            content |= {"digits": list(witness.digits), "place": witness.place, "x": witness.x}
        fresh = file.with_name(f".{file.name}.{secrets.token_hex(8)}")
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                fresh.write_text(json.dumps(content | {"signature": self._signature(content)}), "utf-8")
                fresh.replace(file)
            finally:
                fresh.unlink(missing_ok=True)
