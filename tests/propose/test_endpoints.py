"""Endpoints: asked as configured, told what was wrong; one that fails is one sentence."""

from __future__ import annotations

import sys
import time
from typing import Any

import pytest

from tests.cli.test_cli import Run

from .asked import PAIR, RIGHT, WRONG
from .conftest import Server, slow


def test_an_endpoint_is_asked_and_told_what_was_wrong(dlverify: Run, server: Server) -> None:
    server.answers = [WRONG, RIGHT]
    status, said, err = dlverify("propose", *PAIR)
    assert status == 0
    assert said.startswith("why: proposed")
    assert "sending" in err
    assert "secret" not in err
    (path, key, first), (_, _, second) = server.asked
    assert (path, key, first["model"], first["max_tokens"]) == ("/v1/chat/completions", "Bearer secret", "m", 77)
    assert len(second["messages"]) == len(first["messages"]) + 2
    assert "Rejected" in second["messages"][-1]["content"]


def test_rounds_are_bounded(dlverify: Run, server: Server) -> None:
    server.answers = [WRONG] * 9
    assert dlverify("propose", *PAIR, "--rounds", "2").status == 2
    assert len(server.asked) == 2


def dripping(handler: Any) -> None:
    handler.send_response(200)
    handler.end_headers()
    for _ in range(60):
        try:
            handler.wfile.write(b" ")
            handler.wfile.flush()
        except OSError:
            return
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (slow, "no answer in 2 s"),
        (dripping, "no answer in 2 s"),
        (lambda h: h.give(401, b"{}"), "refuses the key"),
        (lambda h: h.give(429, b"{}"), "quota"),
        (lambda h: h.give(500, b"oops"), "status 500"),
        (lambda h: h.give(302, b"", Location="http://127.0.0.1:1/"), "status 302"),
        (lambda h: h.give(200, b"<html>"), "protocol"),
        (lambda h: h.give(200, b'{"choices": []}'), "protocol"),
        (lambda h: h.give(200, b'{"choices": [{"message": {"content": 7}}]}'), "no text"),
        (lambda h: h.give(200, b"[" * 2_000_000), "more than"),
        (lambda h: h.give(200, b"[" * 100_000), "protocol"),
        (lambda h: h.connection.close(), "cannot be asked"),
    ],
)
def test_an_endpoint_that_fails_is_one_sentence(dlverify: Run, server: Server, answer: Any, said: str) -> None:
    server.answers = [answer]
    began = time.monotonic()
    status, out, err = dlverify("propose", *PAIR)
    assert (status, out) == (2, "")
    assert said in err
    assert "Traceback" not in err
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:80", "ftp://x/"])
def test_only_http_is_asked(dlverify: Run, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("DLVERIFY_PROPOSE_URL", url)
    monkeypatch.setenv("DLVERIFY_PROPOSE_MODEL", "m")
    status, _, err = dlverify("propose", *PAIR)
    assert status == 2
    assert "is no endpoint" in err


def test_without_the_library_nothing_is_said_to_be_sent(dlverify: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLVERIFY_PROPOSE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("DLVERIFY_PROPOSE_MODEL", "m")
    monkeypatch.setitem(sys.modules, "openai", None)
    status, _, err = dlverify("propose", *PAIR)
    assert status == 2
    assert "scalify-dl[propose]" in err
    assert "sending" not in err


def test_an_endpoint_that_is_down_is_one_sentence(openai: None, dlverify: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("DLVERIFY_PROPOSE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("DLVERIFY_PROPOSE_MODEL", "m")
    status, _, err = dlverify("propose", *PAIR)
    assert status == 2
    assert "cannot be asked" in err
