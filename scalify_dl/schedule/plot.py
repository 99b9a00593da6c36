"""The timeline of a schedule: ranks downwards, time to the right, a colour for each action, what is stuck in red.

`F.svg` is a still picture, `F.html` the same with zooming (wheel) and moving (drag). Boxes of one kind are one path,
so that 64 ranks with 512 micro-batches stay a few megabytes.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape
from pathlib import Path

from scalify_dl.errors import InputError
from scalify_dl.whole import write_whole

from .run import Outcome
from .tables import Schedule

COLOURS = {"F": "#4c78a8", "B": "#59a14f", "I": "#8cd17d", "W": "#f1ce63", "REDUCE_GRAD": "#b07aa1"}
OTHERS = ("#9c755f", "#76b7b2", "#edc948", "#bab0ac", "#ff9da7")
STUCK = "#d62728"
WIDTH, ROW, LEFT, TOP, NAMED = 1600, 18, 70, 30, 600
"""Sizes in pixels; up to `NAMED` boxes have their names written in."""
_ZOOM = """<script>
const s=document.querySelector('svg'),b=s.viewBox.baseVal;let at=null;
s.addEventListener('wheel',e=>{e.preventDefault();const k=e.deltaY<0?0.8:1.25,r=s.getBoundingClientRect();
const x=b.x+b.width*(e.clientX-r.x)/r.width,y=b.y+b.height*(e.clientY-r.y)/r.height;
b.x=x-(x-b.x)*k;b.y=y-(y-b.y)*k;b.width*=k;b.height*=k;},{passive:false});
s.addEventListener('mousedown',e=>at=[e.clientX,e.clientY]);addEventListener('mouseup',()=>at=null);
addEventListener('mousemove',e=>{if(!at)return;const r=s.getBoundingClientRect();
b.x-=(e.clientX-at[0])*b.width/r.width;b.y-=(e.clientY-at[1])*b.height/r.height;at=[e.clientX,e.clientY];});
</script>"""


def check_place(path: Path) -> None:
    """InputError unless it is a place for a picture, before anything is run."""
    if path.suffix not in (".svg", ".html"):
        raise InputError("--plot writes pictures", file=path, expected="a name that ends in .svg or .html")


def plot(schedule: Schedule, outcome: Outcome, path: Path) -> None:
    """Writes the picture, whole or not at all."""
    svg = picture(schedule, outcome)
    if path.suffix == ".html":
        page = f"<!doctype html><meta charset=utf-8><title>schedule</title><body style=margin:0>{svg}{_ZOOM}</body>\n"
        write_whole(path, page.replace("<svg ", '<svg style="width:100vw;height:100vh" ', 1))
    else:
        write_whole(path, svg)


def picture(schedule: Schedule, outcome: Outcome) -> str:
    """An SVG text."""
    row = {rank: n for n, rank in enumerate(schedule.ranks)}
    until = dict(outcome.times)
    span = max([*until.values(), 1])
    scale = (WIDTH - LEFT - 10) / span
    compute = {c for c, _, kind in schedule.chains if kind == "compute"}
    boxes: defaultdict[str, list[str]] = defaultdict(list)
    words, count = [], 0
    for e, lasts in schedule.tuples("duration"):
        if e not in until or not lasts or schedule.chain_of[e] not in compute:
            continue
        named = schedule.called(e)
        x, width = LEFT + (until[e] - lasts) * scale, lasts * scale
        y = TOP + row[schedule.rank(e)] * ROW
        boxes[named.op].append(f"M{x:.2f} {y}h{width * 0.96:.2f}v{ROW - 3}h-{width * 0.96:.2f}z")
        count += 1
        if count <= NAMED:
            words.append(f'<text x="{x + 2:.1f}" y="{y + 11}">{escape(named.name)}</text>')
    marks = []
    reached: defaultdict[int, int] = defaultdict(int)
    for e, t in until.items():
        reached[schedule.chain_of[e]] = max(reached[schedule.chain_of[e]], t)
    for c, e in outcome.ints("head"):
        x, y = LEFT + reached[c] * scale, TOP + row[schedule.rank(e)] * ROW
        name = escape(schedule.called(e).name)
        marks.append(f'<path d="M{x:.2f} {y}v{ROW - 3}" stroke="{STUCK}" stroke-width="3"><title>{name}</title></path>')
    height = TOP + ROW * len(row) + 10
    kinds = [*(k for k in COLOURS if k in boxes), *sorted(k for k in boxes if k not in COLOURS)]
    colour = {k: COLOURS.get(k) or OTHERS[n % len(OTHERS)] for n, k in enumerate(kinds)}
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="9">',
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>',
        *(f'<text x="4" y="{TOP + n * ROW + 11}">rank {rank}</text>' for rank, n in row.items()),
        *(
            f'<rect x="{LEFT + 110 * n}" y="6" width="10" height="10" fill="{colour[k]}"/>'
            f'<text x="{LEFT + 110 * n + 14}" y="15">{escape(k)}</text>'
            for n, k in enumerate(kinds)
        ),
        f'<text x="{WIDTH - 10}" y="15" text-anchor="end">time 0 to {span:,}'
        + (f', <tspan fill="{STUCK}">stuck events in red</tspan>' if marks else "")
        + "</text>",
        *(f'<path fill="{colour[k]}" d="{"".join(boxes[k])}"/>' for k in kinds),
        *(words if count <= NAMED else []),
        *marks,
        "</svg>\n",
    ]
    return "\n".join(parts)
