"""Flags of the commands that verify images: how registries are reached."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pratique.images.registry_settings import RegistrySettings
from pratique_cli.options import ExistingPath, NameList, flag, flattened


def registry_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags of registries to a command, which gets them as ``registries``."""

    @functools.wraps(callback)
    def gather(
        registry_config: Path | None,
        registry_ca_file: Path | None,
        registry_plain_http: tuple[tuple[str, ...], ...],
        **values: Any,
    ) -> Any:
        registries = RegistrySettings(
            registry_config=registry_config,
            registry_ca_file=registry_ca_file,
            registry_plain_http=flattened(registry_plain_http),
        )
        return callback(registries=registries, **values)

    flags = (
        flag(
            "--registry-config",
            type=ExistingPath(folders=False),
            help="Credentials of registries: a config.json of docker, or a mounted dockerconfigjson. None by default.",
        ),
        flag(
            "--registry-ca-file",
            type=ExistingPath(folders=False),
            help="CA certificates of registries in PEM, instead of the system's.",
        ),
        flag(
            "--registry-plain-http",
            type=NameList(),
            multiple=True,
            help="Registries to call without TLS, such as 127.0.0.1:5000: for tests only.",
        ),
    )
    return functools.reduce(lambda command, add: add(command), reversed(flags), gather)
