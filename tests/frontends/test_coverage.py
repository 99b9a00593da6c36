"""The coverage tables in the documentation are those of the code."""

from __future__ import annotations

import shutil
from pathlib import Path

from scalify_dl.readers.coverage import update

DOCS = Path(__file__).parents[2] / "docs" / "frontends.md"


def test_documented_coverage_is_current(tmp_path: Path) -> None:
    copy = tmp_path / "frontends.md"
    shutil.copy(DOCS, copy)
    assert not update(copy), "run: python -m scalify_dl.readers.coverage docs/frontends.md"


def test_every_family_is_listed() -> None:
    text = DOCS.read_text("utf-8")
    for op in (
        "`mm`",
        "`_scaled_dot_product_flash_attention`",
        "`vllm.all_reduce`",
        "`_c10d_functional.all_reduce`",
        "`dot`",
    ):
        assert op in text
