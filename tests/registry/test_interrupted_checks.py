"""What is made at first use is made whole, also where the thread that makes it is interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pratique.cluster.go_checks import check_of
from pratique.cluster.go_types import GoField, GoKind, GoType
from pratique.processes.thread_pool import InterruptedCallError
from pratique.registry.declarative_checks import CheckCompiler, Request

REQUEST = Request(is_update=False, options={})


class InterruptedOnce(dict[str, Any]):
    """A mapping whose reading is interrupted halfway the first time."""

    is_over = False

    def _interrupt(self) -> None:
        if not self.is_over:
            self.is_over = True
            raise InterruptedCallError

    def __getitem__(self, name: str) -> Any:
        if name == "inner":
            self._interrupt()
        return super().__getitem__(name)

    def items(self) -> Any:
        if self.is_over:
            return super().items()
        return self._halfway()

    def _halfway(self) -> Iterator[Any]:
        yield next(iter(super().items()))
        self._interrupt()


def test_checks_of_a_type_are_compiled_again_after_an_interrupt() -> None:
    types = InterruptedOnce(
        outer=[["field", "s", "spec", {}, [["type", "s", "inner"]]]],
        inner=[["field", "s", "name", "", [["required", "s!", "value"]]]],
    )
    compiler = CheckCompiler(types)
    with pytest.raises(InterruptedCallError):
        compiler.of_type("outer")
    [found] = compiler.of_type("outer")(REQUEST, (), {"spec": {"name": ""}}, None)
    assert str(found.error) == "spec.name: Required value"


def test_a_type_that_contains_itself_is_compiled() -> None:
    types: dict[str, list[list[Any]]] = {
        "node": [
            ["field", "s", "name", "", [["required", "s!", "value"]]],
            ["field", "s", "next", None, [["optional", "s!-", "pointer"], ["type", "s", "node"]]],
        ]
    }
    [found] = CheckCompiler(types).of_type("node")(REQUEST, (), {"name": "a", "next": {"name": ""}}, None)
    assert str(found.error) == "next.name: Required value"


def test_fields_of_a_type_are_all_known_after_an_interrupt() -> None:
    text = GoType(GoKind.STRING, "string")
    kind = GoType(GoKind.STRUCT, "v1.Interrupted")
    vars(kind)["fields"] = InterruptedOnce(a=GoField("a", text), b=GoField("b", text))
    check = check_of(kind)
    with pytest.raises(InterruptedCallError):
        check({"a": "x"})
    assert check({"a": "x", "b": "y"})
    assert not check({"c": "z"})
