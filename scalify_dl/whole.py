"""Files and directories that appear whole or not at all.

What is written stands beside its place under another name until it is complete, and then takes the place by renaming: a
run that dies, a full disk or a second run leaves what was there before, or what is new, never a mixture.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from scalify_dl.errors import InputError

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]


def beside(path: Path) -> Path:
    """A name in the same folder that nothing has; hidden."""
    return path.with_name(f".{path.name}.{os.urandom(8).hex()}")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file; InputError where that fails, and the place then is as it was."""
    with replacing(path) as draft:
        draft.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A draft to write to, which takes the place of `path` at the end; InputError where that fails.

    A device or a pipe stays where it is: what the draft holds then goes through it.
    """
    if path.exists() and (not path.is_file() or path.absolute().is_relative_to("/dev")) and not path.is_dir():
        yield from _through(path)
        return
    path = Path(os.path.realpath(path)) if path.is_symlink() else path
    draft = beside(path)
    try:
        yield draft
        if path.exists():
            shutil.copymode(path, draft)
        draft.replace(path)
    except OSError as error:
        raise InputError(f"cannot write the file: {error.strerror or error}", file=path) from error
    finally:
        draft.unlink(missing_ok=True)


def _through(path: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "draft"
        yield draft
        try:
            with path.open("wb") as stream:
                stream.write(draft.read_bytes())
        except OSError as error:
            raise InputError(f"cannot write the file: {error.strerror or error}", file=path) from error


def replace_directory(directory: Path, fill: Callable[[Path], None], keep: Callable[[Path], bool]) -> None:
    """Fill a new directory and put it in the place of `directory`, with what `keep` says of that one's entries.

    InputError where anything fails, and `directory` then is as it was. Runs that write to one folder take turns with
    the renaming; what each leaves is whole.
    """
    directory = directory.resolve()
    draft = beside(directory)
    old = beside(directory)
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        draft.mkdir()
        fill(draft)
        with locked(directory):
            if directory.exists():
                for entry in directory.iterdir():
                    if keep(entry) and not (draft / entry.name).exists():
                        _copy(entry, draft / entry.name)
                shutil.copymode(directory, draft)
            if directory.exists():
                directory.rename(old)
            try:
                draft.rename(directory)
            except OSError:
                with suppress(OSError):
                    old.rename(directory)
                raise
    except OSError as error:
        raise InputError(f"cannot write the directory: {error.strerror or error}", file=directory) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        if directory.exists():
            shutil.rmtree(old, ignore_errors=True)


@contextmanager
def locked(directory: Path, *, shared: bool = False) -> Iterator[None]:
    """While nobody else renames `directory` (or reads it, unless `shared`). Where the system has no such lock, the
    renaming alone has to do."""
    descriptor = -1
    try:
        if fcntl is not None:
            with suppress(OSError):
                descriptor = os.open(directory.resolve().parent, os.O_RDONLY)
                fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _copy(entry: Path, to: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.copytree(entry, to, symlinks=True)
    else:
        shutil.copy2(entry, to, follow_symlinks=False)
