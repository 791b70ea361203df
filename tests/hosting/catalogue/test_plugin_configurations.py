"""What controllers are told by a file and by flags."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON
from pratique.configuration.admission_configuration import load_plugin_configurations
from pratique.configuration.settings import ChainSettings

NAME = "DefaultTolerationSeconds"
NOT_READY, UNREACHABLE = (f"default-{what}-toleration-seconds" for what in ("not-ready", "unreachable"))


def settings(folder: Path, configuration: JSON, **flags: JSON) -> ChainSettings:
    file = folder / "admission.json"
    document = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": NAME, "configuration": configuration}],
    }
    file.write_text(json.dumps(document))
    return ChainSettings(admission_control_config_file=file, plugin_flags={NAME: flags})


def test_a_flag_takes_precedence_over_the_file_and_leaves_the_rest_of_it(tmp_path: Path) -> None:
    chain = settings(tmp_path, {NOT_READY: 1, UNREACHABLE: 2}, **{NOT_READY: 3})
    assert load_plugin_configurations(chain) == {NAME: {NOT_READY: 3, UNREACHABLE: 2}}


def test_a_flag_needs_no_file() -> None:
    chain = ChainSettings(plugin_flags={NAME: {NOT_READY: 3}})
    assert load_plugin_configurations(chain) == {NAME: {NOT_READY: 3}}


def test_a_flag_cannot_set_a_configuration_that_is_not_an_object(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="DefaultTolerationSeconds must be a mapping, not a list"):
        load_plugin_configurations(settings(tmp_path, [1], **{NOT_READY: 3}))
