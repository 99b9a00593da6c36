"""Discharging in bulk: deduplication, cache, timeouts, workers, Z3 loaded only where it is needed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalify_dl.errors import InputError
from scalify_dl.facts import Facts
from scalify_dl.obligations import Cache, Discharger, Mesh, canonical
from scalify_dl.obligations import discharge as module
from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.normal_forms import Equalities
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse
from scalify_dl.pysouffle.values import Branch

from .programs import Knobs, everywhere, keep

X = Branch("X")
RELATIONS: dict[str, list[tuple[Any, ...]]] = {
    "sub_axis": [(0, "tp", 2, 2), (1, "tp", 1, 2)],
    "rank_digit": [(r, a, (r >> (1 - a)) & 1) for r in range(4) for a in range(2)],
    "rank_function": [("f", r, 16 * r) for r in range(4)] + [("g", r, 16 * r) for r in range(4)],
}


def relation(name: str) -> list[tuple[Any, ...]]:
    return RELATIONS[name]


def const(v: int) -> Branch:
    return Branch("Const", (v,))


def op(name: str, *args: Branch) -> Branch:
    return Branch({1: "Unary", 2: "Binary"}[len(args)], (name, *args))


def rank(*weights: int) -> Branch:
    out: Any = None
    for w in reversed(weights):
        out = (w, out)
    return Branch("Rank", (0, out))


def owner(size: int, first: Branch) -> Branch:
    """x div size, times size, is `first` iff x lies in the block that begins there."""
    inside = op("and", op("GE", X, first), op("LT", X, op("add", first, const(size))))
    block = op("EQ", op("multiply", op("floor-divide", X, const(size)), const(size)), first)
    return op("not", op("xor", inside, block))


UNBOUNDED = 2**30


def test_a_claim_with_a_division_is_proved_for_all_values() -> None:
    discharger = Discharger()
    row = (owner(16, rank(32, 16)), -UNBOUNDED, UNBOUNDED)
    assert discharger([row], relation) == ([row], [])
    assert discharger.figures.solved == 1


def test_a_wrong_claim_is_refuted_with_rank_and_value() -> None:
    row = (owner(16, rank(32, 17)), 0, 63)
    proved, ((*same, rank_number, x),) = Discharger()([row], relation)
    assert not proved
    assert tuple(same) == row
    assert rank_number in (1, 3)
    assert 0 <= x < 64


@pytest.mark.parametrize("hi", [63, UNBOUNDED])
def test_a_table_of_the_rank_is_as_good_as_its_linear_form(hi: int) -> None:
    lo = 0 if hi < UNBOUNDED else -UNBOUNDED
    row = (owner(16, Branch("Table", ("f",))), lo, hi)
    assert Discharger()([row], relation)[0] == [row]


def test_names_and_axis_order_do_not_make_another_formula() -> None:
    mesh = Mesh.of(relation)
    one = canonical(owner(16, Branch("Table", ("f",))), 0, 63, mesh)[0]
    other = canonical(owner(16, Branch("Table", ("g",))), 0, 63, mesh)[0]
    assert one.key == other.key
    swapped = Mesh((2, 2), {r: (d[1], d[0]) for r, d in mesh.digits.items()}, mesh.tables)
    assert (
        canonical(owner(16, rank(32, 16)), 0, 63, mesh)[0].key
        == canonical(owner(16, rank(16, 32)), 0, 63, swapped)[0].key
    )
    assert (
        canonical(owner(16, rank(32, 16)), 0, 63, mesh)[0].key != canonical(owner(16, rank(32, 15)), 0, 63, mesh)[0].key
    )


def test_100_000_obligations_of_50_shapes_are_51_questions() -> None:
    mesh = {**RELATIONS, "rank_function": [(f"f{n}", r, 16 * r) for n in range(100_000) for r in range(4)]}
    rows = [
        (
            op("GE", op("remainder", op("add", X, Branch("Table", (f"f{n}",))), const(n % 50 + 2)), const(-60)),
            -UNBOUNDED,
            UNBOUNDED,
        )
        for n in range(100_000)
    ]
    discharger = Discharger()
    discharger([(owner(16, rank(32, 16)), -UNBOUNDED, UNBOUNDED)], relation)
    proved, refuted = discharger(rows, lambda name: mesh[name])
    assert len(proved) == 100_000
    assert not refuted
    assert discharger.figures.distinct == 51


@pytest.fixture
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the user's key."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "scalify-dl"


def entries(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.is_file()]


RIGHT = (owner(16, rank(32, 16)), 0, 63)
WRONG = (owner(16, rank(32, 17)), 0, 63)


def test_answers_are_kept_on_disk(tmp_path: Path, own_key: Path) -> None:
    rows = [(owner(16, rank(32, 16)), -UNBOUNDED, UNBOUNDED), WRONG]
    first = Discharger(tmp_path / "cache")
    again = Discharger(tmp_path / "cache")
    assert first(rows, relation) == again(rows, relation)
    assert again.figures.cached == 2
    assert again.figures.solved == again.figures.enumerated == 0
    kept = [json.loads(file.read_text()) for file in entries(tmp_path / "cache")]
    assert sorted(entry["by"] for entry in kept) == ["Z3", "enumeration"]
    assert all("const" in entry["formula"] for entry in kept)
    assert (own_key / "cache-key").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "content",
    ['{"proved": ', '{"proved": true}', "[]", "null", "1", '{"signature": null}', '{"signature": 1, "formula": 2}',
     '{"proved": true, "formula": {formula}, "by": "Z3", "signature": {signature}}', "[" * 100_000, "\x00"],
)  # fmt: skip
def test_an_entry_that_this_user_did_not_write_is_none(tmp_path: Path, own_key: Path, content: str) -> None:
    """Damaged, or made to say that a wrong claim is proved."""
    Discharger(tmp_path / "cache")([WRONG], relation)
    (file,) = entries(tmp_path / "cache")
    true = json.loads(file.read_text())
    for name in ("formula", "signature"):
        content = content.replace("{" + name + "}", json.dumps(true[name]))
    file.write_text(content)
    again = Discharger(tmp_path / "cache")
    assert again([WRONG], relation)[0] == []
    assert again.figures.cached == 0


def test_an_entry_of_another_formula_is_none(tmp_path: Path, own_key: Path) -> None:
    Discharger(tmp_path / "cache")([RIGHT], relation)
    (proof,) = entries(tmp_path / "cache")
    Discharger(tmp_path / "other")([WRONG], relation)
    (file,) = entries(tmp_path / "other")
    file.write_text(proof.read_text())
    again = Discharger(tmp_path / "other")
    assert again([WRONG], relation)[0] == []
    assert again.figures.cached == 0


def test_entries_of_another_key_or_of_a_key_that_others_read_are_none(tmp_path: Path, own_key: Path) -> None:
    Discharger(tmp_path / "cache")([RIGHT], relation)
    key = own_key / "cache-key"
    key.chmod(0o644)
    shared = Discharger(tmp_path / "cache")
    assert shared([RIGHT], relation)[0] == [RIGHT]
    assert shared.cache.folder is None
    key.unlink()
    again = Discharger(tmp_path / "cache")
    assert again([RIGHT], relation)[0] == [RIGHT]
    assert again.figures.cached == 0


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path, own_key: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = Cache(tmp_path / "file")
    formula = canonical(*RIGHT, Mesh.of(relation))[0]
    cache.put(formula, True, None, "Z3")
    assert cache.get(formula) is None
    own_key.rename(tmp_path / "moved")
    own_key.write_text("no folder")
    Discharger(tmp_path / "cache")([RIGHT], relation)
    assert not (tmp_path / "cache").exists()


def test_a_timeout_is_unknown() -> None:
    discharger = Discharger(timeout_ms=1)
    cube = op("multiply", X, op("multiply", X, X))
    left = op("add", op("multiply", X, cube), op("remainder", cube, const(97)))
    hard = op("NE", left, op("add", const(7919), op("remainder", op("multiply", X, X), const(89))))
    proved, refuted = discharger([(hard, -UNBOUNDED, UNBOUNDED)], relation)
    assert not proved
    assert discharger.figures.unknown == 1 or refuted


def test_an_empty_range_is_bad_input() -> None:
    with pytest.raises(InputError, match="contradict"):
        Discharger()([(owner(16, rank(32, 16)), 8, 7)], relation)


def many(count: int) -> list[tuple[Any, ...]]:
    return [(owner(n + 2, rank(2 * n + 4, n + 2)), -UNBOUNDED, UNBOUNDED) for n in range(count)]


def test_many_formulas_go_to_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY", 30)
    rows = many(60)
    assert Discharger(workers=2)(rows, relation) == (rows, [])


def test_a_killed_worker_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MANY", 30)
    monkeypatch.setattr(module, "_solve_chunk", _die)
    rows = many(40)
    assert Discharger(workers=2)(rows, relation) == (rows, [])


def _die(formulas: list[Any], timeout_ms: int) -> list[Any]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def test_z3_is_not_loaded_where_the_rules_decide() -> None:
    code = (
        "import sys\n"
        "from tests.obligations.programs import embedding\n"
        "from scalify_dl.prove.options import Options\n"
        "from scalify_dl.prove.pipeline import analyse\n"
        "rows = analyse(embedding().facts(), Options()).rows('output_verdict')\n"
        "assert all(row[2] == 'PROVED' for row in rows)\n"
        "assert 'z3' not in sys.modules and 'scalify_dl.obligations' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120, cwd=Path(__file__).parents[2])


def dealt_in_turn(*, ranks_off: int = 0, divisor: int = 4, contiguous: bool = False) -> Facts:
    """An embedding whose rows are dealt to the ranks in turn: row v is on rank v mod 4, at place v div 4."""
    pair = Pair("tp=4")
    b = pair.base
    ids = b.input("ids", (4, 6), "s32", range=(0, 64))
    b.output(b.embedding(b.input("table", (64, 8)), ids))
    d = pair.dist
    local, table = d.shard("ids"), d.shard("table", {0: "tp"})
    four = d.full(divisor, local.shape, "s32")
    mine = everywhere(d, {r: (r + ranks_off) % 4 for r in range(4)}, local)
    mask = d.compare(d.remainder(local, four), mine, direction="EQ")
    near = d.select(mask, d.divide(local, four), d.full(0, local.shape, "s32"))
    rows = keep(d, mask, d.embedding(table, near), Knobs(), "select")
    d.output(d.all_reduce(rows, "tp"))
    facts = pair.facts()
    if not contiguous:
        facts.tables["shard"] = [
            (t, p, base, q, "[0:4x16][1:1x8]|tp=0:1x4" if t == "table" else layout, why)
            for t, p, base, q, layout, why in facts["shard"]
        ]
    return facts


def verdict(facts: Facts, discharger: Discharger) -> str:
    ((_, _, out, _),) = analyse(facts, Options(), discharger).rows("output_verdict")
    return str(out)


@pytest.mark.parametrize("enumerated", [True, False])
def test_rows_dealt_in_turn_are_proved(enumerated: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not enumerated:
        monkeypatch.setattr("scalify_dl.obligations.enumerate.MOST", 0)
    discharger = Discharger()
    assert verdict(dealt_in_turn(), discharger) == "PROVED"
    figures = discharger.figures
    assert (figures.asked, figures.enumerated, figures.solved) == (1, enumerated, not enumerated)


@pytest.mark.parametrize("knobs", [{"ranks_off": 1}, {"divisor": 8}, {"divisor": 2}, {"contiguous": True}])
def test_rows_dealt_wrongly_are_not_proved(knobs: dict[str, Any]) -> None:
    facts = dealt_in_turn(**knobs)
    assert verdict(facts, Discharger()) == "UNKNOWN"
    assert find_counterexample(load_program(facts.tables)).best is not None


def test_without_a_solver_an_obligation_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scalify_dl.prove.pipeline.equalities", lambda *_, **__: Equalities([], [], [], False))
    assert verdict(dealt_in_turn(), lambda obligations, relation: ([], [])) == "UNKNOWN"  # type: ignore[arg-type]
