"""`shard_map` programs that decode over a vocabulary that is cut: greedily, and by the best of a beam."""

from __future__ import annotations

import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec as P

from .shard_map_pairs import TP, B, D, V, X, pair, wrong

HEAD = ((D, V), jnp.float32)
BEST, FAR = 5, 2**30
SPECS = (P("dp"), P(None, "tp")), P("dp")


def greedy(x, w):
    return jnp.argmax(x @ w, -1)


def beam(x, w):
    return lax.top_k(x @ w, BEST)


def in_vocabulary(places, extent=V // TP):
    return places + lax.axis_index("tp") * extent


@pair("greedy_by_the_least_place", greedy, *SPECS, (X, HEAD))
def greedy_by_the_least_place(x, w):
    y = x @ w
    own = y.max(-1)
    return lax.pmin(jnp.where(own == lax.pmax(own, "tp"), in_vocabulary(jnp.argmax(y, -1)), FAR), "tp")


@pair("greedy_by_gathered_places", greedy, *SPECS, (X, HEAD))
def greedy_by_gathered_places(x, w):
    y = x @ w
    values, places = lax.all_gather((y.max(-1), in_vocabulary(jnp.argmax(y, -1))), "tp")
    return jnp.take_along_axis(places, jnp.argmax(values, 0)[None], 0)[0]


@pair("beam_of_gathered_tops", beam, *SPECS, (X, HEAD))
def beam_of_gathered_tops(x, w):
    values, places = lax.top_k(x @ w, BEST)
    values, places = lax.all_gather((values, in_vocabulary(places)), "tp", axis=1, tiled=True)
    values, found = lax.top_k(values, BEST)
    return values, jnp.take_along_axis(places, found, 1)


@pair("beam_of_a_vocabulary_of_32000", beam, *SPECS, (((B, D), jnp.float32), ((D, 32000), jnp.float32)))
def beam_of_a_vocabulary_of_32000(x, w):
    values, places = lax.top_k(x @ w, BEST)
    values, places = lax.all_gather((values, in_vocabulary(places, 32000 // TP)), "tp", axis=1, tiled=True)
    values, found = lax.top_k(values, BEST)
    return values, jnp.take_along_axis(places, found, 1)


@wrong("greedy_that_compares_its_own_greatest", "greedy_by_the_least_place")
def greedy_that_compares_its_own_greatest(x, w):
    y = x @ w
    own = y.max(-1)
    return lax.pmin(jnp.where(own == y.max(-1), in_vocabulary(jnp.argmax(y, -1)), FAR), "tp")


@wrong("greedy_with_a_far_number_in_the_vocabulary", "greedy_by_the_least_place")
def greedy_with_a_far_number_in_the_vocabulary(x, w):
    y = x @ w
    own = y.max(-1)
    return lax.pmin(jnp.where(own == lax.pmax(own, "tp"), in_vocabulary(jnp.argmax(y, -1)), V // TP), "tp")


@wrong("greedy_without_offsets", "greedy_by_gathered_places")
def greedy_without_offsets(x, w):
    y = x @ w
    values, places = lax.all_gather((y.max(-1), jnp.argmax(y, -1)), "tp")
    return jnp.take_along_axis(places, jnp.argmax(values, 0)[None], 0)[0]


@wrong("beam_of_two_of_each_block", "beam_of_gathered_tops")
def beam_of_two_of_each_block(x, w):
    values, places = lax.top_k(x @ w, 2)
    values, places = lax.all_gather((values, in_vocabulary(places)), "tp", axis=1, tiled=True)
    values, found = lax.top_k(values, BEST)
    return values, jnp.take_along_axis(places, found, 1)


@wrong("beam_with_places_of_another_order", "beam_of_gathered_tops")
def beam_with_places_of_another_order(x, w):
    values, places = lax.top_k(x @ w, BEST)
    values, places = lax.all_gather((values, in_vocabulary(places)), "tp", axis=1, tiled=True)
    values, found = lax.top_k(values, BEST)
    return values, jnp.take_along_axis(jnp.roll(places, BEST, 1), found, 1)
