"""Plugin configurations: what each admission controller is told, by a file and by flags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.configurations.admission import load_admission_configuration
from pratique.errors import ConfigurationError
from pratique.json_values import json_type
from pratique.releases import overlaid, release_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import JSON
    from pratique.settings import ChainSettings

_OF_EVERY_CHAIN = frozenset({"resource-quota-ledger"})
"""Flags that ``up`` and ``review`` set by themselves."""


def load_plugin_configurations(settings: ChainSettings) -> Mapping[str, JSON]:
    """Read what controllers are told, by their names.

    What a flag says takes precedence over the file, and both over the release that the chain follows.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    file = settings.admission_control_config_file
    own = dict(load_admission_configuration(file)) if file is not None else {}
    configurations: dict[str, JSON] = {**release_settings(settings.release)}
    for name, configuration in own.items():
        configurations[name] = _over_release(configurations.get(name), configuration)
    for name, flags in settings.plugin_flags.items():
        configurations[name] = _with_flags(name, configurations.get(name), flags)
    return configurations


def configured_plugins(settings: ChainSettings) -> frozenset[str]:
    """The controllers that somebody has given settings, by a file or by flags.

    A release is not meant for any of them alone, and where quotas are charged is said for every chain.

    Raises:
        ConfigurationError: the file cannot be used.
    """
    file = settings.admission_control_config_file
    own = frozenset() if file is None else frozenset(load_admission_configuration(file))
    return own | {name for name, flags in settings.plugin_flags.items() if flags.keys() - _OF_EVERY_CHAIN}


def _over_release(of_release: JSON, configuration: JSON) -> JSON:
    """What a file says, on top of what the release does. What is no mapping is for the controller to refuse."""
    if of_release is None or not isinstance(configuration, dict | None):
        return configuration
    return overlaid(of_release, configuration or {})


def _with_flags(name: str, configuration: JSON, flags: Mapping[str, JSON]) -> JSON:
    if configuration is None:
        return dict(flags)
    if not isinstance(configuration, dict):
        kind = json_type(configuration)
        raise ConfigurationError(f"the configuration of {name} must be a mapping, not {kind}")
    return configuration | dict(flags)
