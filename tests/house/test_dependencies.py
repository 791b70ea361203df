from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
ROOMS = {"frontdoor", "mutator", "pratique", "pratique_cli", "validator"}

# what uvicorn and gRPC load by themselves where it is there
LOADED_BY_OTHERS = {"httptools", "psycopg"}


def imported(folder: str) -> set[str]:
    """The packages of others that a folder's code imports, by their names on installing."""
    modules = {
        name.split(".")[0]
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        for name in names_of(node)
    }
    homes = packages_distributions()
    distributions = {
        home for module in modules - ROOMS - sys.stdlib_module_names for home in homes.get(module, ())
    }
    return {normal(distribution) for distribution in distributions}


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [node.module or ""]
    return []


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[object]) -> set[str]:
    return {normal(re.split(r"[<>=~;\s\[]", item)[0]) for item in requirements if isinstance(item, str)}


def test_what_the_services_import_is_what_they_depend_on() -> None:
    assert imported("services") | LOADED_BY_OTHERS == declared(PROJECT["project"]["dependencies"])


def test_what_the_tests_import_is_declared() -> None:
    groups = PROJECT["dependency-groups"]
    known = declared(PROJECT["project"]["dependencies"]).union(*map(declared, groups.values()))
    assert imported("tests") <= known
