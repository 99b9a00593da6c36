"""Answers from files, or from a server on this machine that speaks the protocol."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_cli import dlverify

__all__ = ["dlverify"]


@pytest.fixture
def replies(tmp_path: Path) -> Callable[..., list[str]]:
    def write(*texts: str) -> list[str]:
        words = []
        for n, text in enumerate(texts):
            (tmp_path / f"reply{n}").write_text(text)
            words += ["--reply", str(tmp_path / f"reply{n}")]
        return words

    return write


class Server:
    """Speaks the protocol with recorded answers; `answers` are texts, or functions of the handler."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.asked: list[Any] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.asked.append((self.path, self.headers.get("Authorization"), json.loads(body)))
                answer = server.answers.pop(0)
                if callable(answer):
                    answer(self)
                    return
                choice = answer if isinstance(answer, dict) else {"message": {"content": answer}}
                self.give(200, json.dumps({"choices": [choice]}).encode())

            def give(self, status: int, data: bytes, **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.http.timeout = 5
        threading.Thread(target=self.http.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()


@pytest.fixture
def openai() -> None:
    pytest.importorskip("openai", reason="the extra `propose` is not installed")


@pytest.fixture
def server(openai: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    found = Server()
    url = f"http://127.0.0.1:{found.http.server_address[1]}/v1"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("MY_KEY", "secret")
    monkeypatch.delenv("DLVERIFY_PROPOSE_URL", raising=False)
    (tmp_path / "dlverify.toml").write_text(
        f'[propose]\nurl = "{url}"\nmodel = "m"\nkey_env = "MY_KEY"\ntimeout = 2\nmax_tokens = 77\n'
    )
    monkeypatch.chdir(tmp_path)
    yield found
    found.http.shutdown()
    found.http.server_close()


def slow(handler: Any) -> None:
    time.sleep(4)
