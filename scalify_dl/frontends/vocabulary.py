"""The op vocabulary, as front ends use it (it belongs to the facts package: `scalify_dl.facts.vocabulary`)."""

from scalify_dl.facts.vocabulary import (
    COLLECTIVES,
    DTYPES,
    ELEMENTWISE,
    GROUPED,
    INDEX_REDUCERS,
    KINDS,
    PREDICATES,
    RANDOM,
    REDUCERS,
    is_kind,
)

__all__ = [
    "COLLECTIVES", "DTYPES", "ELEMENTWISE", "GROUPED", "INDEX_REDUCERS", "KINDS", "PREDICATES", "RANDOM", "REDUCERS",
    "is_kind",
]  # fmt: skip
