"""One question to an endpoint that speaks OpenAI's protocol of chats. Every request ends: by a limit of time, which is
kept whatever the other side does, and by one of size. No redirection is followed, so that no key goes elsewhere."""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from scalify_dl.errors import InputError

REPLY_LIMIT = 1_000_000
"""Bytes of an answer."""
_HINT = "docs/propose.md; --reply FILE does without an endpoint"


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
        key = os.environ.get("DLVERIFY_PROPOSE_KEY") or os.environ.get(str(said.get("key_env", "")), "")
        return cls(url.rstrip("/"), str(model), key, float(said.get("timeout", 120)), int(said.get("max_tokens", 4000)))

    def ask(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The text of the answer; InputError in one sentence where there is none."""
        found: list[str | InputError] = []

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

    def _request(self, messages: Sequence[Mapping[str, str]]) -> str:
        body = {"model": self.model, "messages": list(messages), "max_tokens": self.max_tokens, "temperature": 0}
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        try:
            request = urllib.request.Request(f"{self.url}/chat/completions", json.dumps(body).encode(), headers)
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=self.timeout + 1) as response:
                data = response.read(REPLY_LIMIT + 1)
        except urllib.error.HTTPError as error:
            what = {401: "refuses the key", 403: "refuses the key", 404: "has no such model or path", 429: "says that"
                    " the quota is used up"}.get(error.code, f"answers with status {error.code}")  # fmt: skip
            raise self._error(what) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._error(f"cannot be asked ({getattr(error, 'reason', None) or error})") from None
        if len(data) > REPLY_LIMIT:
            raise self._error(f"answers with more than {REPLY_LIMIT:,} bytes")
        try:
            text = json.loads(data)["choices"][0]["message"]["content"]
        except (ValueError, KeyError, IndexError, TypeError, RecursionError):
            raise self._error("gives no answer in the protocol of chats") from None
        if not isinstance(text, str):
            raise self._error("gives no text")
        return text

    def _error(self, what: str) -> InputError:
        return InputError(f"the endpoint {self.url} {what}", hint=_HINT)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None
