"""How controllers are given their settings, and what is said of wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Controller, Handlers, Phase
from pratique.admission.results import allow
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.configuration.admission_configuration import WebhookAdmissionConfiguration
from pratique.hosting.catalogue import Catalogue, configure_controller, load_catalogue


class Limit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    qps: int


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    cache_size: int = 10
    limits: tuple[Limit, ...] = ()


def build(_: Settings) -> Handlers:
    return Handlers(validate=lambda _: allow())


def controller(
    build: Callable[[Settings], Handlers] = build, phases: frozenset[Phase] = VALIDATE
) -> Controller:
    return Controller(name="Limits", summary="Limits.", phases=phases, build=build, settings=Settings)


def fault_of(configuration: JSON, which: Controller | None = None) -> str:
    with pytest.raises(ConfigurationError) as fault:
        configure_controller(which or controller(), configuration)
    return str(fault.value).removeprefix('couldn\'t init admission plugin "Limits": ')


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (None, Settings()),
        ({}, Settings()),
        ({"cacheSize": 5}, Settings(5)),
        ({"limits": [{"qps": 1}]}, Settings(limits=(Limit(1),))),
    ],
)
def test_settings_are_read_into_their_type(configuration: JSON, expected: Settings) -> None:
    assert configure_controller(controller(), configuration).settings == expected


@pytest.mark.parametrize(
    ("configuration", "expected"),
    [
        (
            {"cacheSize": "5"},
            'cacheSize: Invalid value: "string": cacheSize in body must be of type integer: "string"',
        ),
        (
            {"cacheSize": True},
            'cacheSize: Invalid value: "boolean": cacheSize in body must be of type integer: "boolean"',
        ),
        ({"limits": [{"qps": 1, "x": 1}]}, 'unknown field "limits[0].x"'),
        ({"size": 5}, 'unknown field "size"; known fields: cacheSize, limits'),
        (
            {"size": 5, "limit": 1},
            'unknown field "size", unknown field "limit"; known fields: cacheSize, limits',
        ),
    ],
)
def test_invalid_settings_are_rejected_with_field_and_reason(configuration: JSON, expected: str) -> None:
    assert fault_of(configuration) == f"strict decoding error: {expected}"


@pytest.mark.parametrize("configuration", [[], "x", 5, True, {"limits": [{}]}])
def test_settings_of_the_wrong_type_are_rejected(configuration: JSON) -> None:
    assert fault_of(configuration).startswith("strict decoding error: ")


def test_an_error_names_the_controller() -> None:
    with pytest.raises(ConfigurationError, match=r"^couldn't init admission plugin \"Limits\": .* cacheSize"):
        configure_controller(controller(), {"cacheSize": "5"})


def refuse(_: Settings) -> Handlers:
    raise ConfigurationError("limits: Required value")


def crash(_: Settings) -> Handlers:
    raise KeyError("TOKEN")


@pytest.mark.parametrize(
    ("which", "expected"),
    [
        (controller(refuse), "limits: Required value"),
        (controller(crash), "KeyError: 'TOKEN'"),
        (controller(phases=MUTATE), "its phases and the handlers that it builds differ in mutate"),
        (controller(phases=BOTH), "its phases and the handlers that it builds differ in mutate"),
    ],
)
def test_a_controller_that_cannot_be_built_is_rejected(which: Controller, expected: str) -> None:
    assert fault_of(None, which) == expected


def test_each_controller_gets_its_own_settings() -> None:
    catalogue = Catalogue((controller(),))
    (limits,) = catalogue.configure(catalogue, {"Limits": {"cacheSize": 7}})
    assert limits.settings == Settings(7)


def test_settings_of_a_disabled_controller_are_ignored() -> None:
    assert Catalogue((controller(),)).configure((), {"Limits": {"cacheSize": 7}}) == ()


def test_settings_of_an_unknown_controller_are_rejected() -> None:
    with pytest.raises(ConfigurationError) as fault:
        Catalogue((controller(),)).configure((), {"Limit": {}, "Priority": {}})
    assert str(fault.value) == (
        '[plugins: admission plugin "Limit" is unknown; did you mean "Limits"?,'
        ' plugins: admission plugin "Priority" is unknown; Kubernetes has or had it, Pratique does not]'
    )


WEBHOOKS = ["MutatingAdmissionWebhook", "ValidatingAdmissionWebhook"]


@pytest.mark.parametrize("name", WEBHOOKS)
def test_webhook_controllers_take_a_kubeconfig_file(name: str) -> None:
    catalogue = load_catalogue()
    written = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "WebhookAdmissionConfiguration",
        "kubeConfigFile": "/etc/kubeconfig",
    }
    which = catalogue.get(name)
    assert which is not None
    (hosted,) = catalogue.configure([which], {name: written})
    assert isinstance(hosted.settings, WebhookAdmissionConfiguration)
    assert hosted.settings.kube_config_file == "/etc/kubeconfig"
    assert hosted.handlers == Handlers()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"kubeConfigFile": "k"}, 'kubeConfigFile: Invalid value: "k": must be an absolute file path'),
        (
            {"kubeconfigFile": "/k"},
            'strict decoding error: unknown field "kubeconfigFile"; known fields: apiVersion, kind,',
        ),
        ({"kind": "Unknown"}, "strict decoding error: Invalid enum value 'Unknown' - at `$.kind`"),
        ({"staticManifestsDir": "/m"}, "staticManifestsDir: Forbidden: give the folder to --config instead"),
    ],
)
@pytest.mark.parametrize("name", WEBHOOKS)
def test_wrong_settings_of_webhook_controllers_are_refused(name: str, written: JSON, expected: str) -> None:
    catalogue = load_catalogue()
    webhooks = [controller for controller in catalogue if controller.name in WEBHOOKS]
    with pytest.raises(ConfigurationError) as fault:
        catalogue.configure(webhooks, {name: written})
    assert str(fault.value).startswith(f'couldn\'t init admission plugin "{name}": {expected}')


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "admission.yaml"
    catalogue = load_catalogue()
    controllers = [controller for controller in catalogue if controller.name == "DefaultTolerationSeconds"]
    wrong = {"DefaultTolerationSeconds": {"default-not-ready-toleration-seconds": "x"}}
    with pytest.raises(ConfigurationError) as raised:
        catalogue.configure(controllers, wrong, file)
    assert str(raised.value).startswith(f"{file}: couldn't init admission plugin")
    assert "default-not-ready-toleration-seconds" in str(raised.value)
