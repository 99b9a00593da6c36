"""`python -m scalify_dl` is `dlverify`: what it imports may be interrupted, too."""

import gc
import sys


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
    finally:
        gc.freeze()  # else all objects are searched for cycles once more at exit, where memory goes back anyway


if __name__ == "__main__":
    main()
