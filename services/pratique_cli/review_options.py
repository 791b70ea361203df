"""The flags that say what a manifest asks of the API server: the rest of its request."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import click

from pratique.admission.reviews import Operation, impersonated_user
from pratique.manifests.requests import KUBECTL_USER
from pratique_cli.options import ExistingPath, flag
from pratique_cli.reviews.inputs import load_old
from pratique_cli.reviews.requests import RequestShape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pratique.admission.reviews import UserInfo
    from pratique.cluster.store import ObjectStore

REQUEST_PARAMETERS = ("operation", "subresource", "old", "namespace", "user", "group", "dry_run")
"""The names of the flags, in the order of the help."""

_REQUEST_OPTIONS = (
    flag(
        "--operation",
        type=click.Choice(Operation, case_sensitive=False),
        metavar=f"[{'|'.join(Operation)}]",
        default=Operation.CREATE,
        show_default=True,
        help="What is done with the object. CONNECT needs --subresource.",
    ),
    flag(
        "--subresource",
        metavar="NAME",
        default="",
        help="What of the object is asked for: status, scale, exec, eviction, token, …",
    ),
    flag(
        "--old",
        type=ExistingPath(),
        multiple=True,
        help="The objects as they are stored before an UPDATE or DELETE: a file or a folder. Repeatable. Of what is"
        " not there, what the run has admitted and --cluster have.",
    ),
    flag(
        "--namespace",
        metavar="NAME",
        help="Where objects go that name no namespace; others have to name this one.  [default: default]",
    ),
    flag(
        "--user",
        metavar="NAME",
        help=f"Who asks, as kubectl --as has it.  [default: {KUBECTL_USER.username}]",
    ),
    flag("--group", metavar="NAME", multiple=True, help="A group that --user is in. Repeatable."),
    flag("--dry-run", is_flag=True, help="Ask for a dry run: nothing is remembered for the next review."),
)


def request_flags(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add the flags to a command; it gets them as ``shape``, which makes a RequestShape for a cluster."""

    @functools.wraps(callback)
    def gather(**values: Any) -> Any:
        asked = {name: values.pop(name) for name in REQUEST_PARAMETERS}
        return callback(shape=functools.partial(_request_shape, **asked), **values)

    return functools.reduce(lambda command, add: add(command), reversed(_REQUEST_OPTIONS), gather)


def _request_shape(
    cluster: ObjectStore,
    *,
    operation: Operation,
    subresource: str,
    old: Sequence[Path],
    namespace: str | None,
    user: str | None,
    group: Sequence[str],
    dry_run: bool,
) -> RequestShape:
    """Make the shape of requests to a cluster; its definitions say what kinds ``--old`` may hold."""
    return RequestShape(
        operation=operation,
        subresource=subresource,
        old=load_old(old, cluster.resources, namespace) if old else None,
        namespace=namespace or None,
        user=_requesting_user(user, group),
        dry_run=dry_run,
    )


def _requesting_user(name: str | None, groups: Sequence[str]) -> UserInfo:
    if name:
        return impersonated_user(name, groups)
    if groups:
        raise click.UsageError("--group says which groups --user is in: name a user, too")
    return KUBECTL_USER
