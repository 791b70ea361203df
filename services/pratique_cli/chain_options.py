"""The chain flags, which select and configure the admission controllers, and the flags of single controllers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON
from pratique.configuration.settings import (
    CURRENT_RELEASE,
    OLDEST_RELEASE,
    AuthorizerSource,
    ChainSettings,
)
from pratique_cli.options import (
    ExistingPath,
    NameList,
    ReleaseName,
    Seconds,
    WholeNumber,
    environment_variable,
    flag,
    flattened,
)

_CONTROLLER_FLAGS: Mapping[str, tuple[Any, ...]] = {
    "PodSecurity": (
        (
            "pod-security",
            click.Choice(["privileged", "baseline", "restricted"]),
            "The Pod Security level of namespaces whose labels name none.",
        ),
    ),
    "DefaultTolerationSeconds": (
        (
            "default-not-ready-toleration-seconds",
            WholeNumber(min=0),
            "Default toleration of notReady:NoExecute for Pods that set none, in seconds.",
        ),
        (
            "default-unreachable-toleration-seconds",
            WholeNumber(min=0),
            "Default toleration of unreachable:NoExecute for Pods that set none, in seconds.",
        ),
    ),
    "ResourceQuota": (
        (
            "resource-quota-ledger",
            click.STRING,
            (
                "Where quota usage is stored: a file, or a URL such as postgresql://user@host/name, which several"
                " validators can share. Offline it is always memory."
            ),
        ),
        (
            "resource-quota-sync-period",
            click.STRING,
            "How often to recount usage from the cluster's objects, such as 10s.",
        ),
    ),
    "InitialResources": (
        (
            "ir-data-source",
            click.STRING,
            "Where to read the usage history: a SQLite file, or the URL of a Prometheus.",
        ),
        ("ir-percentile", WholeNumber(1, 100), "Which percentile of the samples to request."),
        ("ir-namespace-only", click.BOOL, "Estimate only from the history of the Pod's own namespace."),
    ),
}
"""By controller: each flag's name, type and help."""


def plugin_flags() -> Iterator[Any]:
    """Make the flags of single controllers, as decorators of a command."""
    for flags in _CONTROLLER_FLAGS.values():
        for name, kind, text in flags:
            yield flag(f"--{name}", type=kind, help=text)


def plugin_parameters() -> tuple[str, ...]:
    """The names of the parameters of these flags."""
    return tuple(name.replace("-", "_") for flags in _CONTROLLER_FLAGS.values() for name, _, _ in flags)


def pop_plugin_settings(values: dict[str, Any]) -> Mapping[str, Mapping[str, JSON]]:
    """Pop these flags from a command's values: the settings that were given, by controller."""
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
    """Write settings as environment variables, because a process list must not show the password of a URL."""
    return {
        environment_variable(name): str(value)
        for settings in plugins.values()
        for name, value in settings.items()
    }


def _controller_names() -> Iterable[str]:
    from pratique.hosting.catalogue import load_catalogue  # noqa: PLC0415 - only shells ask for it

    try:
        return [controller.name for controller in load_catalogue()]
    except InputError:
        return ()  # a package that cannot be loaded: the command tells it, not the Tab


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
        help="Objects that controllers look up: a file or a folder. Repeatable. Other objects do not exist;"
        " without the flag, every namespace exists and nothing else.",
    ),
    flag(
        "--enable-admission-plugins",
        type=NameList(_controller_names),
        multiple=True,
        help="Controllers to enable in addition to the default ones.",
    ),
    flag(
        "--disable-admission-plugins",
        type=NameList(_controller_names),
        multiple=True,
        help="Default controllers to disable.",
    ),
    flag(
        "--admission-control",
        type=NameList(_controller_names),
        multiple=True,
        help="The exact controllers, in this order, instead of the default ones. Kubernetes since 1.10 ignores the"
        " order.",
    ),
    flag(
        "--admission-control-config-file",
        type=ExistingPath(folders=False),
        help="An AdmissionConfiguration (apiserver.config.k8s.io/v1) with the controllers' settings.",
    ),
    flag(
        "--release",
        type=ReleaseName(),
        help="The Kubernetes release whose behaviour to follow,"
        f" from {OLDEST_RELEASE} to {CURRENT_RELEASE}; by default {CURRENT_RELEASE}.",
    ),
    flag(
        "--first-denial-only",
        is_flag=True,
        help="Stop at the first denial, as the API server does.",
    ),
    *plugin_flags(),
)


CHAIN_PARAMETERS = (
    "config", "cluster", "enable_admission_plugins", "disable_admission_plugins", "admission_control",
    "admission_control_config_file", "release", "first_denial_only",
)  # fmt: skip
"""The parameters of the chain flags, without those of single controllers."""


def chain_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the chain flags to a command, which gets them as ``chain: ChainSettings``."""

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        return callback(chain=_pop_chain_settings(values), **values)

    return functools.reduce(lambda command, add: add(command), reversed(_CHAIN_OPTIONS), gather)


def kubeconfig_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags that name a live cluster to read once; the command gets ``kubeconfig`` and ``context``."""
    named = flag(
        "--kubeconfig",
        type=ExistingPath(folders=False),
        help="A kubeconfig: what its live cluster has is what decides, policies and webhook configurations, too.",
    )
    context = flag(
        "--context",
        metavar="NAME",
        default="",
        help="The context of the kubeconfig; by default its current one.",
    )
    return named(context(callback))


