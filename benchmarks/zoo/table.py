"""The table of the zoo in docs/zoo.md, from what a sweep printed.

    dlverify sweep OUT/sweep.yaml --json > OUT/sweep.json; python benchmarks/zoo/table.py OUT
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    runs: list[dict[str, Any]] = json.loads((out / "sweep.json").read_text("utf-8"))["runs"]
    families: dict[str, dict[str, dict[str, Any]]] = {}
    for run in runs:
        family, degree = run["name"].split(" ")
        families.setdefault(family, {})[degree] = run
    degrees = sorted({degree for found in families.values() for degree in found})
    print(f"| family | {' | '.join(degrees)} | ops | CPU s | where a proof stops |\n|{'---|' * (len(degrees) + 4)}")
    for family, found in families.items():
        cells = [found[d]["verdict"] if d in found else "" for d in degrees]
        last = found[max(found)]
        why = next((run["why"].replace("|", "¦")[:120] for run in found.values() if run["why"]), "")
        print(f"| {family} | {' | '.join(cells)} | {last['ops']:,} | {last['cpu_s']:.1f} | {why} |")
    counts = Counter(run["verdict"] for run in runs)
    print(f"\n{len(runs)} runs: {', '.join(f'{n} {name}' for name, n in sorted(counts.items()))}.")
    failed = [line.split("\t") for line in (out / "failed.tsv").read_text("utf-8").splitlines()]
    if failed:
        print("\nNot captured: " + "; ".join(f"{name} ({why})" for name, why in failed) + ".")


if __name__ == "__main__":
    main()
