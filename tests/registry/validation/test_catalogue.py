"""The catalogue finds every validation that a module of the registry has."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from types import ModuleType

import pytest

from pratique.registry import custom_resources, validation
from pratique.registry.validation.catalogue import subresource_validation_of, validation_of


def modules() -> Iterator[ModuleType]:
    for package in (validation, custom_resources):
        for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
            yield importlib.import_module(module.name)


KINDS = {at: found for module in modules() for at, found in getattr(module, "VALIDATIONS", {}).items()}
SUBRESOURCES = {
    at: found for module in modules() for at, found in getattr(module, "SUBRESOURCE_VALIDATIONS", {}).items()
}


def test_there_are_validations_of_all_built_in_groups() -> None:
    assert len(KINDS) >= 59
    assert len(SUBRESOURCES) >= 30


@pytest.mark.parametrize("at", KINDS, ids="/".join)
def test_the_validation_of_a_kind_is_found(at: tuple[str, str]) -> None:
    assert validation_of(*at) is KINDS[at]


@pytest.mark.parametrize("at", SUBRESOURCES, ids="/".join)
def test_the_validation_of_a_subresource_is_found(at: tuple[str, str, str]) -> None:
    assert subresource_validation_of(*at) is SUBRESOURCES[at]


def test_other_kinds_have_none() -> None:
    assert validation_of("example.com", "widgets") is None
    assert validation_of("apps", "widgets") is None
    assert subresource_validation_of("", "pods", "exec") is None
