"""The flags that say what is in the chain: the same for ``review``, ``check``, ``up`` and every service."""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any

from pratique.releases import CURRENT, OLDEST
from pratique.settings import ChainSettings
from pratique_cli.flags import ExistingPath, NameList, ReleaseName, flag
from pratique_cli.plugin_flags import plugin_flags, plugin_variables, take_plugin_flags

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_FLAGS = (
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
        help=f"The Kubernetes release that controllers follow where releases differ, from {OLDEST} to {CURRENT};"
        f" without the flag {CURRENT}.",
    ),
    flag(
        "--first-denial-only",
        is_flag=True,
        help="Answer with one denial, as the API server does, instead of with all.",
    ),
    *plugin_flags(),
)


CHAIN_FLAGS = (
    "config", "cluster", "enable_admission_plugins", "disable_admission_plugins", "admission_control",
    "admission_control_config_file", "release", "first_denial_only",
)  # fmt: skip
"""The names of the flags that are not for one controller alone."""


def chain_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the chain flags to a command; it gets them as one ``chain: ChainSettings``."""

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        return callback(chain=_settings(values), **values)

    return functools.reduce(lambda command, add: add(command), reversed(_FLAGS), gather)


def _settings(values: dict[str, Any]) -> ChainSettings:
    """Take the chain flags' values out of a command's."""
    return ChainSettings(
        config=values.pop("config"),
        cluster=values.pop("cluster") or None,
        enable_admission_plugins=_joined(values.pop("enable_admission_plugins")),
        disable_admission_plugins=_joined(values.pop("disable_admission_plugins")),
        admission_control=_joined(values.pop("admission_control")) or None,
        admission_control_config_file=values.pop("admission_control_config_file"),
        release=values.pop("release"),
        first_denial_only=values.pop("first_denial_only"),
        plugin_flags=take_plugin_flags(values),
    )


def _joined(lists: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(itertools.chain.from_iterable(lists))


def chain_arguments(chain: ChainSettings) -> list[str]:
    """Write the settings as the flags that give them, for a service in another process.

    What is for single controllers is given by :func:`chain_variables`.
    """
    arguments = [*_repeated("--config", chain.config), *_repeated("--cluster", chain.cluster or ())]
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


def _repeated(name: str, paths: Iterable[Path]) -> list[str]:
    return [part for path in paths for part in (name, str(path))]
