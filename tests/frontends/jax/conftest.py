"""JAX tests run on 8 host devices; without JAX they are left out, and the header of the run says so."""

from __future__ import annotations

import importlib.util
import os

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")

MISSING = importlib.util.find_spec("jax") is None
collect_ignore_glob = ["test_*.py"] if MISSING else []


def pytest_report_collectionfinish() -> str:
    """Says that tests were left out."""
    return "tests/frontends/jax left out: the `jax` extra is not installed" if MISSING else ""
