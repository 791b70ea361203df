"""Kubeconfig files: clusters, users and contexts.

Source: ``k8s.io/client-go/tools/clientcmd``: ``api/v1/types.go``, ``validation.go`` and ``client_config.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from pratique.apimachinery.documents import read_file
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.json_values import JSON  # msgspec reads the types of fields
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import aggregate, go_quoted


class KubeconfigUser(msgspec.Struct, frozen=True, rename="kebab"):
    """A user of a kubeconfig: the credentials of a client. Absent fields are empty."""

    token: str = ""
    """A bearer token."""
    token_file: str = msgspec.field(default="", name="tokenFile")
    """The path of a file with a bearer token, which may change."""
    username: str = ""
    """For basic authentication."""
    password: str = ""
    """For basic authentication."""
    client_certificate: str = ""
    """The path of a certificate, PEM. ``client_certificate_data`` takes precedence."""
    client_certificate_data: bytes = b""
    """A certificate, PEM."""
    client_key: str = ""
    """The path of the certificate's key, PEM. ``client_key_data`` takes precedence."""
    client_key_data: bytes = b""
    """The certificate's key, PEM."""
    impersonate: str = msgspec.field(default="", name="as")
    """The user to impersonate."""
    impersonate_uid: str = msgspec.field(default="", name="as-uid")
    """That user's uid."""
    impersonate_groups: tuple[str, ...] = msgspec.field(default=(), name="as-groups")
    """That user's groups."""
    impersonate_extra: dict[str, tuple[str, ...]] = msgspec.field(
        default_factory=dict[str, tuple[str, ...]], name="as-user-extra"
    )
    """That user's extra attributes."""
    exec: dict[str, JSON] | None = None
    """A command that prints credentials."""
    auth_provider: dict[str, JSON] | None = None
    """A kind of credentials that Kubernetes has removed."""

    def __repr__(self) -> str:
        """Show no content: credentials are secrets."""
        return "User(…)"


class KubeconfigCluster(msgspec.Struct, frozen=True, rename="kebab"):
    """A ``cluster`` of a kubeconfig: an API server, or any other HTTPS server."""

    server: str = ""
    """Its URL."""
    certificate_authority: str = ""
    """The path of CA certificates, PEM. ``certificate_authority_data`` takes precedence."""
    certificate_authority_data: bytes = b""
    """CA certificates, PEM."""
    insecure_skip_tls_verify: bool = False
    """Whether to accept any certificate."""
    tls_server_name: str = ""
    """The name to expect in its certificate; empty means the URL's host."""


class KubeconfigContext(msgspec.Struct, frozen=True):
    """A context of a kubeconfig: the names of a cluster and a user."""

    cluster: str = ""
    user: str = ""


class Kubeconfig(msgspec.Struct, frozen=True):
    """A kubeconfig: users, clusters and contexts by name."""

    users: Mapping[str, KubeconfigUser] = msgspec.field(default_factory=dict)
    servers: Mapping[str, KubeconfigCluster] = msgspec.field(default_factory=dict)
    contexts: Mapping[str, KubeconfigContext] = msgspec.field(default_factory=dict)
    current_context: str = ""
    """The name of the context to use."""


class _NamedUser(msgspec.Struct, frozen=True):
    name: str = ""
    user: KubeconfigUser = KubeconfigUser()


class _NamedServer(msgspec.Struct, frozen=True):
    name: str = ""
    cluster: KubeconfigCluster = KubeconfigCluster()


class _NamedContext(msgspec.Struct, frozen=True):
    name: str = ""
    context: KubeconfigContext = KubeconfigContext()


class _Document(msgspec.Struct, frozen=True):
    kind: str = "Config"
    api_version: str = msgspec.field(default="v1", name="apiVersion")
    users: tuple[_NamedUser, ...] = ()
    clusters: tuple[_NamedServer, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()
    current_context: str = msgspec.field(default="", name="current-context")


_Entry = TypeVar("_Entry", _NamedUser, _NamedServer, _NamedContext)
_Value = TypeVar("_Value")


def load_kubeconfig(path: Path) -> Kubeconfig:
    """Load a kubeconfig file; an empty one has no users.

    Raises:
        ConfigurationError: it cannot be read, or is not a kubeconfig. The text names file and field, and never contains
            a field's value.
    """
    try:
        document = next(read_file(str(path)), None)
    except InputError as error:
        raise ConfigurationError(str(error)) from None
    try:
        return read_kubeconfig(document.data if document else {}, path.absolute().parent)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path}: {error}") from None


