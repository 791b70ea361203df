"""The options that say what is in the chain, and those of one controller."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pratique.apimachinery.json_values import JSON
from pratique.configuration.settings import CURRENT_RELEASE, OLDEST_RELEASE, ChainSettings
from pratique_cli.options import ExistingPath, NameList, ReleaseName, WholeNumber, environment_variable, flag

_CONTROLLER_FLAGS: Mapping[str, tuple[Any, ...]] = {
    "PodSecurity": (
        (
            "pod-security",
            click.Choice(["privileged", "baseline", "restricted"]),
            "The Pod Security level to which the Pods of namespaces are held whose labels name none.",
        ),
    ),
    "DefaultTolerationSeconds": (
        (
            "default-not-ready-toleration-seconds",
            WholeNumber(min=0),
            "For how long a Pod tolerates notReady:NoExecute where it says nothing.",
        ),
        (
            "default-unreachable-toleration-seconds",
            WholeNumber(min=0),
            "For how long a Pod tolerates unreachable:NoExecute where it says nothing.",
        ),
    ),
    "ResourceQuota": (
        (
            "resource-quota-ledger",
            click.STRING,
            (
                "Where charges against quotas are kept: a file, or a URL such as postgresql://user@host/name, which"
                " several validators can share. Offline it is always memory."
            ),
        ),
        (
            "resource-quota-sync-period",
            click.STRING,
            "How often usage is counted anew from the cluster's objects, such as 10s.",
        ),
    ),
    "InitialResources": (
        (
            "ir-data-source",
            click.STRING,
            "Where the history of usage is read: a SQLite file, or the URL of a Prometheus.",
        ),
        ("ir-percentile", WholeNumber(1, 100), "Which percentile of the samples is requested."),
        ("ir-namespace-only", click.BOOL, "Estimate from the history of the Pod's own namespace alone."),
    ),
}
"""By controller: a flag's name, the type of its value, and what its help says."""


def plugin_flags() -> Iterator[Any]:
    """Make the flags, as decorators of a command."""
    for flags in _CONTROLLER_FLAGS.values():
        for name, kind, text in flags:
            yield flag(f"--{name}", type=kind, help=text)


def plugin_parameters() -> tuple[str, ...]:
    """Name the parameters that the flags become."""
    return tuple(name.replace("-", "_") for flags in _CONTROLLER_FLAGS.values() for name, _, _ in flags)


def pop_plugin_settings(values: dict[str, Any]) -> Mapping[str, Mapping[str, JSON]]:
    """Take those flags' values out of a command's: by controller, the settings that were given."""
    taken = {
        plugin: {name: values.pop(name.replace("-", "_")) for name, _, _ in flags}
        for plugin, flags in _CONTROLLER_FLAGS.items()
    }
    given = {
        plugin: {name: value for name, value in settings.items() if value is not None}
        for plugin, settings in taken.items()
    }
    return {plugin: settings for plugin, settings in given.items() if settings}


def plugin_variables(plugins: Mapping[str, Mapping[str, JSON]]) -> dict[str, str]:
    """Write settings as the environment variables that give them: a URL may be nothing for a list of processes."""
    return {
        environment_variable(name): str(value)
        for settings in plugins.values()
        for name, value in settings.items()
    }


_CHAIN_OPTIONS = (
    flag(
        "--config",
        type=ExistingPath(),
        multiple=True,
        help="Webhook configurations and policies: a file, or a folder of .yaml, .yml and .json. Repeatable.",
    ),
    flag(
        "--cluster",
        type=ExistingPath(),
        multiple=True,
        help="Objects that controllers look up: a file or a folder. Repeatable. What is not there does not"
        " exist; without the flag every namespace exists, and nothing else does.",
    ),
    flag(
        "--enable-admission-plugins",
        type=NameList(),
        multiple=True,
        help="Controllers beside the default ones.",
    ),
    flag(
        "--disable-admission-plugins",
        type=NameList(),
        multiple=True,
        help="Default controllers to leave out.",
    ),
    flag(
        "--admission-control",
        type=NameList(),
        multiple=True,
        help="The exact controllers, in that order, instead of the default ones.",
    ),
    flag(
        "--admission-control-config-file",
        type=ExistingPath(folders=False),
        help="An AdmissionConfiguration (apiserver.config.k8s.io/v1) with the controllers' settings.",
    ),
    flag(
        "--release",
        type=ReleaseName(),
        help=f"The Kubernetes release that controllers follow where releases differ, from {OLDEST_RELEASE} to {CURRENT_RELEASE};"
        f" without the flag {CURRENT_RELEASE}.",
    ),
    flag(
        "--first-denial-only",
        is_flag=True,
        help="Answer with one denial, as the API server does, instead of with all.",
    ),
    *plugin_flags(),
)


CHAIN_PARAMETERS = (
    "config", "cluster", "enable_admission_plugins", "disable_admission_plugins", "admission_control",
    "admission_control_config_file", "release", "first_denial_only",
)  # fmt: skip
"""The names of the flags that are not for one controller alone."""


def chain_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the chain flags to a command; it gets them as one ``chain: ChainSettings``."""

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        return callback(chain=_pop_chain_settings(values), **values)

    return functools.reduce(lambda command, add: add(command), reversed(_CHAIN_OPTIONS), gather)


def _pop_chain_settings(values: dict[str, Any]) -> ChainSettings:
    """Take the chain flags' values out of a command's."""
    return ChainSettings(
        config=values.pop("config"),
        cluster=values.pop("cluster") or None,
        enable_admission_plugins=_flattened(values.pop("enable_admission_plugins")),
        disable_admission_plugins=_flattened(values.pop("disable_admission_plugins")),
        admission_control=_flattened(values.pop("admission_control")) or None,
        admission_control_config_file=values.pop("admission_control_config_file"),
        release=values.pop("release"),
        first_denial_only=values.pop("first_denial_only"),
        plugin_flags=pop_plugin_settings(values),
    )


def _flattened(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(itertools.chain.from_iterable(lists))


def chain_arguments(chain: ChainSettings) -> list[str]:
    """Write the settings as the flags that give them, for a service in another process.

    What is for single controllers is given by :func:`chain_variables`.
    """
    arguments = [*_repeated_flag("--config", chain.config), *_repeated_flag("--cluster", chain.cluster or ())]
    for name, plugins in (
        ("--enable-admission-plugins", chain.enable_admission_plugins),
        ("--disable-admission-plugins", chain.disable_admission_plugins),
        ("--admission-control", chain.admission_control),
    ):
        if plugins:
            arguments += [name, ",".join(plugins)]
    if chain.admission_control_config_file is not None:
        arguments += ["--admission-control-config-file", str(chain.admission_control_config_file)]
    if chain.release is not None:
        arguments += ["--release", str(chain.release)]
    return arguments + ["--first-denial-only"] * chain.first_denial_only


def chain_variables(chain: ChainSettings) -> dict[str, str]:
    """Write the rest of the settings as the environment variables that give them."""
    return plugin_variables(chain.plugin_flags)


def _repeated_flag(name: str, paths: Iterable[Path]) -> list[str]:
    return [part for path in paths for part in (name, str(path))]
