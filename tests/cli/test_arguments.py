"""Plain argument lists are read without typer, and as typer reads them."""

import random
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest

from scalify_dl import cli
from scalify_dl.arguments import Command, Option, read

ROOT = Path(__file__).parents[2]
COMMANDS = cli.COMMANDS
WORDS = [
    "a",
    "b.hlo",
    "tp=2",
    "0",
    "1",
    "7",
    "-1",
    "1.5",
    "1e3",
    " 2",
    "1_0",
    "",
    "-",
    "--",
    "-q",
    "--nothing",
    "--json",
]


def fitting(rng: random.Random, type_: Any) -> str:
    """A word for a value of this type, nearly always."""
    if rng.random() < 0.05:
        return rng.choice(WORDS)
    return rng.choice(
        ["1", "7", "12"] + ["1.5", "0.25"] * ("float" in str(type_)) + WORDS[:3] * ("int" not in str(type_))
    )


def argument_list(rng: random.Random, command: Command) -> list[str]:
    """Words for a command: its own options and values of all kinds, in any order."""
    options = [p for p in command.parameters() if isinstance(get_args(p.annotation)[1], Option)]
    words: list[list[str]] = [[rng.choice(WORDS[:3])] for _ in range(rng.randrange(4))]
    odds = rng.choice([1, 3, 9])
    for p in options:
        names = get_args(p.annotation)[1].names or ("--" + p.name.replace("_", "-"),)
        type_ = get_args(p.annotation)[0]
        needed = p.default is p.empty
        for _ in range(
            rng.randrange(1, 3)
            if rng.randrange(10) < odds and "list" in str(type_)
            else needed or rng.randrange(10) < odds
        ):
            name, value = rng.choice(names), fitting(rng, type_)
            flag = type_ is bool and rng.random() < 0.95
            words.append([name] if flag else [f"{name}={value}"] if rng.random() < 0.2 else [name, value])
    if rng.random() < 0.1:
        words.append([rng.choice(WORDS)])
    rng.shuffle(words)
    return [command.group, command.name][not command.group :] + [word for part in words for word in part]


def test_what_is_read_is_what_typer_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, dict[str, Any]]] = []

    def note(command: Command, **given: Any) -> int:
        seen.append((command.name, given))
        return 0

    monkeypatch.setattr(Command, "__call__", note)
    app = cli.app
    rng = random.Random(0)
    plain = dict.fromkeys([command.name for command in COMMANDS], 0)
    for _ in range(1400):
        argv = argument_list(rng, rng.choice(COMMANDS))
        found = read(COMMANDS, argv)
        if found is not None:
            app(argv, standalone_mode=False)
            name, given = seen.pop()
            assert (found[0].name, found[1]) == (name, given), argv
            plain[name] += 1
    assert min(plain.values()) >= 2, plain


@pytest.mark.parametrize(
    "argv",
    [
        (),
        ("--help",),
        ("verify", "--help"),
        ("run",),
        ("run", "a", "b"),
        ("run", "a", "--jsn"),
        ("run", "a", "--json", "--json"),
        ("run", "a", "--timeout"),
        ("run", "a", "--timeout", "0"),
        ("run", "a", "--timeout", "1e3"),
        ("run", "a", "--max-memory", "0"),
        ("run", "a", "--out", "b", "--out", "c"),
        ("run", "--", "-a"),
        ("rules",),
        ("rules", "nothing"),
        ("nothing",),
    ],
)
def test_what_is_not_plain_is_left_to_typer(argv: tuple[str, ...]) -> None:
    assert read(COMMANDS, argv) is None


@pytest.mark.parametrize(
    "command",
    [
        ("run", "facts/row_parallel_linear", "--json"),
        (
            "verify",
            "examples/hlo/base.hlo",
            "examples/hlo/dist.hlo",
            "--mesh",
            "tp=2",
            "--relate",
            "examples/hlo/relations.yaml",
            "--json",
        ),
    ],
)
def test_a_plain_command_does_without_typer_and_numpy(command: tuple[str, ...]) -> None:
    code = "import sys; from scalify_dl.cli import main\ntry: main()\nexcept SystemExit: pass\n"
    code += "print([m for m in ('typer', 'pydantic', 'rich', 'z3', 'numpy', 'networkx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True, check=True, cwd=ROOT)
    assert '"verdict": "PROVED"' in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_ranges_of_ids_and_relations_need_neither_numpy_nor_yaml() -> None:
    code = "import sys, scalify_dl.pairing.own_ranges, scalify_dl.pairing.export, scalify_dl.commands.run\n"
    code += "print([m for m in ('numpy', 'yaml') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n"


def test_fx_text_is_read_without_numpy_and_stablehlo_without_the_reader_of_fx() -> None:
    code = "import sys, scalify_dl.readers.fx\nprint('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
    code = "import sys, scalify_dl.readers.stablehlo\nprint('scalify_dl.readers.fx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "False\n"
