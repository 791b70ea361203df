from __future__ import annotations

import ast
import functools
import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from pratique_cli.extras import MODULES_OF_EXTRAS

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
OPTIONAL: dict[str, list[object]] = PROJECT["project"]["optional-dependencies"]
SOURCES = [ROOT / "services" / name for name in ("", "frontdoor", "mutator", "validator")]
ROOMS = {"pratique", "pratique_cli", "pratique_frontdoor", "pratique_mutator", "pratique_validator"}

OFFLINE = (
    "certs",
    "check",
    "decision_log",
    "plugins",
    "prove",
    "quotas",
    "replay",
    "review",
    "test",
    "version",
)
"""The commands that `pip install pratique` is enough for."""

# what uvicorn and gRPC load by themselves where it is there, and what is loaded by entry points
LOADED_BY_OTHERS = {"httptools", "opentelemetry-exporter-otlp", "psycopg"}

# what is loaded only by those who have it: the plugin of pytest
HAD_BY_CALLERS = {"pytest"}


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
    modules = {name for path in (ROOT / folder).rglob("*.py") for name in named_in(path)}
    known = ROOMS | sys.stdlib_module_names
    found = {home_of(module) for module in modules if module.split(".")[0] not in known}
    return {normal(distribution) for distribution in found - {""}}


def home_of(module: str) -> str:
    """The distribution of a module, or of the package that is nearest above it; empty where nobody's."""
    while module and module not in homes():
        module = module.rpartition(".")[0]
    return homes().get(module, "")


@functools.cache
def named_in(file: Path) -> list[str]:
    """What a file imports anywhere."""
    return [name for node in ast.walk(ast.parse(file.read_text())) for name in names_of(node)]


def names_of(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.level == 0:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[object]) -> set[str]:
    names = {normal(re.split(r"[<>=~;\s\[]", item)[0]) for item in requirements if isinstance(item, str)}
    return names - {"pratique"}  # an extra may ask for another one


def source(module: str) -> Path | None:
    """The file of a module of ours; None where there is none, as for a function."""
    places = [folder.joinpath(*module.split(".")) for folder in SOURCES]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return next((file for file in files if file.is_file()), None)


def imported_at_once(module: str, seen: set[str]) -> set[str]:
    """The modules of others that importing a module of ours imports, by walking its imports and theirs."""
    file = source(module)
    if file is None or module in seen:
        return set()
    seen.add(module)
    found: set[str] = set()
    for node in ast.parse(file.read_text()).body:  # neither in functions nor below `if TYPE_CHECKING`
        for name in names_of(node):
            packages = [name.rpartition(".")[0], name]
            ours = name.split(".")[0] in ROOMS
            found |= set().union(*(imported_at_once(one, seen) for one in packages)) if ours else {name}
    return found


def test_offline_commands_import_only_what_is_always_installed() -> None:
    seen: set[str] = set()
    modules = ["pratique_cli.__main__", *(f"pratique_cli.commands.{name}" for name in OFFLINE)]
    found = set().union(*(imported_at_once(module, seen) for module in modules))
    others = {name for name in found if name.split(".")[0] not in sys.stdlib_module_names}
    assert {normal(home_of(name)) for name in others} <= declared(PROJECT["project"]["dependencies"])
    assert len(seen) > 100


def test_each_extra_is_told_of_by_the_modules_that_it_installs() -> None:
    installed = {
        extra: {normal(homes().get(module) or home_of(module)) for module in modules}
        for extra, modules in MODULES_OF_EXTRAS.items()
    }
    # one package installs the modules of three, and the extra `ledger` is the smaller one
    told_by_others = {"opentelemetry-api", "opentelemetry-exporter-otlp", "opentelemetry-sdk", "sqlalchemy"}
    for extra, requirements in OPTIONAL.items():
        assert declared(requirements) - told_by_others <= installed[extra] | {""}, extra


def test_what_the_services_import_is_what_they_depend_on() -> None:
    dependencies = declared(PROJECT["project"]["dependencies"]).union(*map(declared, OPTIONAL.values()))
    found = imported("services") - HAD_BY_CALLERS
    assert found | LOADED_BY_OTHERS == dependencies
    running = ("pratique", "frontdoor", "mutator", "validator")
    assert not set().union(*(imported(f"services/{room}") for room in running)) & declared(OPTIONAL["prove"])


def test_what_the_tests_import_is_declared() -> None:
    groups = PROJECT["dependency-groups"]
    known = declared(PROJECT["project"]["dependencies"]).union(
        *map(declared, groups.values()), *map(declared, OPTIONAL.values())
    )
    assert imported("tests") <= known
