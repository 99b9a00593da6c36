"""XLA HLO text, as printed by different XLA versions, read into the graph model. No dependency."""

from .lower import read, read_text

__all__ = ["read", "read_text"]
