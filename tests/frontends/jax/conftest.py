"""JAX tests: 8 host devices; skipped, saying so, where JAX is not installed."""

import os

import pytest

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8".strip()
os.environ.setdefault("JAX_PLATFORMS", "cpu")

pytest.importorskip("jax", reason="the `jax` extra is not installed")
