"""Captured steps of JAX whose labels are -100 where they are ignored: the capture notes it, and that is what they are
proved for."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

from scalify_dl.capture.jax import capture_step
from scalify_dl.errors import InputError
from scalify_dl.prove.verdict import Verdict
from scalify_dl.readers.read import read

CLASSES, RANKS = 8, 2
LOGITS = np.linspace(-1, 1, 4 * CLASSES, dtype="float32").reshape(4, CLASSES)
LABELS = np.array([3, -100, 7, 0], dtype="int32")


def mean(losses, labels, ignored=-100):
    valid = labels != ignored
    return jnp.sum(jnp.where(valid, losses, 0.0)) / jnp.maximum(jnp.sum(valid), 1)


def whole(logits, labels):
    """The baseline reads class 0 for all that is negative; what ranks make of their classes is 0 there."""
    at = jnp.take_along_axis(logits, jnp.maximum(labels, 0)[:, None], -1)[:, 0]
    return mean(jax.nn.logsumexp(logits, -1) - at, labels)


def split(ignored, logits, labels):
    top = lax.pmax(lax.stop_gradient(logits).max(-1), "tp")
    total = lax.psum(jnp.exp(logits - top[:, None]).sum(-1), "tp")
    local = labels - lax.axis_index("tp") * (CLASSES // RANKS)
    mine = (local >= 0) & (local < CLASSES // RANKS)
    at = jnp.take_along_axis(logits, jnp.clip(local, 0, CLASSES // RANKS - 1)[:, None], -1)[:, 0]
    return mean(jnp.log(total) + top - lax.psum(jnp.where(mine, at, 0.0), "tp"), labels, ignored)


def captured(folder, labels, ignored=-100):
    def build(mesh):
        body = partial(split, ignored)
        return jax.shard_map(body, mesh=mesh, in_specs=(P(None, "tp"), P()), out_specs=P()), (LOGITS, labels)

    return capture_step(build, {"tp": RANKS}, folder / "loss", baseline=lambda: (whole, (LOGITS, labels)))


def test_labels_that_the_capture_had_are_those_that_are_ignored(tmp_path):
    pair = captured(tmp_path, LABELS)
    assert read(pair.base).inputs[1].seen == (-100, 8)
    report = pair.verify()
    assert report.verdict is Verdict.PROVED
    assert any("values are -100, or at least 0 and below 8" in str(row) for row in report.to_dict()["assumptions"])


def test_another_label_that_is_ignored_is_refuted(tmp_path):
    assert captured(tmp_path, LABELS, ignored=-1).verify().verdict is Verdict.REFUTED


def test_of_labels_none_of_which_is_negative_nothing_is_noted(tmp_path):
    pair = captured(tmp_path, np.maximum(LABELS, 0))
    assert read(pair.base).inputs[1].seen is None


@pytest.mark.parametrize("line", ["input 2 from -100 to 7", "input 1 from -100", "labels from -100 to 7"])
def test_a_line_about_values_that_says_nothing_is_bad_input(tmp_path, line):
    pair = captured(tmp_path, LABELS)
    text = pair.base.read_text("utf-8")
    pair.base.write_text(text.replace("input 1 from -100 to 7", line, 1), "utf-8")
    with pytest.raises(InputError, match="what an input held"):
        read(pair.base)
