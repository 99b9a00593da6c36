"""Certificates as files, and the hashes that tie one to its facts and rules.

A certificate is gzipped text, one JSON value a line. The first line names the format and hashes all that follows:

    {"certificate": "scalify-dl", "version": 3, "sha256": …}

the second one says what is proved, from what:

    {"facts": {file: sha256}, "rules": {file: sha256}, "outputs": [[dist, base, layout]],
     "assumptions": [[tensor, text, why]], "clauses": [[relation, file, line, text, variables]],
     "equalities": [[dist, base, layout]], "equality_assumptions": [[tensor, text, why]]       where outputs rest on
                                                               equal formulas: claims, and what they assume
     "parts": [[number, dist, base, layout, [[dist, base, layout], …], [[tensor, text, why], …]]]
                                                               parts that are equal if these hold those; their needs
     "order": {text: number}, "choices": {relation: rows}}     the numbers that `ord` gave to texts, and the rows of
                                                               relations with a choice domain

and the others are the derivation, premises first:

    {"values": [value, …]}                  values that follow, counted from 0 through the file: numbers, texts, null
                                            for nil, and records as the list of their items' numbers
    [clause, premises, bindings]            a step: a clause by number, the lines of its premises (derived rows are
                                            counted from 0), the values of its variables by number
    [relation, row]                         a given row, values by number
    {"decide": row}                         a claim of arithmetic that the checker is to decide: a row of `proved`
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from scalify_dl.whole import replacing

FORMAT = "scalify-dl"
VERSION = 3
_BLOCK = 1 << 20
_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class CertificateError(Exception):
    """A certificate that is not accepted, and why."""


def text_hash(text: str) -> str:
    """The hash of a text."""
    import hashlib  # where something is hashed

    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def table_hash(rows: Iterable[Sequence[Any]]) -> str:
    """The hash of a fact table: of its rows as `export` writes them."""
    return text_hash("".join(["\t".join(map(str, row)) + "\n" for row in rows]))


def rule_names(files: Iterable[Path], shipped: Path) -> dict[Path, str]:
    """What a certificate calls rules files: shipped ones by their path among these, others by name and number, as
    no shipped one is called."""
    own = 0
    names = {}
    for file in files:
        if file.is_relative_to(shipped.resolve()):
            names[file] = file.relative_to(shipped.resolve()).as_posix()
        else:
            own += 1
            names[file] = f"{file.name} (own {own})"
    return names


def own_rules(files: Mapping[Path, str], shipped: Path) -> list[tuple[str, str, str]]:
    """The assumptions that rules of somebody's own are: (name of the file, text, "rules") for each."""
    own = [(file.name, digest) for file, digest in files.items() if not file.is_relative_to(shipped.resolve())]
    return [(name, f"its rules are right, though none of the shipped ones (sha256 {h})", "rules") for name, h in own]


def read_lines(path: Path) -> Iterator[Any]:
    """The JSON values of a certificate after the first line; CertificateError where it is damaged."""
    number = 1
    import hashlib

    digest = hashlib.sha256()
    try:
        import gzip  # where a certificate is read

        with gzip.open(path, "rb") as file:
            first = json.loads(file.readline())
            if not isinstance(first, dict) or (first.get("certificate"), first.get("version")) != (FORMAT, VERSION):
                raise CertificateError(f"not a certificate of format {FORMAT} {VERSION}")
            while block := file.readlines(_BLOCK):
                for line in block:
                    digest.update(line)
                try:
                    values = json.loads(b"[" + b",".join(block) + b"]")
                except ValueError:
                    values = []
                if len(values) != len(block):  # a line at fault is found alone
                    values = [json.loads(line) for number, line in enumerate(block, number + 1)]
                yield from values
                number += len(block)
    except CertificateError:
        raise
    except (OSError, EOFError, ValueError, RecursionError) as error:
        raise CertificateError(f"line {number} cannot be read: {error}") from None
    except Exception as error:  # zlib.error is no OSError
        raise CertificateError(f"the file is damaged: {error}") from None
    if first.get("sha256") != digest.hexdigest():
        raise CertificateError("it was changed after it was written: its lines have another hash")


def write_lines(path: Path, lines: Iterable[Any]) -> None:
    """Write a certificate of these values, which follow the first line; it appears whole or not at all. The same lines
    give the same file."""
    import gzip  # where a certificate is written
    import hashlib

    body = "".join(_dumps(line) + "\n" for line in lines).encode()
    first = {"certificate": FORMAT, "version": VERSION, "sha256": hashlib.sha256(body).hexdigest()}
    with replacing(path) as draft, draft.open("wb") as raw, gzip.GzipFile("", "wb", 1, raw, mtime=0) as file:
        file.write(json.dumps(first).encode() + b"\n")
        file.write(body)
