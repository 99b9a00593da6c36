"""What came back, as data: one fenced block, or the whole text; limited in size, without control characters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from scalify_dl.errors import InputError

LIMIT = 100_000
"""Characters of a draft."""
_FENCE = re.compile(r"^```[\w.+-]*[ \t]*\n(.*?)^```[ \t]*$", re.MULTILINE | re.DOTALL)
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


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
    text = blocks[0] if blocks else reply
    if _CONTROL.search(text.replace("\r\n", "\n")):
        raise Rejected("the draft has control characters")
    text = text.replace("\r\n", "\n").strip()
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
