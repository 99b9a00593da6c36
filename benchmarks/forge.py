"""Forgeries of certificates: does the checker accept anything that is not so?

    python benchmarks/forge.py [--count N] [--seed S] [--save FILE]

Status 1 where one was accepted, or the checker stumbled; `--save` keeps these.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

from scalify_dl.audit.forge import Campaign, forge


def main() -> None:
    """Run a campaign and print what became of the forgeries."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()

    def tell(campaign: Campaign) -> None:
        if sys.stderr.isatty():
            print(f"\r{campaign.made:,} made, {len(campaign.accepted)} accepted", end="", file=sys.stderr)

    found = forge(options.count, options.seed, tell)
    print(f"{found.made:,} forgeries in {time.process_time():.0f} s of CPU: {len(found.accepted)} accepted,")
    print(f"{len(found.stumbles)} stumbles, {found.harmless:,} harmless; refused, in words:")
    for words, count in found.refused.most_common():
        print(f"{count:9,} {words}")
    if options.save is not None and (found.accepted or found.stumbles):
        options.save.write_text(json.dumps({"accepted": found.accepted, "stumbles": found.stumbles}), "utf-8")
    sys.exit(1 if found.accepted or found.stumbles else 0)


if __name__ == "__main__":
    main()
