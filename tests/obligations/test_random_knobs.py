"""Random bounds, offsets and fills: proved exactly where every id of the range gives the baseline's value."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scalify_dl.oracle import find_counterexample, load_program
from scalify_dl.pairing.builder import Pair
from scalify_dl.prove.options import Options
from scalify_dl.prove.pipeline import analyse

from .programs import Knobs, embedding, embedding_gradient

SMALL = st.sampled_from([0, 0, 0, 0, 0, 1, -1, 2])
BY_RANK = st.one_of(st.just({}), st.dictionaries(st.integers(0, 3), st.sampled_from([1, -1, 3]), max_size=1))
KNOBS = st.builds(
    Knobs,
    lower=SMALL,
    upper=SMALL,
    offset=SMALL,
    offset_of=BY_RANK,
    bounds_of=BY_RANK,
    above=st.sampled_from(["GE", "GE", "GE", "GT"]),
    below=st.sampled_from(["LT", "LT", "LT", "LE"]),
    joined=st.sampled_from(["and", "and", "and", "or"]),
    masked=st.sampled_from([True, True, True, False]),
    elsewhere=st.sampled_from([0, 0, 3, -1, 40]),
)
STYLES = st.sampled_from(["megatron", "vllm", "jax", "plain", "clamp"])
MASKINGS = st.sampled_from(["select", "fill", "multiply"])
RANGES = st.sampled_from([(0, 32), (0, 32), (1, 32), (0, 25), (9, 31)])


def both(pair: Pair, values: range) -> tuple[bool, bool]:
    """(proved, equal for all these ids)."""
    facts = pair.facts()
    ((_, _, verdict, _),) = analyse(facts, Options()).rows("output_verdict")
    program = load_program(facts.tables)
    program.special["base/ids"] = list(values)
    return verdict == "PROVED", find_counterexample(program, trials=1, rounding=False).best is None


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(KNOBS, STYLES, MASKINGS, RANGES)
def test_an_embedding_is_proved_exactly_where_it_is_right(
    knobs: Knobs, style: str, masking: str, ids_range: tuple[int, int]
) -> None:
    pair = embedding(knobs, style=style, masking=masking, vocabulary=32, ids_range=ids_range, batch=12)
    proved, equal = both(pair, range(*ids_range))
    assert proved == equal


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(KNOBS, STYLES, MASKINGS)
def test_a_gradient_is_proved_exactly_where_it_is_right(knobs: Knobs, style: str, masking: str) -> None:
    proved, equal = both(embedding_gradient(knobs, style=style, masking=masking, vocabulary=16), range(16))
    assert proved == equal
