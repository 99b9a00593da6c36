"""`dlverify schema`: the JSON Schema of a file that people or programs write."""

from __future__ import annotations

from importlib.resources import files

from scalify_dl.errors import InputError


def schema(name: str) -> None:
    """Print it; InputError where there is none of this name."""
    folder = files("scalify_dl.schemas")
    there = sorted(entry.name.removesuffix(".json") for entry in folder.iterdir() if entry.name.endswith(".json"))
    if name not in there:
        raise InputError(f"no schema `{name}`", expected=f"one of {', '.join(there)}")
    print(folder.joinpath(f"{name}.json").read_text("utf-8"), end="")
