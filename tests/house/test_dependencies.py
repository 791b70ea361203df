from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = {"frontdoor", "mutator", "pratique", "pratique_cli", "validator"}

# what uvicorn and gRPC load by themselves where it is there, and what is loaded by entry points
LOADED_BY_OTHERS = {"httptools", "opentelemetry-exporter-otlp", "psycopg"}

# what is loaded only by those who have it: the plugin of pytest
HAD_BY_CALLERS = {"pytest"}

# what is declared and locked, and not imported yet
AHEAD = {"kubernetes-asyncio", "rich"}


@functools.cache
def homes() -> dict[str, str]:
    """Which distribution holds which module. Several may share a top-level package, as those below ``google`` do."""
    return {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__").split(".cpython")[0]: one.name
        for one in distributions()
        for path in one.files or ()
        if path.suffix in {".py", ".so"}
    }


def imported(folder: str) -> set[str]:
    """The packages of others that a folder's code imports, by their names on installing."""
    modules = {
        name
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names_of(node)
    }
    known = ROOMS | sys.stdlib_module_names
    found = {home_of(module) for module in modules if module.split(".")[0] not in known}
    return {normal(distribution) for distribution in found - {""}}


def home_of(module: str) -> str:
    """The distribution of a module, or of the package that is nearest above it; empty where nobody's."""
    while module and module not in homes():
        module = module.rpartition(".")[0]
    return homes().get(module, "")


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[object]) -> set[str]:
    return {normal(re.split(r"[<>=~;\s\[]", item)[0]) for item in requirements if isinstance(item, str)}


def test_what_the_services_import_is_what_they_depend_on() -> None:
    optional = PROJECT["project"]["optional-dependencies"]
    dependencies = declared(PROJECT["project"]["dependencies"]).union(*map(declared, optional.values()))
    found = imported("services") - HAD_BY_CALLERS
    assert not found & AHEAD
    assert found | LOADED_BY_OTHERS | AHEAD == dependencies
    running = ("pratique", "frontdoor", "mutator", "validator")
    assert not set().union(*(imported(f"services/{room}") for room in running)) & declared(optional["prove"])


def test_what_the_tests_import_is_declared() -> None:
    groups = PROJECT["dependency-groups"]
    known = declared(PROJECT["project"]["dependencies"]).union(*map(declared, groups.values()))
    assert imported("tests") <= known
