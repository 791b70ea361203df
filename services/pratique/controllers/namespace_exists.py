"""NamespaceExists: nothing happens in a namespace that is not there.

Source: ``plugin/pkg/admission/namespace/exists/admission.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import namespaces, statuses
from pratique.answers import Answer, allow, deny
from pratique.controllers.namespace_lifecycle import LaggingCluster
from pratique.definitions import VALIDATE, Controller, Halves, NoSettings
from pratique.errors import CallError
from pratique.rules import Rule

if TYPE_CHECKING:
    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject
    from pratique.reviews import Review


async def validate(review: Review) -> Answer:
    """Refuse where the namespace does not exist."""
    if not namespaces.is_inside(review):
        return allow()
    try:
        namespace = await _find(review.cluster, review.namespace)
    except CallError as error:
        return deny(status=statuses.internal_error(str(error)))
    if namespace is None:
        return deny(status=statuses.not_found("", "namespaces", review.namespace))
    return allow()


async def _find(cluster: Cluster, name: str) -> JSONObject | None:
    """Look a namespace up, in storage where a cache does not know it."""
    namespace = cluster.get("", "namespaces", name)
    if namespace is None and isinstance(cluster, LaggingCluster):
        return await cluster.get_live("", "namespaces", name)
    return namespace


def _build(_: NoSettings) -> Halves:
    return Halves(validate=validate)


CONTROLLER = Controller(
    name="NamespaceExists",
    summary="Refuses whatever is to be created, updated or deleted in a namespace that does not exist.",
    phases=VALIDATE,
    rules=(Rule(("CREATE", "UPDATE", "DELETE"), ("*",), ("*",), ("*/*",), "*"),),
    build=_build,
    looks_up=("namespaces",),
    trusted=True,
)
