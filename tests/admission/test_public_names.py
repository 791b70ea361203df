"""What the author of a policy imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

import pratique

PUBLIC = [
    "EVERYTHING", "JSON", "Allow", "Answer", "Cluster", "ConfigurationError", "Controller", "Deny", "Edits",
    "GroupVersionKind", "GroupVersionResource", "Handler", "Handlers", "NoSettings", "Operation", "Patch", "Phase",
    "RefusalError", "Review", "Rule", "Status", "UserInfo", "allow", "deny", "member", "mutator", "patch",
    "rule", "validator", "warn",
]  # fmt: skip


def test_the_public_names_are_these() -> None:
    assert pratique.__all__ == PUBLIC


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_can_be_imported(name: str) -> None:
    assert getattr(pratique, name) is not None
    assert name in dir(pratique)


def test_another_name_cannot() -> None:
    with pytest.raises(AttributeError, match="module 'pratique' has no attribute 'nobody'"):
        _ = pratique.nobody  # type: ignore[attr-defined]  # the mistake under test


def test_importing_the_package_loads_nothing_else() -> None:
    code = "import sys, pratique; print([name for name in sys.modules if name.startswith('pratique.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
