"""AdmissionConfigurations and the files that they name."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from pratique.admission.controllers import Handlers
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.configuration.admission_configuration import (
    WebhookAdmissionConfiguration,
    check_webhook_settings,
    configured_plugins,
    load_admission_configuration,
    load_plugin_configurations,
    load_plugin_timeouts,
)
from pratique.configuration.settings import ChainSettings, Release

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n"
LEGACY = "podNodeSelectorPluginConfig: {clusterDefaultNodeSelector: a=b}\n"


def written(folder: Path, text: str, name: str = "admission.yaml") -> Path:
    file = folder / name
    file.write_text(text)
    return file


def refusal(file: Path) -> list[str]:
    with pytest.raises(ConfigurationError) as refused:
        load_admission_configuration(file)
    return str(refused.value).splitlines()


@pytest.mark.parametrize("version", ["apiserver.config.k8s.io/v1", "apiserver.k8s.io/v1alpha1"])
def test_both_versions_are_read(tmp_path: Path, version: str) -> None:
    text = f'{{"apiVersion": "{version}", "kind": "AdmissionConfiguration", "plugins": [{{"name": "A"}}]}}'
    assert load_admission_configuration(written(tmp_path, text)) == {}


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("[]", {}),
        ("[{name: A, configuration: {a: 1}}]", {"A": {"a": 1}}),
        ("[{name: A, configuration: {a: 1}, path: missing.yaml}]", {"A": {"a": 1}}),
        ("[{name: A, configuration: {a: 1}}, {name: A, configuration: {a: 2}}]", {"A": {"a": 1}}),
        ("[{name: A}, {name: A, configuration: {a: 2}}]", {}),
        ("[{name: A, configuration: ~}]", {}),
    ],
)
def test_the_first_entry_counts_and_inline_configuration_wins(
    tmp_path: Path, plugins: str, expected: JSON
) -> None:
    assert load_admission_configuration(written(tmp_path, f"{HEAD}plugins: {plugins}\n")) == expected


def test_a_path_is_relative_to_the_file_that_names_it(tmp_path: Path) -> None:
    folder = tmp_path / "plugins"
    folder.mkdir()
    written(folder, "kind: A\n", "a.yaml")
    absolute = written(tmp_path, '{"kind": "B"}', "b.json")
    file = written(folder, f"{HEAD}plugins: [{{name: A, path: a.yaml}}, {{name: B, path: {absolute}}}]\n")
    assert load_admission_configuration(file) == {"A": {"kind": "A"}, "B": {"kind": "B"}}


def test_files_of_controllers_not_asked_for_are_not_opened(tmp_path: Path) -> None:
    file = written(
        tmp_path, f"{HEAD}plugins: [{{name: A, path: missing}}, {{name: B, configuration: {{}}}}]\n"
    )
    assert load_admission_configuration(file, {"B"}) == {"B": {}}


@pytest.mark.parametrize("text", [LEGACY, f"kind: Other\napiVersion: v1\n{LEGACY}", "imagePolicy: {}\n"])
def test_a_legacy_file_goes_whole_to_the_two_controllers_that_read_it(tmp_path: Path, text: str) -> None:
    told = load_admission_configuration(written(tmp_path, text))
    assert set(told) == {"ImagePolicyWebhook", "PodNodeSelector"}
    assert told["PodNodeSelector"] == told["ImagePolicyWebhook"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected one document, found 0]"),
        (f"{HEAD}---\n{HEAD}", "expected one document, found 2]"),
        (
            "a: [",
            "document 1, line 2, column 1: while parsing a flow node: did not find expected node content]",
        ),
        ("[]", "expected an object with apiVersion and kind, got a list]"),
        (
            "a: 1\n",
            "Object 'Kind' is missing; expected AdmissionConfiguration of apiserver.config.k8s.io/v1 (line 1)",
        ),
        (
            "kind: AdmissionConfiguration\n",
            "Object 'apiVersion' is missing; expected apiserver.config.k8s.io/v1 (line",
        ),
        (
            HEAD.replace("/v1", "/v9"),
            'no kind "AdmissionConfiguration" is registered for version "apiserver.config',
        ),
        (
            "apiVersion: v1\nkind: Pod\n",
            'Pod: no kind "Pod" is registered for version "v1"; expected AdmissionConf',
        ),
        (
            f"{HEAD}plugins: [{{name: A, foo: 1}}]\n",
            'strict decoding error: unknown field "plugins[0].foo" (line 3)',
        ),
        (
            f"{HEAD}plugins:\n- name: A\n  name: B\n",
            'strict decoding error: duplicate field "plugins[0].name"]',
        ),
        (f"{HEAD}plugins: [{{path: a}}]\n", "plugins[0].name: Required value (line 3)"),
        (
            f"{HEAD}plugins: {{A: {{}}}}\n",
            'plugins: Invalid value: "object": plugins in body must be of type array',
        ),
        (f"{HEAD}plugins: [{{name: A, path: a.yaml}}]\n", "a.yaml: no such file or folder]"),
    ],
)
def test_an_error_names_its_file(tmp_path: Path, text: str, message: str) -> None:
    file = written(tmp_path, text)
    (line,) = refusal(file)
    assert str(file.parent) in line
    assert message in line


def test_an_unreadable_file_is_reported_in_kube_apiservers_words(tmp_path: Path) -> None:
    file = tmp_path / "missing.yaml"
    expected = (
        f'unable to read admission control configuration from "{file}" [{file}: no such file or folder]'
    )
    assert refusal(file) == [expected]


def test_every_unreadable_file_is_reported(tmp_path: Path) -> None:
    written(tmp_path, "a: [", "broken.yaml")
    file = written(
        tmp_path, f"{HEAD}plugins: [{{name: A, path: broken.yaml}}, {{name: B, path: missing.yaml}}]\n"
    )
    broken, missing = refusal(file)
    assert broken.startswith("Couldn't open admission plugin configuration broken.yaml of A [")
    assert missing.startswith("Couldn't open admission plugin configuration missing.yaml of B [")


def test_flags_take_precedence_over_the_file_and_both_over_the_release(tmp_path: Path) -> None:
    text = f"{HEAD}plugins: [{{name: PodPreset, configuration: {{a: file, b: file}}}}]\n"
    settings = ChainSettings(
        admission_control_config_file=written(tmp_path, text),
        plugin_flags={"PodPreset": {"b": "flag"}, "Priority": {"c": "flag"}},
        release=Release(1, 10),
    )
    found = load_plugin_configurations(settings)
    assert found["PodPreset"] == {"initContainers": False, "a": "file", "b": "flag"}
    assert found["Priority"] == {"release": "1.10", "c": "flag"}
    assert found["LimitRanger"] == {"podUpdates": True}


def test_an_empty_entry_keeps_the_settings_of_the_release(tmp_path: Path) -> None:
    for configuration in ("null", "{}"):
        text = f"{HEAD}plugins: [{{name: LimitRanger, configuration: {configuration}}}]\n"
        settings = ChainSettings(
            admission_control_config_file=written(tmp_path, text), release=Release(1, 10)
        )
        assert load_plugin_configurations(settings)["LimitRanger"] == {"podUpdates": True}


@pytest.mark.parametrize("configuration", ["[]", "text", "1"])
def test_flags_need_a_mapping_in_the_file(tmp_path: Path, configuration: str) -> None:
    text = f"{HEAD}plugins: [{{name: A, configuration: {configuration}}}]\n"
    settings = ChainSettings(
        admission_control_config_file=written(tmp_path, text), plugin_flags={"A": {"a": 1}}
    )
    with pytest.raises(ConfigurationError, match="the configuration of A must be a mapping, not "):
        load_plugin_configurations(settings)


def test_configured_plugins_are_those_of_the_file_and_of_flags(tmp_path: Path) -> None:
    text = f"{HEAD}plugins: [{{name: A, configuration: {{}}}}, {{name: Empty}}]\n"
    settings = ChainSettings(
        admission_control_config_file=written(tmp_path, text),
        plugin_flags={
            "B": {"b": 1},
            "ResourceQuota": {"resource-quota-ledger": "memory"},
            "None": {},
        },
        release=Release(1, 10),
    )
    assert configured_plugins(settings) == {"A", "B"}
    assert configured_plugins(ChainSettings()) == frozenset()


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({}, ""),
        ({"kubeConfigFile": "/etc/kubeconfig"}, ""),
        (
            {"kubeConfigFile": "kubeconfig"},
            'kubeConfigFile: Invalid value: "kubeconfig": must be an absolute file path',
        ),
        (
            {"staticManifestsDir": "/etc/manifests"},
            "staticManifestsDir: Forbidden: give the folder to --config instead",
        ),
    ],
)
def test_the_settings_of_webhook_controllers_are_validated(settings: JSON, error: str) -> None:
    decoded = msgspec.convert(settings, WebhookAdmissionConfiguration)
    if not error:
        assert check_webhook_settings(decoded) == Handlers()
        return
    with pytest.raises(ConfigurationError) as refused:
        check_webhook_settings(decoded)
    assert str(refused.value) == error


def timeouts(folder: Path, plugins: str) -> dict[str, float]:
    file = written(folder, f"{HEAD}plugins: {plugins}\n")
    return dict(load_plugin_timeouts(ChainSettings(admission_control_config_file=file)))


@pytest.mark.parametrize(
    ("plugins", "expected"),
    [
        ("[{name: A}]", {}),
        (
            "[{name: A, timeoutSeconds: 2}, {name: B, timeoutSeconds: 0.5, configuration: {a: 1}}]",
            {"A": 2, "B": 0.5},
        ),
        ("[{name: A, timeoutSeconds: 1}, {name: A, timeoutSeconds: 2}]", {"A": 1}),
        ("[{name: A}, {name: A, timeoutSeconds: 2}]", {}),
        ("[{name: A, timeoutSeconds: 30}]", {"A": 30}),
    ],
)
def test_an_entry_sets_the_time_limit_of_its_controller(
    tmp_path: Path, plugins: str, expected: dict[str, float]
) -> None:
    assert timeouts(tmp_path, plugins) == expected


def test_without_a_file_there_are_no_time_limits() -> None:
    assert load_plugin_timeouts(ChainSettings()) == {}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("{name: A, timeoutSeconds: 0}", "Invalid value: 0: must be greater than 0 and at most 30"),
        ("{name: A, timeoutSeconds: -1}", "Invalid value: -1: must be greater than 0 and at most 30"),
        ("{name: A, timeoutSeconds: 30.5}", "Invalid value: 30.5: must be greater than 0 and at most 30"),
        (
            "{name: ValidatingAdmissionWebhook, timeoutSeconds: 1}",
            "Forbidden: each webhook has a timeoutSeconds of its own",
        ),
    ],
)
def test_a_time_limit_that_cannot_hold_is_refused_with_its_place(
    tmp_path: Path, entry: str, expected: str
) -> None:
    [line] = refusal(written(tmp_path, f"{HEAD}plugins: [{entry}]\n"))
    assert f"plugins[0].timeoutSeconds: {expected} (line 3)" in line
