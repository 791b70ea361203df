"""Initializers: new objects wait for those who have to complete them before anybody else may see them.

Source: ``k8s.io/apiserver/pkg/admission/plugin/initialization/initialization.go`` and
``…/configuration/initializer_manager.go`` of 1.13, the last release that had it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.admission.controllers import MUTATE, Controller, Handlers, NoSettings
from pratique.admission.edits import Edits
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import Rule
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status
from pratique.cluster.authorization import AuthorizationAttributes
from pratique.cluster.store import Cluster
from pratique.pods import pod_spec

_CONFIGURATIONS = ("admissionregistration.k8s.io", "initializerconfigurations")
_PATH = ("metadata", "initializers")
_FIELD = ROOT / "metadata" / "initializers"
_IMMUTABLE = "field is immutable"


def mutate(review: Review) -> Answer:
    """Say who is to complete a new object; see that only they change it before they have."""
    if not isinstance(member(review.object, "metadata"), dict):
        return allow()  # what has no metadata cannot wait for anybody
    return _create(review) if review.operation is Operation.CREATE else _update(review)


def _create(review: Review) -> Answer:
    edits = Edits(review.object)
    existing = edits.get(_PATH)
    wanted = None if _is_mirror(review) else _initializers_for(review.cluster, review.resource)
    if existing is None:
        if wanted:
            edits.set(_PATH, wanted)
        return edits.answer()
    if existing == wanted:
        return allow()  # as this controller has left it: the chain may run a second time
    refusal = _authorization_error(review, "create with initializers denied")
    if refusal is not None:
        return deny(status=refusal)
    if _is_empty(existing):
        edits.remove(_PATH)
    return edits.answer()


def _update(review: Review) -> Answer:
    edits = Edits(review.object)
    if _is_empty(edits.get(_PATH)):
        edits.remove(_PATH)
    updated, existing = edits.get(_PATH), member(review.old_object, *_PATH)
    if updated is None and existing is None:
        return edits.answer()
    errors = _transition_errors(updated, existing)
    if errors:
        kind = review.kind
        return deny(status=statuses.invalid(kind.group, kind.kind, review.name, errors))
    refusal = _authorization_error(review, "update to uninitialized resource denied")
    return edits.answer() if refusal is None else deny(status=refusal)


def _is_mirror(review: Review) -> bool:
    """True for the Pod that shows what a kubelet runs already."""
    is_pod = (review.kind.group, review.kind.kind) == ("", "Pod")
    return is_pod and member(review.object, "metadata", "annotations", pod_spec.MIRROR_ANNOTATION) is not None


def _is_empty(initializers: JSON) -> bool:
    """True where the structure is there and says nothing: nobody is waited for."""
    if not isinstance(initializers, dict):
        return False
    return not initializers.get("pending") and _initialization_result(initializers) is None


def _initialization_result(initializers: JSON) -> JSONObject | None:
    found = member(initializers, "result")
    return found if isinstance(found, dict) else None


def _initializers_for(cluster: Cluster, resource: GroupVersionResource) -> JSON:
    """What a new object gets, from all configurations in the order of their names; None where nobody is named."""
    pending = [
        {"name": initializer.get("name", "")}
        for configuration in cluster.list(*_CONFIGURATIONS)
        for initializer in configuration.get("initializers") or ()
        if _matches(initializer.get("rules") or (), resource)
    ]
    return {"pending": pending} if pending else None


def _matches(rules: Sequence[JSONObject], resource: GroupVersionResource) -> bool:
    """True where there are rules, and every one of them matches."""
    return bool(rules) and all(
        _entries_match(rule.get("apiGroups"), resource.group)
        and _entries_match(rule.get("apiVersions"), resource.version)
        and _entries_match(rule.get("resources"), resource.resource, everything=("*", "*/*"))
        for rule in rules
    )


def _entries_match(entries: JSON, value: str, everything: tuple[str, ...] = ("*",)) -> bool:
    """True where the first entry means everything, or any entry is the value."""
    return bool(entries) and (entries[0] in everything or value in entries)


def _transition_errors(updated: JSON, existing: JSON) -> list[FieldError]:
    """What is wrong with a change of what an object waits for.

    Source: ``k8s.io/apimachinery/pkg/api/validation/objectmeta.go`` ``ValidateInitializersUpdate`` of 1.13.
    """
    if existing is None:
        return [invalid(_FIELD, "null", "field is immutable once initialization has completed")]
    before, after = _initialization_result(existing), _initialization_result(updated)
    if updated is None or before == after:
        return []
    if before is not None:
        return [invalid(_FIELD / "result", "null" if after is None else after, _IMMUTABLE)]
    status = member(after, "status") or ""
    return [] if status == "Failure" else [invalid(_FIELD / "result" / "status", status, "must be 'Failure'")]


def _authorization_error(review: Review, text: str) -> Status | None:
    """Ask whether the user may initialize such objects; None where he may."""
    resource = review.resource
    decision = review.authorizer.authorize(
        AuthorizationAttributes(
            user=review.user,
            verb="initialize",
            group=resource.group,
            resource=resource.resource,
            namespace=review.namespace,
            name=review.name,
        )
    )
    if decision.error:
        return statuses.plain_error(decision.error)
    if decision.allowed:
        return None
    # Kubernetes does not fall back to the object's own name here.
    return statuses.forbidden(resource.group, resource.resource, review.name, f"{text}: {decision.reason}")


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate)


CONTROLLER = Controller(
    name="Initializers",
    summary="Makes new objects wait for the initializers that InitializerConfigurations name for them.",
    phases=MUTATE,
    rules=(Rule(("CREATE", "UPDATE"), ("*",), ("*",), ("*",), "*"),),
    build=_build,
    looks_up=("initializerconfigurations",),
    removed_in="1.14",
    replaced_by="MutatingAdmissionWebhook",
    trusted=True,
)
