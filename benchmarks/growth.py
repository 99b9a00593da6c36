"""Rules that derive more than in proportion when a program grows: of one pair at two sizes.

    python benchmarks/growth.py --mesh dp=2,tp=4 SMALL_BASE SMALL_DIST LARGE_BASE LARGE_DIST [--factor 1.5]

Prints every rule that derives `--factor` times more for each op of the large pair than of the small one, and more than
`--least` rows; status 1 if there is one. `derived` counts rows that were known already, too: joins that blow up show.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from scalify_dl.families.capture import Capture  # noqa: E402
from scalify_dl.prove.options import Options  # noqa: E402
from scalify_dl.prove.pipeline import analyse  # noqa: E402

Rule = tuple[str, str, int]
"""Text, file, line."""


def derived(pair: Capture) -> tuple[int, dict[Rule, int], dict[str, int]]:
    """Ops of a pair, what each rule derived, and the tuples of each relation."""
    facts = pair.load()
    stats = analyse(facts, Options()).program.stats()
    rules: dict[Rule, int] = {}
    for rule in stats.rules:
        key = rule.text, rule.file, rule.line
        rules[key] = rules.get(key, 0) + rule.derived
    return len(facts["op"]), rules, stats.tuples


def main() -> int:
    """Compare and print; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dumps", nargs=4, type=Path, metavar="DUMP")
    parser.add_argument("--mesh", required=True)
    parser.add_argument("--factor", type=float, default=1.5)
    parser.add_argument("--least", type=int, default=2000)
    options = parser.parse_args()
    base, dist, large_base, large_dist = options.dumps
    few, before, _ = derived(Capture(base, (dist,), options.mesh))
    many, after, _ = derived(Capture(large_base, (large_dist,), options.mesh))
    print(f"{few:,} ops, then {many:,}: {many / few:.2f} times as many")
    found = []
    for rule, count in after.items():
        growth = count / max(before.get(rule, 0), options.least * few / many)
        if count > options.least and growth > options.factor * many / few:
            found.append((growth, count, rule))
    for growth, count, (text, file, line) in sorted(found, reverse=True):
        place = Path(file).relative_to(ROOT) if Path(file).is_relative_to(ROOT) else file
        print(f"{growth:9.2f} times, {count:12,} rows  {place}:{line}: {text[:110]}")
    print(f"{len(found)} rules grow faster than the program")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
