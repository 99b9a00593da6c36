"""What came back, as data: one fenced block, or the whole text; limited in size, without control characters."""

from __future__ import annotations

import re
from dataclasses import dataclass
from unicodedata import category

from scalify_dl.errors import InputError

LIMIT = 100_000
"""Characters of a draft."""
_FENCE = re.compile(r"^```[\w.+-]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_UNSEEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Categories of characters that control, or that nobody sees: two names that look alike are to be one."""


class Rejected(Exception):
    """A draft that is none, or not good enough; the text says why, for who drafted it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer, and why it is not all of one, if so."""

    text: str
    short: str = ""


def draft_of(answer: Reply) -> str:
    """The draft in an answer. Rejected where there is none, or several."""
    reply = answer.text
    if answer.short:
        raise Rejected(answer.short)
    if len(reply) > LIMIT:
        raise Rejected(f"the answer has {len(reply):,} characters; {LIMIT:,} are the most")
    blocks = _FENCE.findall(reply)
    if len(blocks) > 1:
        raise Rejected(f"the answer has {len(blocks)} fenced blocks; exactly one was asked for")
    if not blocks and reply.lstrip().startswith("```"):
        raise Rejected("the fenced block of the answer has no end")
    text = (blocks[0] if blocks else reply).replace("\r\n", "\n").strip("\ufeff \t\n")
    unseen = sorted({c for c in text if c not in "\n\t" and category(c) in _UNSEEN})
    if unseen:
        said = ", ".join(f"U+{ord(c):04X}" for c in unseen[:5])
        raise Rejected(f"the draft has control characters, or invisible ones ({said})")
    if not text:
        raise Rejected("the draft is empty")
    return text + "\n"


def read_reply(data: bytes, file: object) -> str:
    """The text of a reply that somebody wrote into a file."""
    if len(data) > 4 * LIMIT:
        raise InputError(f"{file}: {len(data):,} bytes are no reply", expected=f"at most {4 * LIMIT:,}")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{file}: not UTF-8 text") from None
