"""One question to an endpoint that speaks OpenAI's protocol of chats, by the library `openai` (extra `propose`). Every
request ends: by a limit of time, which is kept whatever the other side does, and by one of size. No redirection is
followed, so that no key goes elsewhere."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scalify_dl.errors import InputError

from .reply import Reply

REPLY_LIMIT = 1_000_000
"""Bytes of an answer."""
_HINT = "docs/propose.md; --reply FILE does without an endpoint"
_STATUS = {
    401: "refuses the key", 403: "refuses the key", 404: "has no such model or path",
    429: "says that the quota is used up",
}  # fmt: skip


@dataclass(frozen=True)
class Endpoint:
    """Where to ask: a base URL such as http://127.0.0.1:8000/v1, a model, and perhaps a key."""

    url: str
    model: str
    key: str = field(default="", repr=False)
    timeout: float = 120.0
    """Seconds of one request, all of it."""
    max_tokens: int = 4000

    @classmethod
    def configured(cls, said: Mapping[str, Any] | None = None) -> Endpoint:
        """From DLVERIFY_PROPOSE_URL, _MODEL, _KEY, else from `[propose]` of the configuration; else InputError."""
        said = said or {}
        url = os.environ.get("DLVERIFY_PROPOSE_URL") or said.get("url", "")
        model = os.environ.get("DLVERIFY_PROPOSE_MODEL") or said.get("model", "")
        if not url or not model:
            raise InputError(
                "no endpoint is configured, and none is asked unless one is",
                expected="DLVERIFY_PROPOSE_URL and DLVERIFY_PROPOSE_MODEL, or url and model under [propose]",
                hint=_HINT,
            )
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise InputError(f"`{url}` is no endpoint", expected="http://… or https://…", hint=_HINT)
        try:
            import openai  # noqa: F401  # before anything is said to be sent
        except ImportError:
            raise InputError(
                "endpoints are asked by the library `openai`, which is not installed",
                hint="pip install 'scalify-dl[propose]'; --reply FILE does without an endpoint",
            ) from None
        key = os.environ.get("DLVERIFY_PROPOSE_KEY") or os.environ.get(str(said.get("key_env", "")), "")
        return cls(url.rstrip("/"), str(model), key, float(said.get("timeout", 120)), int(said.get("max_tokens", 4000)))

    def ask(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        """The answer; InputError in one sentence where there is none."""
        found: list[Reply | InputError] = []

        def run() -> None:
            try:
                found.append(self._request(messages))
            except InputError as error:
                found.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(self.timeout)
        if not found:
            raise self._error(f"gave no answer in {self.timeout:g} s")
        if isinstance(found[0], InputError):
            raise found[0]
        return found[0]

    def _request(self, messages: Sequence[Mapping[str, str]]) -> Reply:
        from openai import DefaultHttpxClient, OpenAI, OpenAIError

        data = bytearray()
        try:
            with (
                DefaultHttpxClient(follow_redirects=False) as http,
                OpenAI(
                    # an endpoint without keys takes any; what OPENAI_API_KEY says is not for it
                    api_key=self.key or "none", base_url=self.url, timeout=self.timeout + 1, max_retries=0,
                    http_client=http,
                ) as client,
                client.chat.completions.with_streaming_response.create(
                    model=self.model, messages=[dict(m) for m in messages], max_tokens=self.max_tokens, temperature=0
                ) as response,
            ):  # fmt: skip
                for piece in response.iter_bytes():
                    data += piece
                    if len(data) > REPLY_LIMIT:
                        raise self._error(f"answers with more than {REPLY_LIMIT:,} bytes")
        except InputError:
            raise
        except OpenAIError as error:
            status = getattr(error, "status_code", None)
            if status is None:
                raise self._error(f"cannot be asked ({error.__cause__ or error})") from None
            raise self._error(_STATUS.get(status, f"answers with status {status}")) from None
        except Exception as error:  # what the connection raises while the answer is read is of the library below
            raise self._error(f"cannot be asked ({error or type(error).__name__})") from None
        try:
            choice = json.loads(data)["choices"][0]
            text, short = choice["message"]["content"], choice.get("finish_reason") == "length"
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
            raise self._error("gives no answer in the protocol of chats") from None
        if not isinstance(text, str):
            raise self._error("gives no text")
        return Reply(text, f"the answer is cut off after {self.max_tokens:,} tokens" if short else "")

    def _error(self, what: str) -> InputError:
        return InputError(f"the endpoint {self.url} {what}", hint=_HINT)
