"""Certificates as files, and the hashes that tie one to its facts and rules.

A certificate is gzipped text, one JSON value a line:

    {"certificate": "scalify-dl", "version": 1, "facts": {file: sha256}, "rules": {file: sha256},
     "outputs": [[dist, base, layout]], "assumptions": [[tensor, text, why]], "clauses": [[file, line, text]],
     "order": {text: number}, "choices": {relation: rows}}     the numbers that `ord` gave to texts, and the rows of
                                                               relations with a choice domain
    [relation, row]                                  a fact
    [relation, row, clause, premises, bindings]      a step: a clause by number, premises by line number (the first
                                                     line after the header is 0)
    {"term": [items]}                                a record; rows name it as [number], counted from 0

Numbers and texts in rows stand for themselves, null is nil.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

FORMAT = "scalify-dl"
VERSION = 1


class CertificateError(Exception):
    """A certificate that is not accepted, and why."""


def facts_hash(lines: Iterable[str]) -> str:
    """The hash of a fact table: of its lines in sorted order, so that it does not depend on how they were written."""
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def file_hash(path: Path) -> str:
    """The hash of a rules file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rule_name(path: Path, shipped: Path) -> str:
    """What a certificate calls a rules file: its path among the shipped ones, or just its name."""
    return path.relative_to(shipped).as_posix() if path.is_relative_to(shipped) else path.name


def read_lines(path: Path) -> Iterator[Any]:
    """The JSON values of a certificate; CertificateError where it is damaged."""
    number = 0
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                number += 1
                yield json.loads(line)
    except (OSError, EOFError, ValueError, gzip.BadGzipFile, RecursionError) as error:
        raise CertificateError(f"line {number + 1} cannot be read: {error}") from None
    except Exception as error:  # zlib.error is no OSError
        raise CertificateError(f"the file is damaged: {error}") from None
