"""One capture of a pair of programs, as facts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scalify_dl.errors import InputError
from scalify_dl.facts.model import Facts
from scalify_dl.ir.origin import Origin
from scalify_dl.readers.sizes import Sizes

if TYPE_CHECKING:
    from scalify_dl.pairing.export import Whole


@dataclass(frozen=True)
class Capture:
    """One capture: two dumps with their mesh, or a facts directory. `sizes` are those that the dumps leave open."""

    base: Path | None = None
    dist: tuple[Path, ...] = ()
    mesh: str = ""
    relate: Path | None = None
    facts: Path | None = None
    sizes: Sizes = field(default_factory=Sizes)
    kernels: tuple[str, ...] = ()
    """Kernels that opaque calls run, as `--kernel` says them."""

    def load(
        self, origins: list[Origin] | None = None, *, member: bool = False, whole: Whole | None = None
    ) -> Facts:
        """The facts; the distributed programs are added to `origins`. As a `member` of a family, whose numbers may be
        made of its sizes, no number is folded; InputError for facts in which some were. `whole` as for `export`."""
        if self.facts is not None:
            from scalify_dl.facts.files import load
            from scalify_dl.facts.ranks import written_out

            facts = load(self.facts)
            if member and "folded" in facts.meta:
                raise InputError(
                    f"{self.facts}: numbers computed of constants were folded, which other sizes may change",
                    hint="give the dumps themselves (base, dist, mesh)",
                )
            tables = {name: [tuple(row) for row in rows] for name, rows in written_out(facts.tables).items()}
            return Facts(tables, facts.directory)
        from scalify_dl.pairing.export import export

        assert self.base is not None
        follow = None
        if self.kernels:
            from scalify_dl.kernels.inside import following

            follow = following(self.kernels)
        return export(
            self.base, self.dist, self.mesh, self.relate, self.sizes, origins, follow, fold=not member, whole=whole
        )  # fmt: skip
