"""Files of ranks that call groups by other names, or in another order, where nobody says who is in these."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from scalify_dl.cli import app

TEXT = """class GraphModule(torch.nn.Module):
    def forward(self, x: 'f32[8]', y: 'f32[8]'):
        c: 'f32[8]' = torch.ops.aten.add.Tensor(x, 0)
        r: 'f32[8]' = torch.ops._c10d_functional.all_reduce.default(c, 'sum', 'A')
        w: 'f32[8]' = torch.ops._c10d_functional.wait_tensor.default(r)
        s: 'f32[8]' = torch.ops._c10d_functional.all_reduce.default(w, 'max', 'B')
        v: 'f32[8]' = torch.ops._c10d_functional.wait_tensor.default(s)
        a: 'f32[8]' = torch.ops.aten.add.Tensor(v, y)
        return (a,)
"""


@pytest.mark.parametrize("command", ["lint", "fix"])
@pytest.mark.parametrize(("first", "second", "said"), [
    ("B", "A", "in one order, by name"), ("A", "C", "the members of these are not known"), ("A", "B", None),
])  # fmt: skip
def test_files_of_ranks_that_name_groups_otherwise_are_no_program(
    tmp_path: Path, command: str, first: str, second: str, said: str | None
) -> None:
    files = [tmp_path / f"rank{n}.fx.txt" for n in range(2)]
    files[0].write_text(TEXT, "utf-8")
    files[1].write_text(TEXT.replace("'A'", "'Q'").replace("'B'", f"'{second}'").replace("'Q'", f"'{first}'"), "utf-8")
    found = CliRunner().invoke(app, [command, *map(str, files), "--mesh", "tp=2"])
    assert found.exception if said else found.exit_code in (0, 1, 3)
    assert said is None or said in str(found.exception)
