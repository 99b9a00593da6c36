"""The command line, `dlverify`.

Exit status: 0 PROVED, 1 REFUTED, 3 UNKNOWN, 2 bad input; 70 an error of this program, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from scalify_dl.arguments import read
from scalify_dl.cli_commands import COMMANDS
from scalify_dl.errors import InputError

_HELP = "Prove that a distributed ML program computes what its single-device baseline computes, or show where not."
_GROUPS = {"rules": "Work with rule files.", "readers": "Work with the readers of programs."}

_OF_FILES = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EROFS, errno.ELOOP, errno.EIO, errno.EDQUOT)
"""What the system says of a file that somebody named, and that no check of ours foresees."""


def __getattr__(name: str) -> Any:
    """`app`: the command line as an application of typer, which is imported when it is asked for."""
    if name == "app":
        from scalify_dl.typer_app import typer_app

        return typer_app(COMMANDS, "dlverify", _HELP, _GROUPS)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _spread_rules(argv: list[str]) -> list[str]:
    """`--rules a.dl b.dl` as `--rules a.dl --rules b.dl`: the documented form takes several files."""
    out: list[str] = []
    inside = False
    for i, arg in enumerate(argv):
        if inside and arg.endswith(".dl") and argv[i - 1] != "--rules":
            out.append("--rules")
        elif arg != "--rules" and not (inside and arg.endswith(".dl")):
            inside = False
        inside = inside or arg == "--rules"
        out.append(arg)
    return out


def _plain(argv: list[str]) -> list[str]:
    """Without `--no-color`, which may stand anywhere among the options and is done here."""
    end = argv.index("--") if "--" in argv else len(argv)
    if "--no-color" in argv[:end]:
        os.environ["NO_COLOR"] = "1"
    return [arg for arg in argv[:end] if arg != "--no-color"] + argv[end:]


def _checked(argv: list[str]) -> list[str]:
    """Programs without a command are told which takes them."""
    if argv and argv[0] not in {word for command in COMMANDS for word in (command.name, command.group)}:
        place = Path(argv[0])
        if place.exists():
            takes = "dlverify run FACTS" if place.is_dir() else "dlverify verify BASE DIST… --mesh tp=2"
            raise InputError(f"`{argv[0]}` is no command", expected=takes, hint="dlverify --help lists all commands")
    return argv


def _fail(status: int, text: str) -> NoReturn:
    try:
        print(text, file=sys.stderr, flush=True)
    except OSError:  # nor can this be written; the status says it
        _discard(2)
    sys.exit(status)


def _discard(stream: int) -> None:
    """What is still to be written there has nowhere to go."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


def _streams() -> None:
    """A stream that is closed takes what is printed all the same; characters that it has no room for are spelled."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure") and (
            stream.errors == "strict" or not stream.encoding.lower().startswith("utf")
        ):  # a POSIX locale lets undecodable names through, and nothing else
            stream.reconfigure(errors="backslashreplace")


def main() -> None:
    """Entry point of the `dlverify` script."""
    _streams()
    try:
        try:
            argv = _checked(_spread_rules(_plain(sys.argv[1:])))
            plain = None if "_DLVERIFY_COMPLETE" in os.environ else read(COMMANDS, argv)
            if plain is None:
                __getattr__("app")(argv, prog_name="dlverify")
            else:
                command, given = plain
                sys.exit(command(**given))
        finally:
            sys.stdout.flush()
    except OSError as error:
        if error.filename and error.errno in _OF_FILES:
            _fail(2, f"dlverify: {str(error.filename)[:200]}: {error.strerror}")
        if error.errno not in (errno.ENOSPC, errno.EPIPE):
            _fault()
        _discard(1)
        if error.errno == errno.EPIPE:  # `| head`: the reader has seen enough; as if SIGPIPE had ended us
            sys.exit(141)
        _fail(2, f"dlverify: the output cannot be written: {error.strerror}")
    except InputError as error:
        _fail(2, f"dlverify: {error}")
    except KeyboardInterrupt:
        _fail(130, "dlverify: interrupted")
    except Exception:  # status 1 would read as REFUTED
        _fault()


def _fault() -> NoReturn:
    import traceback

    told = "dlverify: this is a fault of dlverify, not of your input; please report it with the lines above"
    _fail(70, traceback.format_exc() + told)


if __name__ == "__main__":
    main()
