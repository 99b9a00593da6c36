"""What `dlverify` can be asked, in the order in which its help lists it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scalify_dl import cli_pairs, cli_single
from scalify_dl.arguments import Command


def _datalog() -> Callable[..., Any]:
    from scalify_dl.pysouffle.command import datalog

    return datalog


COMMANDS = [*cli_pairs.COMMANDS, *cli_single.COMMANDS, Command("datalog", _datalog, {}, "")]
