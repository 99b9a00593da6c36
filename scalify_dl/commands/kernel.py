"""`dlverify kernel`: whether a kernel computes an op, a program or what another kernel does."""

from __future__ import annotations

import json
import re
import resource
import time
from collections.abc import Collection, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from scalify_dl.errors import InputError
from scalify_dl.garbage import paused
from scalify_dl.kernels.for_all import decided_at, decided_for_all
from scalify_dl.kernels.inside import number
from scalify_dl.kernels.report import as_object, render


def kernel(
    file: Path,
    *,
    named: str | None,
    spec: Path | None,
    function: str | None,
    sizes: Sequence[str],
    timeout: float | None,
    as_json: bool,
    reals: bool = False,
    for_all: str = "",
) -> int:
    """Read, run, compare, print; the exit status."""
    known = _sizes(sizes)
    if (named is None) == (spec is None):
        raise InputError(
            "what the kernel is to compute is not said", expected="--as NAME or --spec FILE, one of them",
            hint="--as matmul; --spec base.fx.txt, a dump or another kernel",
        )  # fmt: skip
    names = [name.strip() for name in for_all.split(",")] if for_all else []
    if bad := [name for name in names if not name.isidentifier() or name in known]:
        raise InputError(f"--for-all {bad[0]}", expected="names, none of which has a --size: --for-all M,N,block_M")
    texts = [file] if spec is None else [file, spec]
    _said_somewhere("--size", known, texts)
    _said_somewhere("--for-all", names, texts)
    with paused():
        if names:
            found, stated, judgement = decided_for_all(
                file, function, named, spec, known, names, timeout or 60.0, reals=reals
            )
        else:
            found, stated, judgement = decided_at(file, function, named, spec, known, timeout or 60.0, reals=reals)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    judgement.stats |= {"cpu_s": round(time.process_time(), 2), "peak_mb": usage.ru_maxrss // 1024}
    if as_json:
        print(json.dumps(as_object(found, stated, judgement), indent=2, ensure_ascii=False))
    else:
        print(render(found, stated, judgement), end="")
    return judgement.verdict.exit_code


def _said_somewhere(option: str, known: Collection[str], files: Sequence[Path]) -> None:
    """Refuse a name of an option that no text says."""
    texts = [file.read_text("utf-8", "replace") for file in files if file.is_file()]
    words = {word for text in texts for word in re.findall(r"\w+", text)} if len(texts) == len(files) else {*known}
    for name in known:
        if name not in words:
            near = get_close_matches(name, words, 1)
            hint = f"did you mean `{near[0]}`?" if near else None
            raise InputError(f"{option} {name}: no text says this name", file=files[0], hint=hint)


def _sizes(given: Sequence[str]) -> dict[str, Any]:
    """`n=64` as numbers, truths and texts."""
    found: dict[str, Any] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise InputError(f'--size "{text}"', expected="NAME=VALUE: n=64, dtype=float16, causal=True")
        found[name] = number(value)
    return found
