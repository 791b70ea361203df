"""Threads that read the first value of a type at once, of which msgspec alone makes a segmentation fault."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[2] / "services"
READERS = {
    "msgspec.convert",
    "msgspec.json.decode",
    "msgspec.json.Decoder",
    "msgspec.msgpack.decode",
    "msgspec.msgpack.Decoder",
}
RACE = """
import sys, threading
import msgspec
from pratique.apimachinery.prepared_types import prepared

sys.setswitchinterval(1e-6)
for _ in range(300):
    inner = msgspec.defstruct("Inner", [("name", str)])
    outer = msgspec.defstruct("Outer", [("items", list[inner]), *[(f"f{n}", int, 0) for n in range(30)]])
    go = threading.Barrier(4)

    def read():
        go.wait()
        msgspec.convert({"items": [{"name": "a"}], "f29": 1}, prepared(outer))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""


def unprepared(text: str) -> list[str]:
    """The types that a module has values read of without having prepared them."""
    calls = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    kinds = [
        ast.unparse(kind) for call in calls if ast.unparse(call.func) in READERS for kind in kinds_of(call)
    ]
    return [kind for kind in kinds if not kind.startswith(("prepared(", "msgspec.Raw"))]


def kinds_of(call: ast.Call) -> list[ast.expr]:
    """The type that a call names, if any: after the value, alone, or by its keyword."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == "type"]
    return named + call.args[0 if ast.unparse(call.func).endswith("Decoder") else 1 :]


def test_threads_may_read_the_first_values_of_a_type_at_once() -> None:
    subprocess.run([sys.executable, "-c", RACE], check=True)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("msgspec.convert(value, Pod)", ["Pod"]),
        ("msgspec.json.decode(text, type=Pod)", ["Pod"]),
        ("msgspec.json.Decoder(Pod)", ["Pod"]),
        ("msgspec.json.decode(text)", []),
        ("msgspec.json.Decoder()", []),
        ("msgspec.convert(value, prepared(Pod))", []),
    ],
)
def test_readings_of_types_that_are_not_prepared_are_found(text: str, found: list[str]) -> None:
    assert unprepared(text) == found


def test_every_type_that_is_read_is_prepared() -> None:
    modules = set(SERVICES.rglob("*.py")) - {SERVICES / "pratique" / "apimachinery" / "prepared_types.py"}
    assert not {path: kinds for path in modules if (kinds := unprepared(path.read_text("utf-8")))}
