"""Usable kubeconfigs: the server and the user that a kubeconfig's current context means, seen to be complete.

Source: ``ConfirmUsable`` in ``k8s.io/client-go/tools/clientcmd/{client_config,validation}.go``.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.errors import ConfigurationError
from pratique.kubeconfigs import Server, User
from pratique.statuses import aggregate, go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.kubeconfigs import Context, Kubeconfig

_NOTHING = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"


@dataclasses.dataclass(frozen=True, slots=True)
class Usable:
    """Whom to call, and as whom."""

    server: Server
    user_name: str
    """The user's name in the kubeconfig; empty for an anonymous caller."""
    user: User


def usable(kubeconfig: Kubeconfig) -> Usable:
    """Take what the current context names.

    Raises:
        ConfigurationError: it is missing, or not complete; a file that it names cannot be read.
    """
    context = _context(kubeconfig)
    if context.cluster not in kubeconfig.servers:
        raise ConfigurationError(f"invalid configuration: {_NOTHING}")
    # Kubernetes takes a user that is missing for nobody, who has no credentials.
    if context.user and context.user not in kubeconfig.users:
        raise ConfigurationError(f"auth info {go_quoted(context.user)} does not exist")
    found = Usable(
        kubeconfig.servers[context.cluster], context.user, kubeconfig.users.get(context.user, User())
    )
    faults = [*_user_faults(context.user, found.user), *_server_faults(context.cluster, found.server)]
    if faults:
        raise ConfigurationError(f"invalid configuration: {aggregate(faults)}")
    return found


def _context(kubeconfig: Kubeconfig) -> Context:
    name = kubeconfig.current_context
    if not name:
        raise ConfigurationError(f"invalid configuration: {_NOTHING}")
    if name not in kubeconfig.contexts:
        raise ConfigurationError(f"context was not found for specified context: {name}")
    return kubeconfig.contexts[name]


def _user_faults(name: str, user: User) -> Iterable[str]:
    if not (user.client_certificate or user.client_certificate_data):
        return
    if not (user.client_key or user.client_key_data):
        yield (
            f"client-key-data or client-key must be specified for {name} "
            "to use the clientCert authentication method."
        )
    if not user.client_certificate_data:
        yield from _unreadable("client-cert", user.client_certificate, name)
    if not user.client_key_data:
        yield from _unreadable("client-key", user.client_key, name)


def _server_faults(name: str, server: Server) -> Iterable[str]:
    if not server.server:
        yield f"no server found for cluster {go_quoted(name)}"
    if not server.certificate_authority_data:
        yield from _unreadable("certificate-authority", server.certificate_authority, name)


def _unreadable(field: str, path: str, name: str) -> Iterable[str]:
    if not path:
        return
    try:
        Path(path).open("rb").close()
    except OSError as error:
        reason = (error.strerror or "").lower()
        yield f"unable to read {field} {path} for {name} due to open {path}: {reason}"
