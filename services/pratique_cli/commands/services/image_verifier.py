"""``pratique serve image-verifier``."""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from pratique.images.registry_settings import RegistrySettings
from pratique_cli.image_options import registry_flags
from pratique_cli.options import PORT, ExistingPath, Seconds, flag, timeout_flag
from pratique_cli.service_options import LISTENER_HELPS, setting_flag
from pratique_frontdoor.http.image_reviews import ImageVerifierSettings, run
from pratique_frontdoor.settings import FrontDoorSettings

HELPS = MappingProxyType(
    {
        **{name: text for name, text in LISTENER_HELPS.items() if name != "port"},
        "tls_min_version": "Oldest TLS version: VersionTLS12 or VersionTLS13.",
        "token_file": "Bearer tokens that may call, one per line.",
        "basic_auth_file": "Users that may call, user:password, one per line.",
        "drain_seconds": "How long to answer new requests after SIGTERM; Ctrl-C ends at once what is idle.",
    }
)

DEFAULT_PORT = 8082

EPILOG = """\b
It answers ImageReviews at /review, for the admission controller
ImagePolicyWebhook of Pratique or of an API server, whose kubeconfig names it:
docs/image-signatures.md. The policy and its keys are read again when they
change.

\b
Examples:
  pratique serve image-verifier --policy images.yaml --tls-cert-file tls.crt \\
    --tls-private-key-file tls.key --client-ca-file ca.crt
  pratique serve image-verifier --policy images.yaml --registry-config config.json
"""


def _listener_flags(callback: Any) -> Any:
    fields = {field.name: field for field in dataclasses.fields(FrontDoorSettings)}

    @functools.wraps(callback)
    def gather(port: int, **values: Any) -> Any:
        given = {name: values.pop(name) for name in HELPS}
        return callback(listener=FrontDoorSettings(port=port, **given), **values)

    flags = [setting_flag(fields[name], text) for name, text in HELPS.items()]
    port = flag("--port", type=PORT, default=DEFAULT_PORT, show_default=True, help=LISTENER_HELPS["port"])
    return functools.reduce(lambda command, add: add(command), reversed([port, *flags]), gather)


@click.command("image-verifier", epilog=EPILOG)
@flag(
    "--policy",
    type=ExistingPath(folders=False),
    required=True,
    help="An ImageVerificationPolicy: which images need whose signatures.",
)
@registry_flags
@flag(
    "--cache-ttl",
    "cache_seconds",
    type=Seconds(),
    default="5m",
    show_default=True,
    help="How long an image that was verified is not verified again, by its digest.",
)
@timeout_flag("an image review")
@_listener_flags
def command(
    policy: Path,
    *,
    registries: RegistrySettings,
    cache_seconds: float,
    timeout: float,
    listener: FrontDoorSettings,
) -> None:
    """Answer ImageReviews by the signatures of the images, over HTTP or HTTPS."""
    run(
        ImageVerifierSettings(
            listener=listener,
            policy=policy,
            registries=registries,
            timeout_seconds=timeout,
            cache_seconds=cache_seconds,
        )
    )