def authorizer_flag(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Make the flag ``--authorizer``, whose help begins with ``text``."""
    return flag(
        "--authorizer",
        type=click.Choice([source.value for source in AuthorizerSource]),
        callback=lambda _ctx, _param, value: AuthorizerSource(value),
        default=AuthorizerSource.STORE.value,
        show_default=True,
        help=f"{text} store (the Roles and bindings among the objects that controllers look up), or cluster (the live"
        " cluster's API server, asked by SubjectAccessReview).",
    )


_LIVE_OPTIONS = (
    flag(
        "--kubeconfig",
        type=ExistingPath(folders=False),
        help="Follow the objects that controllers look up in this kubeconfig's cluster, beside those of --cluster.",
    ),
    flag(
        "--context",
        metavar="NAME",
        default="",
        help="The context of --kubeconfig; by default its current one.",
    ),
    flag("--in-cluster", is_flag=True, help="The same in a Pod, with its ServiceAccount."),
    flag(
        "--cluster-staleness",
        "cluster_staleness_seconds",
        type=Seconds(),
        default="60s",
        show_default=True,
        help="How long the API server may leave live objects unconfirmed before reviews that need them are refused.",
    ),
    flag(
        "--policies-from",
        metavar="SOURCE",
        multiple=True,
        help="Follow policies in the live cluster, too: cluster (its policies and bindings), webhooks (its webhook"
        " configurations), or configmaps=NAMESPACE (those with the label policy.pratique/config=true). Repeatable.",
    ),
    authorizer_flag("What says what users may do:"),
    flag(
        "--authorization-webhook-cache-authorized-ttl",
        "authorized_seconds",
        type=Seconds(),
        default="5m",
        show_default=True,
        help="With --authorizer cluster: how long to remember that something is allowed.",
    ),
    flag(
        "--authorization-webhook-cache-unauthorized-ttl",
        "unauthorized_seconds",
        type=Seconds(),
        default="30s",
        show_default=True,
        help="With --authorizer cluster: how long to remember that something is not allowed.",
    ),
)
_LIVE_PARAMETERS = (
    "kubeconfig", "context", "in_cluster", "cluster_staleness_seconds", "policies_from", "authorizer",
    "authorized_seconds", "unauthorized_seconds",
)  # fmt: skip


def live_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of a live cluster to a command that has the chain flags; ``chain`` then has their settings."""

    @functools.wraps(callback)
    def gather(chain: ChainSettings, **values: Any) -> Any:
        live = {name: values.pop(name) for name in _LIVE_PARAMETERS}
        if live["in_cluster"] and live["kubeconfig"]:
            raise click.UsageError("--in-cluster and --kubeconfig name two clusters: give one of them")
        if live["context"] and not live["kubeconfig"]:
            raise click.UsageError("--context names a part of a kubeconfig: give --kubeconfig, too")
        if live["policies_from"] and not (live["in_cluster"] or live["kubeconfig"]):
            raise click.UsageError(
                "--policies-from is about a live cluster: give --kubeconfig or --in-cluster, too"
            )
        if live["authorizer"] is AuthorizerSource.CLUSTER and not (live["in_cluster"] or live["kubeconfig"]):
            raise click.UsageError(
                "--authorizer cluster asks a live cluster: give --kubeconfig or --in-cluster, too"
            )
        _check_sources(live["policies_from"])
        return callback(chain=dataclasses.replace(chain, **live), **values)

    return functools.reduce(lambda command, add: add(command), reversed(_LIVE_OPTIONS), gather)


def _check_sources(sources: Iterable[str]) -> None:
    """Refuse what is no source of policies, before anything is started."""
    if sources:
        from pratique.configuration.live_configurations import collections_of  # noqa: PLC0415 - seldom needed

        for source in sources:
            collections_of(source)


def _pop_chain_settings(values: dict[str, Any]) -> ChainSettings:
    """Pop the chain flags from a command's values."""
    return ChainSettings(
        config=values.pop("config"),
        cluster=values.pop("cluster") or None,
        enable_admission_plugins=flattened(values.pop("enable_admission_plugins")),
        disable_admission_plugins=flattened(values.pop("disable_admission_plugins")),
        admission_control=flattened(values.pop("admission_control")) or None,
        admission_control_config_file=values.pop("admission_control_config_file"),
        release=values.pop("release"),
        first_denial_only=values.pop("first_denial_only"),
        plugin_flags=pop_plugin_settings(values),
    )


def chain_arguments(chain: ChainSettings) -> list[str]:
    """Write the settings as flags for a service in another process.

    :func:`chain_variables` writes the settings of single controllers.
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
    if chain.kubeconfig is not None:
        arguments += [
            "--kubeconfig",
            str(chain.kubeconfig),
            *(["--context", chain.context] if chain.context else []),
        ]
    arguments += ["--in-cluster"] * chain.in_cluster
    if chain.is_live:
        arguments += ["--cluster-staleness", f"{chain.cluster_staleness_seconds:g}s"]
        arguments += [part for source in chain.policies_from for part in ("--policies-from", source)]
    if chain.authorizer is AuthorizerSource.CLUSTER:
        arguments += ["--authorizer", chain.authorizer.value]
        for name, seconds in (
            ("authorized", chain.authorized_seconds),
            ("unauthorized", chain.unauthorized_seconds),
        ):
            arguments += [f"--authorization-webhook-cache-{name}-ttl", f"{seconds:g}s"]
    if chain.release is not None:
        arguments += ["--release", str(chain.release)]
    return arguments + ["--first-denial-only"] * chain.first_denial_only


def chain_variables(chain: ChainSettings) -> dict[str, str]:
    """Write the settings of single controllers as environment variables."""
    return plugin_variables(chain.plugin_flags)


def _repeated_flag(name: str, paths: Iterable[Path]) -> list[str]:
    return [part for path in paths for part in (name, str(path))]
