"""Drafts of relations, meanings, lemmas, explanations, by a language model or from a file: data, judged, never run."""

from .ask import Endpoint
from .judge import Judged
from .loop import KINDS, Asked, propose

__all__ = ["KINDS", "Asked", "Endpoint", "Judged", "propose"]
