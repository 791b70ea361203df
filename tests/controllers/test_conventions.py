"""What all built-in controllers have in common."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re

import pytest

from pratique import controllers
from pratique.admission.controllers import Controller, Phase
from pratique.apimachinery.errors import ConfigurationError
from pratique.hosting.catalogue import CHAIN_ORDER, configure_controller, load_catalogue

CONTROLLERS = [controller for controller in load_catalogue() if controller.name in CHAIN_ORDER]
CONFIGURABLE = [controller for controller in CONTROLLERS if not controller.needs_backend]


def name_of(controller: Controller) -> str:
    return controller.name


def module_of(controller: Controller) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", controller.name).lower()


def test_every_controller_has_a_file_or_folder_of_its_name() -> None:
    modules = {module.name for module in pkgutil.iter_modules(controllers.__path__)}
    assert {module_of(controller) for controller in CONTROLLERS} == modules - {"quota", "usage_history"}


@pytest.mark.parametrize("controller", CONTROLLERS, ids=name_of)
def test_every_controller_names_its_source_in_kubernetes(controller: Controller) -> None:
    module = importlib.import_module(f"{controllers.__name__}.{module_of(controller)}")
    assert module.CONTROLLER is controller
    summary, _, rest = (inspect.getdoc(module) or "").partition("\n\n")
    assert re.fullmatch(rf"{controller.name}: .+\.", summary)
    assert re.match(r"Sources?: ``(plugin|k8s\.io)/", rest)


@pytest.mark.parametrize("controller", CONFIGURABLE, ids=name_of)
def test_every_controller_rejects_unknown_settings(controller: Controller) -> None:
    with pytest.raises(ConfigurationError, match="noSuchSetting"):
        configure_controller(controller, {"noSuchSetting": 1})


@pytest.mark.parametrize("configuration", [[], "x", 5, True])
@pytest.mark.parametrize("controller", CONFIGURABLE, ids=name_of)
def test_every_controller_rejects_settings_that_are_not_an_object(
    controller: Controller, configuration: object
) -> None:
    with pytest.raises(ConfigurationError, match=controller.name):
        configure_controller(controller, configuration)


@pytest.mark.parametrize("controller", [hosted for hosted in CONFIGURABLE if hosted.hosted], ids=name_of)
def test_every_controller_handles_exactly_its_phases(controller: Controller) -> None:
    settings = {"limits": [{"type": "Server", "qps": 1, "burst": 1}]}
    required = settings if controller.name == "EventRateLimit" else None
    handlers = configure_controller(controller, required).handlers
    handled = {Phase.MUTATE: handlers.mutate, Phase.VALIDATE: handlers.validate}
    assert {phase for phase, handler in handled.items() if handler is not None} == controller.phases


def test_only_controllers_that_kubernetes_removed_or_deprecated_have_a_successor() -> None:
    replaced = {controller.name for controller in CONTROLLERS if controller.replaced_by}
    old = {controller.name for controller in CONTROLLERS if controller.removed_in or controller.deprecated_in}
    assert replaced <= old
    assert {controller.name for controller in CONTROLLERS if controller.removed_in} <= replaced
    assert not {controller.name for controller in CONTROLLERS if controller.default} & old
