"""NamespaceExists: denies requests in a namespace that does not exist.

Source: ``plugin/pkg/admission/namespace/exists/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import VALIDATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import Rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster import store
from pratique.cluster.store import Cluster
from pratique.controllers.namespace_lifecycle import LaggingCluster


async def validate(review: Review) -> Answer:
    """Deny if the namespace does not exist."""
    if not store.is_in_namespace(review):
        return allow()
    try:
        namespace = await _find_namespace(review.cluster, review.namespace)
    except CallError as error:
        return deny(status=statuses.internal_error(str(error)))
    if namespace is None:
        return deny(status=statuses.not_found("", "namespaces", review.namespace))
    return allow()


async def _find_namespace(cluster: Cluster, name: str) -> JSONObject | None:
    """Look up a namespace, in storage if the cache does not know it."""
    namespace = cluster.get("", "namespaces", name)
    if namespace is None and isinstance(cluster, LaggingCluster):
        return await cluster.get_live("", "namespaces", name)
    return namespace


def _build(_: NoSettings) -> Handlers:
    return Handlers(validate=validate)


CONTROLLER = Controller(
    name="NamespaceExists",
    summary="Denies creations, updates and deletions in a namespace that does not exist.",
    phases=VALIDATE,
    rules=(Rule(("CREATE", "UPDATE", "DELETE"), ("*",), ("*",), ("*/*",), "*"),),
    build=_build,
    looks_up=("namespaces",),
    trusted=True,
)
