"""`python -m scalify_dl` is `dlverify`: what it imports may be interrupted, too."""

import sys


def main() -> None:
    """Entry point of the `dlverify` script."""
    try:
        from scalify_dl.cli import main as run
    except KeyboardInterrupt:
        print("dlverify: interrupted", file=sys.stderr)
        sys.exit(130)
    run()


if __name__ == "__main__":
    main()
