"""NamespaceAutoProvision: creates a missing namespace when something is created in it.

Source: ``plugin/pkg/admission/namespace/autoprovision/admission.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import MUTATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import Rule
from pratique.apimachinery.errors import CallError, RefusalError
from pratique.cluster import store
from pratique.cluster.store import ObjectStore, ReloadableCluster


async def mutate(review: Review) -> Answer:
    """Create the namespace if it does not exist. The reviewed object stays as it is."""
    if review.dry_run or not store.is_in_namespace(review):
        return allow()
    # Services show the namespace as if it existed; a live cluster must really get it.
    current = review.cluster.current if isinstance(review.cluster, ReloadableCluster) else review.cluster
    is_live = isinstance(current, ObjectStore) and bool(current.source)
    if (current if is_live else review.cluster).get("", "namespaces", review.namespace) is not None:
        return allow()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": review.namespace}}
    try:
        # create() also succeeds if another request has created it meanwhile.
        await store.create_object(review.cluster, namespace)
    except RefusalError as error:
        if error.status.reason == "Forbidden":
            return deny(status=error.status)
        return deny(error.status.message)
    except CallError as error:
        return deny(str(error))
    return allow()


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate)


CONTROLLER = Controller(
    name="NamespaceAutoProvision",
    summary="Creates the namespace of a new object if it does not exist.",
    phases=MUTATE,
    rules=(Rule(("CREATE",), ("*",), ("*",), ("*/*",), "*"),),
    build=_build,
    looks_up=("namespaces",),
    trusted=True,
)
