"""Initializers: hides new objects until every initializer has completed them.

Source: ``k8s.io/apiserver/pkg/admission/plugin/initialization/initialization.go`` and
``…/configuration/initializer_manager.go`` of 1.13, the last release that had it.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.admission.controllers import MUTATE, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Edits, allow, deny
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
    """Set the initializers of a new object, and let only initializers update it until they are done."""
    if not isinstance(member(review.object, "metadata"), dict):
        return allow()  # an object without metadata cannot have initializers
    return _create(review) if review.operation is Operation.CREATE else _update(review)


def _create(review: Review) -> Answer:
    edits = Edits(review.object)
    existing = edits.get(_PATH)
    initializers = None if _is_mirror(review) else _initializers_for(review.cluster, review.resource)
    if existing is None:
        if initializers:
            edits.set(_PATH, initializers)
        return edits.answer()
    if existing == initializers:
        return allow()  # set by this controller before: the chain may run a second time
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
    """Whether the object is a mirror Pod, which a kubelet runs already."""
    is_pod = (review.kind.group, review.kind.kind) == ("", "Pod")
    return is_pod and member(review.object, "metadata", "annotations", pod_spec.MIRROR_ANNOTATION) is not None


def _is_empty(initializers: JSON) -> bool:
    """Whether the structure is present but waits for nothing."""
    if not isinstance(initializers, dict):
        return False
    return not initializers.get("pending") and _initialization_result(initializers) is None


def _initialization_result(initializers: JSON) -> JSONObject | None:
    result = member(initializers, "result")
    return result if isinstance(result, dict) else None


def _initializers_for(cluster: Cluster, resource: GroupVersionResource) -> JSON:
    """The initializers of a new object, from all configurations in the order of their names; None if there are none."""
    pending = [
        {"name": initializer.get("name", "")}
        for configuration in cluster.list(*_CONFIGURATIONS)
        for initializer in configuration.get("initializers") or ()
        if _matches(initializer.get("rules") or (), resource)
    ]
    return {"pending": pending} if pending else None


def _matches(rules: Sequence[JSONObject], resource: GroupVersionResource) -> bool:
    """Whether there are rules and all of them match."""
    return bool(rules) and all(
        _entries_match(rule.get("apiGroups"), resource.group)
        and _entries_match(rule.get("apiVersions"), resource.version)
        and _entries_match(rule.get("resources"), resource.resource, everything=("*", "*/*"))
        for rule in rules
    )


def _entries_match(entries: JSON, value: str, everything: tuple[str, ...] = ("*",)) -> bool:
    """Whether the first entry is a wildcard or any entry equals the value."""
    return bool(entries) and (entries[0] in everything or value in entries)


def _transition_errors(updated: JSON, existing: JSON) -> list[FieldError]:
    """The errors in a change of an object's initializers.

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
    """Why the user may not initialize such objects; None if they may."""
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
    may_look_up=("roles", "rolebindings", "clusterroles", "clusterrolebindings"),
    removed_in="1.14",
    replaced_by="MutatingAdmissionWebhook",
    trusted=True,
)
