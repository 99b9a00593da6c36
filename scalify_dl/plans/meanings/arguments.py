"""Attributes that meanings know: those that they look at, and those that change nothing. What an op says beyond them
would be lost, so that an op that says more has no meaning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_KNOWN = """
multiref        times
identity        memory_format
contiguous      memory_format
float           memory_format
to              dtype_or_device memory_format copy non_blocking
embedding       start stop padding_idx sparse norm_type
mean            dim keepdim dtype
sum             dim keepdim dtype
add             alpha
sub             alpha
div             rounding_mode
silu            inplace
relu            inplace
sigmoid         inplace
linear          bias
view            size
reshape         size shape
transpose       dim0 dim1
softmax         dim dtype _stacklevel
unsqueeze       dim
squeeze         dim
expand          size
split           split_size_or_sections dim
cat             dim
moe_gate        k
MovePrim        src dst dtype shape
BroadcastPrim   src dst dtype shape ranks
AllReducePrim   ranks dim
AllGatherPrim   ranks dim
ReduceScatterPrim ranks dim
AllToAllPrim    ranks dim idim odim
ChunkPrim       ranks dim __collective_idx
IdentityPrim    ranks
"""
KNOWN: Mapping[str, frozenset[str]] = {
    kind: frozenset(keys) for kind, *keys in (line.split() for line in _KNOWN.strip().splitlines())
}
NEUTRAL = {"scale_grad_by_freq": "False", "__collective_idx": ""}
"""Attributes that any kind may have with this value (an empty one: with any)."""


def unknown(kind: str, attributes: Mapping[str, str]) -> Iterator[str]:
    """Attributes that say something nobody knows of a kind, as texts."""
    known = KNOWN.get(kind, frozenset())
    for key, text in attributes.items():
        if key not in known and text != "None" and NEUTRAL.get(key, text + " ") not in ("", text):
            yield f"{key}={text}"
