"""`python -m scalify_dl` is `dlverify`: what it imports may be interrupted, too."""

import atexit
import gc
import os
import sys
import threading


def main() -> None:
    """Entry point of the `dlverify` script."""
    gc.set_threshold(100_000, 20, 20)  # what is made is kept: there is little to be found in a hundredth of it
    try:
        from scalify_dl.cli import main as run
    except KeyboardInterrupt:
        print("dlverify: interrupted", file=sys.stderr)
        sys.exit(130)
    try:
        run()
    except SystemExit as end:
        _leave(end.code)
        raise
    finally:
        gc.freeze()  # else all objects are searched for cycles once more at exit, where memory goes back anyway


def _leave(status: object) -> None:
    """End the process as Python does, but for freeing all modules and their objects one by one; nothing where there is
    more to do than that."""
    if not isinstance(status, int) or threading.active_count() > 1:
        return
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit(status)


if __name__ == "__main__":
    main()
