from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

LOCKS = ["run", "build", "dev", "offline", "fuzz", "flame", "mutants"]
PIN = re.compile(r"^([a-z0-9.-]+)==([^\s;\\]+)", re.MULTILINE)


def lock(root: Path, name: str) -> str:
    return (root / "scripts" / "requirements" / f"{name}.txt").read_text()


def pins(root: Path, name: str) -> dict[str, str]:
    return dict(PIN.findall(lock(root, name)))


def required(requirements: list[object]) -> set[str]:
    names = (re.split(r"[<>=~;\s\[]", item)[0] for item in requirements if isinstance(item, str))
    return {re.sub(r"[-_.]+", "-", name).lower() for name in names} - {
        "pratique"
    }  # an extra may ask for another


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_host_and_no_path(name: str, root: Path) -> None:
    text = lock(root, name)
    assert "/" not in text
    assert not re.search(r"--(index|extra|find|trusted)", text)


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_has_hashes(name: str, root: Path) -> None:
    entries = re.split(r"\n(?=\S)", re.sub(r"^#.*\n", "", lock(root, name), flags=re.MULTILINE).strip())
    assert entries
    assert all(re.search(r"--hash=sha256:[0-9a-f]{64}", entry) for entry in entries)


@pytest.mark.parametrize(("small", "large"), [("run", "build"), ("build", "dev"), ("offline", "build")])
def test_the_locks_agree(small: str, large: str, root: Path) -> None:
    assert pins(root, small).items() <= pins(root, large).items()


def test_every_dependency_is_locked(root: Path) -> None:
    declared = tomllib.loads((root / "pyproject.toml").read_text())
    groups = declared["dependency-groups"]
    optional = {name: required(items) for name, items in declared["project"]["optional-dependencies"].items()}
    assert set().union(*optional.values()) <= pins(root, "dev").keys()
    assert (
        not optional.pop("prove") & pins(root, "build").keys()
    )  # no service needs it, and no image holds it
    assert set().union(*optional.values()) <= pins(root, "run").keys()
    run = required(declared["project"]["dependencies"])
    offline = run | optional["certificates"] | required(groups["build"])
    assert offline <= pins(root, "offline").keys()
    assert run <= pins(root, "run").keys()
    assert run | required(groups["build"]) <= pins(root, "build").keys()
    # what has no wheels but for some machines, or that few want, is in a lock of its own
    for alone in ("fuzz", "flame", "mutants"):
        assert required(groups.pop(alone)) <= pins(root, alone).keys()
    assert set().union(*map(required, groups.values())) <= pins(root, "dev").keys()
