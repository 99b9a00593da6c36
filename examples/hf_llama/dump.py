"""Verifies the Llama that `live.py` captured into `dump/`; needs neither torch nor transformers.

    python examples/hf_llama/dump.py                          # PROVED
    python examples/hf_llama/dump.py --bug bias-per-rank       # not PROVED, located at what adds the bias too often

`--bug` edits one line of every rank's text, as a slip in the program would have.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
RANKS = 2

EDITS = {
    # the attention output is a sum over the ranks that nobody adds up
    "missing-allreduce": (
        r"(all_reduce_1: .* = )torch\.ops\._c10d_functional\.all_reduce\.default\((\w+), 'sum', '0'\)",
        lambda rank: r"\1torch.ops.aten.alias.default(\2)",
    ),
    # every rank adds the whole bias before the sum over the ranks, not its share
    "bias-per-rank": (
        r"(div: .* = )torch\.ops\.aten\.div\.Tensor\((\w+), 2\)",
        lambda rank: r"\1torch.ops.aten.alias.default(\2)",
    ),
    # every rank continues with the vocabulary slice of its neighbour
    "wrong-slice": (
        rf"(getitem_\d+: .* = split_1)\[[0-{RANKS - 1}]\]",
        lambda rank: rf"\1[{(rank + 1) % RANKS}]",
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bug", choices=EDITS, help="a mistake to put in")
    bug = parser.parse_args().bug
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for source in (HERE / "dump").iterdir():
            text = source.read_text("utf-8")
            rank = re.fullmatch(r"llama\.r(\d+)\.fx\.txt", source.name)
            if bug is not None and rank is not None:
                pattern, replacement = EDITS[bug]
                text, count = re.subn(pattern, replacement(int(rank[1])), text)
                assert count == 1, f"{count} lines to edit in {source.name}"
            (folder / source.name).write_text(text, "utf-8")
        ranks = [folder / f"llama.r{rank}.fx.txt" for rank in range(RANKS)]
        command = ["verify", folder / "llama.base.fx.txt", *ranks, "--mesh", f"tp={RANKS}"]
        return subprocess.run([sys.executable, "-m", "scalify_dl.cli", *map(str, command)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
