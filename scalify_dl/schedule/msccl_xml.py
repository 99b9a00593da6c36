"""MSCCL programs (XML): what every GPU's thread blocks send, receive, copy and reduce.

`algo/gpu/tb/step`: a thread block is a chain; it sends to `tb.send` and receives from `tb.recv` on channel `tb.chan`; a
step waits for step `deps` of block `depid`. Buffers are `i`nput, `o`utput and `s`cratch, in chunks. One that receives
and sends is two events. In place the smaller of input and output is a part of the other one, as NCCL has it: the
rank's own where that has as many parts as there are ranks, else the beginning.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree

from scalify_dl.errors import InputError

from .tables import Named, Schedule

STEPS = {
    "nop": (), "cpy": ("copy",), "re": ("reduce",), "s": ("send",), "r": ("recv",), "rrc": ("recv-reduce",),
    "rcs": ("recv", "send"), "rrs": ("recv-reduce", "send"), "rrcs": ("recv-reduce", "send"),
}  # fmt: skip
"""What the kinds of steps do, one after the other."""
BUFFERS = "ios"
LARGEST = 2**20


def read_msccl(path: Path, text: str) -> Schedule:
    """The schedule of one algorithm."""
    if "<!" in text.replace("<!--", ""):
        raise InputError("the file declares types or entities", file=path, expected="plain XML without <!DOCTYPE …>")
    try:
        algo = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        line, column = error.position
        raise InputError(f"not XML: {error}", file=path, line=line, column=column + 1) from None
    if algo.tag != "algo":
        raise InputError(f"the outermost element is <{algo.tag}>", file=path, expected="<algo …>")
    return _Reader(path, algo).schedule


class _Reader:
    def __init__(self, path: Path, algo: ElementTree.Element) -> None:
        self.path, self.schedule = path, Schedule()
        self.channels: dict[tuple[int, int, int], int] = {}
        self.counts: defaultdict[tuple[int, str], int] = defaultdict(int)
        self.in_place = algo.get("inplace", "0") == "1"
        gpus = algo.findall("gpu")
        self.ranks = [self.number(gpu, "id", "a gpu") for gpu in gpus]
        if not gpus or sorted(self.ranks) != list(range(len(gpus))):
            raise InputError("the gpus are not numbered 0, 1, …", file=path, expected="one <gpu id=…> for every rank")
        for rank, gpu in zip(self.ranks, gpus, strict=True):
            self.gpu(rank, gpu)

    def number(self, element: ElementTree.Element, key: str, where: str, least: int = 0) -> int:
        """An attribute that is a number."""
        text = element.get(key)
        digits = (text or "").removeprefix("-")
        if text is None or not (digits.isascii() and digits.isdigit() and len(digits) < 9 and int(text) >= least):
            raise InputError(f'{where}: attribute {key} is "{text}"', file=self.path, expected=f"a number from {least}")
        return int(text)

    def gpu(self, rank: int, gpu: ElementTree.Element) -> None:
        """The blocks of one GPU; dependencies are resolved once all have events."""
        buffers = {name: self.schedule.buffer() for name in BUFFERS}
        sizes = {
            name: self.number(gpu, f"{name}_chunks", f"gpu {rank}") or LARGEST
            for name in BUFFERS if name == "i" or f"{name}_chunks" in gpu.attrib
        }  # fmt: skip
        first, initial = dict.fromkeys(BUFFERS, 0), sizes["i"]
        if self.in_place:
            buffers["o"] = buffers["i"]
            part, whole = sorted("io", key=lambda name: sizes.get(name, LARGEST))
            if len(self.ranks) > 1 and sizes[part] * len(self.ranks) == sizes.get(whole, LARGEST):
                first[part] = rank * sizes[part]
            else:
                sizes["i"], sizes["o"] = (max(sizes["i"], sizes.get("o", LARGEST)),) * 2
        self.schedule.add("initial", buffers["i"], first["i"], first["i"] + initial)
        done: dict[tuple[int, int], int] = {}
        wanted: list[tuple[int, int, int, str]] = []
        for block in gpu.findall("tb"):
            number = self.number(block, "id", f"a block of gpu {rank}")
            chain = self.schedule.chain(rank, f"block {number}")
            for step in block.findall("step"):
                where = f"gpu {rank}, block {number}, step {step.get('s')}"
                s = self.number(step, "s", where)
                if (number, s) in done:
                    raise InputError(f"{where} stands twice", file=self.path)
                dep = self.number(step, "depid", where, -1)
                kind = step.get("type", "")
                if kind not in STEPS:
                    raise InputError(f'{where}: unknown type "{kind}"', file=self.path, expected=", ".join(STEPS))
                for n, does in enumerate(STEPS[kind] or ("nop",)):
                    named = Named(f"block {number} step {s} {kind}", does, None, str(self.path))
                    e = self.schedule.event(chain, named)
                    if n == 0 and dep >= 0:
                        wanted.append((e, dep, self.number(step, "deps", where), where))
                    self.step(e, rank, block, step, kind, does, buffers, sizes, first, where)
                    done[number, s] = e
        for e, block_number, s, where in wanted:
            if (block_number, s) not in done:
                raise InputError(
                    f"{where} waits for step {s} of block {block_number}, which there is not", file=self.path
                )
            self.schedule.waits(e, done[block_number, s])

    def step(
        self, e: int, rank: int, block: ElementTree.Element, step: ElementTree.Element, kind: str, does: str,
        buffers: dict[str, int], sizes: dict[str, int], first: dict[str, int], where: str,
    ) -> None:  # fmt: skip
        """What one event sends, receives and touches; `first`: where a buffer begins in memory."""
        if does == "nop":
            return
        count = self.number(step, "cnt", where, 1)

        def touch(table: str, side: str) -> None:
            name = step.get(f"{side}buf", "")
            if name not in BUFFERS or not name:
                raise InputError(f'{where}: {side}buf is "{name}"', file=self.path, expected="i, o or s")
            lo = self.number(step, f"{side}off", where)
            if lo + count > sizes.get(name, LARGEST):
                raise InputError(
                    f"{where}: {side}buf {name} has {sizes[name]} chunks, not {count} from {lo} on", file=self.path
                )
            self.schedule.add(table, e, buffers[name], first[name] + lo, first[name] + lo + count)

        if does in ("send", "recv", "recv-reduce"):
            sends = does == "send"
            peer = self.number(block, "send" if sends else "recv", where, -1)
            if peer not in self.ranks:
                way = "sends to" if sends else "receives from"
                raise InputError(f"{where}: its block {way} {peer}", file=self.path, expected="a gpu of the file")
            ends = (self.number(block, "chan", where), *((rank, peer) if sends else (peer, rank)))
            if ends not in self.channels:
                self.channels[ends] = len(self.channels)
                self.schedule.add("channel", self.channels[ends], *ends[1:])
            table = "send" if sends else "recv"
            n = self.counts[self.channels[ends], table]
            self.counts[self.channels[ends], table] += 1
            self.schedule.add(table, e, self.channels[ends], n)
            self.schedule.carries(e, "size", f"{count} chunks")
        if kind in ("s", "cpy", "re") or does == "recv-reduce":
            touch("reads", "src")
        if kind in ("cpy", "r", "rrc") or (kind in ("rcs", "rrcs") and does != "send"):
            touch("writes", "dst")
        if kind == "re":
            touch("reads", "dst")
            touch("writes", "dst")
        if kind in ("rcs", "rrcs") and does == "send":
            touch("reads", "dst")
