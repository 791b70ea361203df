"""Fixtures that evaluate expressions, and cases from files."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pratique.cel.environments import Environment

CASES = Path(__file__).parents[1] / "data" / "cel"


def cases(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / file).read_text("utf-8").splitlines()]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize a test's ``case`` with the file that its mark ``cases`` names."""
    if mark := metafunc.definition.get_closest_marker("cases"):
        found = cases(mark.args[0])
        metafunc.parametrize("case", found, ids=[f"{mark.args[0]}:{entry['expression']}" for entry in found])


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "cases(file): run once for each case of a file in tests/data/cel")


@pytest.fixture
def evaluate() -> Callable[..., Any]:
    """Evaluates an expression; keyword arguments are its variables."""
    from pratique.cel.costs import Budget
    from pratique.cel.environments import Environment
    from pratique.cel.expressions import compile_expression

    def run(source: str, environment: Environment | None = None, **variables: Any) -> Any:
        known = Environment(has_params=True, has_authorizer=True, has_patches=True)
        return compile_expression(source, environment or known).evaluate(variables, Budget(10_000_000))

    return run
