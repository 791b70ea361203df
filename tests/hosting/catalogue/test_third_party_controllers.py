"""How the controllers of other packages get into the catalogue."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.hosting.catalogue import CHAIN_ORDER, find_in_package, load_catalogue

Install: TypeAlias = "Callable[..., None]"

POLICIES = """
from pratique import allow, mutator, rule, validator

@validator("RequireTeam", rule("pods"))
def require_team(review):
    return allow()

@mutator("AddTeam", rule("pods"))
def add_team(review):
    return allow()

ALL = [require_team, add_team]
LIMIT_RANGER = validator("LimitRanger")(lambda review: allow())
NAMELESS = validator("x")(lambda review: allow())
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Install packages of one module each, as pip lays them out."""
    numbers = itertools.count()

    def install_package(package: str, code: str = POLICIES, **entry_points: str) -> None:
        folder = tmp_path / str(next(numbers))
        metadata = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(parents=True)
        module = f"{tmp_path.name}_{folder.name}".replace("-", "_")
        (folder / f"{module}.py").write_text(code, "utf-8")
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
        lines = [f"{name} = {module}:{target}" for name, target in entry_points.items()]
        text = "\n".join(["[pratique.controllers]", *lines])
        (metadata / "entry_points.txt").write_text(text, "utf-8")
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.delitem(sys.modules, module, raising=False)

    return install_package


def fault() -> str:
    with pytest.raises(ConfigurationError) as found:
        load_catalogue()
    return str(found.value)


def test_a_package_names_one_controller(install: Install) -> None:
    install("acme", team="require_team")
    controller = load_catalogue().get("RequireTeam")
    assert controller is not None
    assert not controller.trusted
    assert not controller.default


def test_a_package_names_several_controllers_at_once(install: Install) -> None:
    install("acme", team="ALL")
    catalogue = load_catalogue()
    assert catalogue.get("RequireTeam")
    assert catalogue.get("AddTeam")


def test_package_controllers_run_by_name_after_built_in_ones_and_before_webhooks(install: Install) -> None:
    install("acme", team="ALL")
    names = [controller.name for controller in load_catalogue()]
    place = names.index("AddTeam")
    assert names[place : place + 3] == ["AddTeam", "RequireTeam", "MutatingAdmissionPolicy"]
    assert all(
        CHAIN_ORDER.index(name) < CHAIN_ORDER.index("MutatingAdmissionPolicy") for name in names[:place]
    )


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import nothing_like_this", "ModuleNotFoundError: No module named 'nothing_like_this'"),
        ("raise RuntimeError('no token')", "RuntimeError: no token"),
        ("1 +", "SyntaxError: invalid syntax"),
        ("other = 1", "AttributeError: module"),
        ("team = 1", "TypeError: 'int' object is not iterable"),
        ("team = [1]", "expected a Controller, got int"),
        ("def team(review): ...", "TypeError: 'function' object is not iterable"),
    ],
)
def test_a_broken_package_is_named_with_its_entry_point(install: Install, code: str, expected: str) -> None:
    install("acme-policies", code, team="team")
    assert fault().startswith(f'package "acme-policies", entry point "team": {expected}')


def test_a_name_of_kubernetes_is_refused(install: Install) -> None:
    install("acme", limits="LIMIT_RANGER")
    assert fault() == (
        'package "acme", entry point "limits": admission controller "LimitRanger" is already Kubernetes\''
    )


def test_two_packages_cannot_have_the_same_name(install: Install) -> None:
    install("acme", team="require_team")
    install("emca", team="require_team")
    assert 'admission controller "RequireTeam" is already that of package "' in fault()


def test_a_controller_can_be_loaded_by_its_entry_point(install: Install) -> None:
    install("acme", team="ALL")
    origin = load_catalogue().origins["AddTeam"]
    assert find_in_package(origin, "AddTeam").name == "AddTeam"
    with pytest.raises(ConfigurationError, match=r"there is no admission controller \"Nobody\" in it$"):
        find_in_package(origin, "Nobody")
    assert "LimitRanger" not in load_catalogue().origins
