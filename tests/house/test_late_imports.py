"""What only some chains need is imported when they need it, so that the others start sooner."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATE = [
    "aiohttp",
    "cel_expr_python",
    "http.server",
    "opentelemetry",
    "prometheus_client",
    "sqlalchemy",
    "yaml",
]


@pytest.mark.parametrize("module", ["pratique_mutator.service", "pratique_validator.service"])
def test_a_service_does_not_import_what_its_chain_may_not_need(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {LATE} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"
