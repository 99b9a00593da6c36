"""What the op kinds of a plan compute, as ops of the vocabulary; both sides of a plan use the same meanings.

    results = meaning(call)

A kind without a meaning becomes an opaque op (`custom:…`): equal on equal operands, and no rule looks inside.
"""

from .call import Call, IllTyped, NoMeaning, dtype, meaning

__all__ = ["Call", "IllTyped", "NoMeaning", "dtype", "meaning"]
