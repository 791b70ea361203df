"""Nothing that a service reads becomes code, or an object of a type that the text names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
MODULES = {"marshal", "pickle", "shelve", "dill", "cloudpickle", "jinja2", "string.templatelib"}
CALLS = {"eval", "exec", "compile", "__import__"}
ATTRIBUTES = {
    "unsafe_load",
    "full_load",
    "UnsafeLoader",
    "FullLoader",
    "CLoader",
    "CUnsafeLoader",
    "CFullLoader",
    "system",
}


ALLOWED = {
    # It compiles text without anything from an expression; tests/cel/test_code_generation.py reads all its words.
    "pratique/cel/code_generation.py": ["compile"],
    # Its templates are files of the wheel; what people type is only ever a value in them.
    "frontdoor/pratique_frontdoor/console/app.py": ["jinja2"],
}


def dangers(text: str) -> list[str]:
    """What of the kind a module does, by its names."""
    return sorted({name for node in ast.walk(ast.parse(text)) for name in names_of(node)})


def names_of(node: ast.AST) -> set[str]:
    if isinstance(node, ast.Import):
        return MODULES & {alias.name for alias in node.names}
    if isinstance(node, ast.ImportFrom):
        return (MODULES & {node.module or ""}) | (ATTRIBUTES & {alias.name for alias in node.names})
    if isinstance(node, ast.Call) and any(keyword.arg == "shell" for keyword in node.keywords):
        return {"shell"}
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return CALLS & {node.func.id}
    return ATTRIBUTES & {node.attr} if isinstance(node, ast.Attribute) else set()


def test_no_service_runs_what_it_reads() -> None:
    found = {
        str(path.relative_to(SERVICES)): names
        for path in SERVICES.rglob("*.py")
        if "admission/v1" not in path.as_posix() and (names := dangers(path.read_text("utf-8")))
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import pickle", "pickle"),
        ("from marshal import loads", "marshal"),
        ("eval(text)", "eval"),
        ("yaml.load(text, yaml.UnsafeLoader)", "UnsafeLoader"),
        ("run(text, shell=True)", "shell"),
        ("os.system(text)", "system"),
    ],
)
def test_what_runs_it_would_be_found(text: str, name: str) -> None:
    assert dangers(text) == [name]
