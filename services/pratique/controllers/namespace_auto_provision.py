"""NamespaceAutoProvision: a namespace comes into being when something is to be created in it.

Source: ``plugin/pkg/admission/namespace/autoprovision/admission.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import clusters, namespaces
from pratique.answers import Answer, allow, deny
from pratique.definitions import MUTATE, Controller, Halves, NoSettings
from pratique.errors import CallError, RefusalError
from pratique.rules import Rule

if TYPE_CHECKING:
    from pratique.reviews import Review


async def mutate(review: Review) -> Answer:
    """Create the namespace where it does not exist; the reviewed object stays as it is."""
    if review.dry_run or not namespaces.is_inside(review):
        return allow()
    if review.cluster.get("", "namespaces", review.namespace) is not None:
        return allow()
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": review.namespace}}
    try:
        # That it is there after all, because another request was faster, is as good.
        await clusters.create(review.cluster, namespace)
    except RefusalError as error:
        if error.status.reason == "Forbidden":
            return deny(status=error.status)
        return deny(error.status.message)
    except CallError as error:
        return deny(str(error))
    return allow()


def _build(_: NoSettings) -> Halves:
    return Halves(mutate=mutate)


CONTROLLER = Controller(
    name="NamespaceAutoProvision",
    summary="Creates the namespace of whatever is created, where it does not exist.",
    phases=MUTATE,
    rules=(Rule(("CREATE",), ("*",), ("*",), ("*/*",), "*"),),
    build=_build,
    looks_up=("namespaces",),
    trusted=True,
)