def read_kubeconfig(data: JSON, folder: Path) -> Kubeconfig:
    """Read a parsed kubeconfig; relative paths start at ``folder``.

    Raises:
        ConfigurationError: it is not a kubeconfig; the text names the field.
    """
    try:
        document = msgspec.convert(_without_nulls(data), prepared(_Document))
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"not a kubeconfig: {error}") from None
    if (document.kind, document.api_version) != ("Config", "v1"):
        raise ConfigurationError("not a kubeconfig: expected kind Config and apiVersion v1")
    return Kubeconfig(
        _by_name("users", document.users, lambda entry: _with_absolute_user_paths(entry.user, folder)),
        _by_name(
            "clusters", document.clusters, lambda entry: _with_absolute_cluster_paths(entry.cluster, folder)
        ),
        _by_name("contexts", document.contexts, lambda entry: entry.context),
        document.current_context,
    )


def _without_nulls(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {key: _without_nulls(member) for key, member in value.items() if member is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _by_name(
    field: str, entries: Iterable[_Entry], value_of: Callable[[_Entry], _Value]
) -> dict[str, _Value]:
    values: dict[str, _Value] = {}
    for entry in entries:
        if entry.name in values:
            raise ConfigurationError(f"{field}: duplicate name {go_quoted(entry.name)}")
        values[entry.name] = value_of(entry)
    return values


def _with_absolute_user_paths(user: KubeconfigUser, folder: Path) -> KubeconfigUser:
    return msgspec.structs.replace(
        user,
        token_file=_absolute(user.token_file, folder),
        client_certificate=_absolute(user.client_certificate, folder),
        client_key=_absolute(user.client_key, folder),
    )


def _with_absolute_cluster_paths(server: KubeconfigCluster, folder: Path) -> KubeconfigCluster:
    return msgspec.structs.replace(
        server, certificate_authority=_absolute(server.certificate_authority, folder)
    )


def _absolute(path: str, folder: Path) -> str:
    return str(folder / path) if path else ""


_NO_CONFIGURATION = "no configuration has been provided, try setting KUBERNETES_MASTER environment variable"


class ResolvedContext(msgspec.Struct, frozen=True):
    """The server to call, and the user to call it as."""

    server: KubeconfigCluster
    user_name: str
    """The user's name in the kubeconfig; empty for an anonymous client."""
    user: KubeconfigUser


def resolve_current_context(kubeconfig: Kubeconfig) -> ResolvedContext:
    """Find the cluster and user of the current context.

    Raises:
        ConfigurationError: the context is missing or incomplete, or a file that it names cannot be read.
    """
    context = _current_context(kubeconfig)
    if context.cluster not in kubeconfig.servers:
        raise ConfigurationError(f"invalid configuration: {_NO_CONFIGURATION}")
    # As in Kubernetes, a context without a user means an anonymous client.
    if context.user and context.user not in kubeconfig.users:
        raise ConfigurationError(f"auth info {go_quoted(context.user)} does not exist")
    found = ResolvedContext(
        kubeconfig.servers[context.cluster],
        context.user,
        kubeconfig.users.get(context.user, KubeconfigUser()),
    )
    errors = [*_user_errors(context.user, found.user), *_cluster_errors(context.cluster, found.server)]
    if errors:
        raise ConfigurationError(f"invalid configuration: {aggregate(errors)}")
    return found


def _current_context(kubeconfig: Kubeconfig) -> KubeconfigContext:
    name = kubeconfig.current_context
    if not name:
        raise ConfigurationError(f"invalid configuration: {_NO_CONFIGURATION}")
    if name not in kubeconfig.contexts:
        raise ConfigurationError(f"context was not found for specified context: {name}")
    return kubeconfig.contexts[name]


def _user_errors(name: str, user: KubeconfigUser) -> Iterable[str]:
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


def _cluster_errors(name: str, server: KubeconfigCluster) -> Iterable[str]:
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
