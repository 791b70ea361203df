"""The flags that speak to one admission controller, as kube-apiserver has them and ours like them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pratique_cli.flags import WholeNumber, flag, variable_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pratique.json_values import JSON

_FLAGS: Mapping[str, tuple[Any, ...]] = {
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
    for flags in _FLAGS.values():
        for name, kind, text in flags:
            yield flag(f"--{name}", type=kind, help=text)


def plugin_flag_names() -> tuple[str, ...]:
    """Name the parameters that the flags become."""
    return tuple(name.replace("-", "_") for flags in _FLAGS.values() for name, _, _ in flags)


def take_plugin_flags(values: dict[str, Any]) -> Mapping[str, Mapping[str, JSON]]:
    """Take those flags' values out of a command's: by controller, the settings that were given."""
    taken = {
        plugin: {name: values.pop(name.replace("-", "_")) for name, _, _ in flags}
        for plugin, flags in _FLAGS.items()
    }
    given = {
        plugin: {name: value for name, value in settings.items() if value is not None}
        for plugin, settings in taken.items()
    }
    return {plugin: settings for plugin, settings in given.items() if settings}


def plugin_variables(plugins: Mapping[str, Mapping[str, JSON]]) -> dict[str, str]:
    """Write settings as the environment variables that give them: a URL may be nothing for a list of processes."""
    return {
        variable_of(name): str(value) for settings in plugins.values() for name, value in settings.items()
    }
