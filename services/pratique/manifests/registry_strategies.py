"""What an API server's registry makes of an object between the two phases of admission.

Validating controllers see an object as it is about to be stored: with a uid, a creation time, and what the strategy of
its kind fills in or takes out. Behind an API server, the objects of the validating phase are like that already. Where
both phases run in one decision, nothing is between them but Pratique.

What an API server makes up at random is derived here, so that the same review is always decided alike.

Sources: ``create`` in ``k8s.io/apiserver/pkg/registry/generic/registry/store.go``, ``pkg/registry/rest/meta.go``,
``PrepareForCreate`` and ``PrepareForUpdate`` in ``pkg/registry/*/*/strategy.go`` and
``k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go``, and
``pkg/registry/core/serviceaccount/storage/token.go``.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, Document, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.names import RANDOM_ALPHABET, uuid5
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import VIRTUAL_RESOURCES, ApiResources, storage_group
from pratique.cluster.schemas import built_in_schema
from pratique.pods import pod_spec

# The name space of the uids made here; any fixed UUID would do.
_UID_NAMESPACE = uuid.UUID("0b7d5d0e-3c55-4c5c-8f0e-5f6a1f0e7a52").bytes

_GENERATED_LENGTH = 5
"""How many random characters an API server appends to a ``generateName``."""


def derived_uid(*parts: str) -> str:
    """A deterministic stand-in for the uid that an API server would generate."""
    return uuid5(_UID_NAMESPACE, "\n".join(parts).encode())


def safe_encoded(text: str) -> str:
    """Encode a text in an alphabet without vowels: ``rand.SafeEncodeString``."""
    return "".join(RANDOM_ALPHABET[byte % len(RANDOM_ALPHABET)] for byte in text.encode())


def name_of_created(review: Review, document: JSON) -> str:
    """The name of a created object; a deterministic one if the API server is yet to generate it."""
    name = review.name or member(document, "metadata", "name")
    if isinstance(name, str) and name:
        return name
    prefix = member(document, "metadata", "generateName")
    return f"{prefix or ''}{safe_encoded(derived_uid(review.uid))[:_GENERATED_LENGTH]}"


# A kubelet sets its Node's status on creation: nodeStrategy. The strategy of ServiceCIDRs ignores the status.
_STATUS_KEPT_ON_CREATE = frozenset({("", "nodes"), ("networking.k8s.io", "servicecidrs")})
_STATUS_KEPT_ON_UPDATE = frozenset({("networking.k8s.io", "servicecidrs")})


def prepare_for_create(written: JSONObject, type_: ResourceType, resources: ApiResources) -> JSONObject:
    """The object that a CREATE stores: without its status, if that belongs to a subresource."""
    if _group_resource(type_) in _STATUS_KEPT_ON_CREATE or not _has_status(type_, resources):
        return written
    return _with_status_of(written, {})


def prepare_for_update(
    written: JSONObject, stored: JSONObject, type_: ResourceType, resources: ApiResources
) -> JSONObject:
    """The object that an UPDATE stores: with the stored status, if that belongs to a subresource."""
    if _group_resource(type_) in _STATUS_KEPT_ON_UPDATE or not _has_status(type_, resources):
        return written
    return _with_status_of(written, stored)


def _with_status_of(written: JSONObject, other: JSONObject) -> JSONObject:
    if written.get("status") == other.get("status") and ("status" in written) == ("status" in other):
        return written
    kept = {key: value for key, value in written.items() if key != "status"}
    return {**kept, "status": other["status"]} if "status" in other else kept


def _has_status(type_: ResourceType, resources: ApiResources) -> bool:
    return not type_.subresource and resources.for_resource(type_.resource, "status") is not None


def _group_resource(type_: ResourceType) -> tuple[str, str]:
    return type_.resource.group, type_.resource.resource


_WITHOUT_METADATA = VIRTUAL_RESOURCES | {("", "bindings"), ("", "componentstatuses")}
"""Resources that nothing is stored of, and whose objects get no uid."""

_ADMISSION = "admissionregistration.k8s.io"
_WITH_GENERATION = frozenset(
    {
        ("", "pods"), ("", "podtemplates"), ("", "replicationcontrollers"), ("apiextensions.k8s.io",
        "customresourcedefinitions"), ("apps", "daemonsets"), ("apps", "deployments"), ("apps", "replicasets"),
        ("apps", "statefulsets"), ("autoscaling", "horizontalpodautoscalers"), ("batch", "cronjobs"), ("batch", "jobs"),
        ("discovery.k8s.io", "endpointslices"), ("flowcontrol.apiserver.k8s.io", "flowschemas"),
        ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"), ("networking.k8s.io", "ingressclasses"),
        ("networking.k8s.io", "ingresses"), ("networking.k8s.io", "networkpolicies"),
        ("policy", "poddisruptionbudgets"), ("resource.k8s.io", "deviceclasses"), ("resource.k8s.io",
        "devicetaintrules"), ("resource.k8s.io", "resourceslices"), ("scheduling.k8s.io", "priorityclasses"),
        (_ADMISSION, "mutatingadmissionpolicies"), (_ADMISSION, "mutatingadmissionpolicybindings"),
        (_ADMISSION, "mutatingwebhookconfigurations"), (_ADMISSION, "validatingadmissionpolicies"),
        (_ADMISSION, "validatingadmissionpolicybindings"), (_ADMISSION, "validatingwebhookconfigurations"),
    }
)  # fmt: skip
"""Built-in resources whose strategy sets ``metadata.generation`` to 1. Custom resources all have one."""


def prepare_for_validation(review: Review, now: dt.datetime) -> Review:
    """The review as validating controllers see it: with the object that is about to be stored.

    A uid or creation time that the object has already is kept, so nothing changes behind an API server.

    Args:
        review: The review after the mutating phase.
        now: The time of creation.
    """
    written = review.object
    if not isinstance(written, dict) or not isinstance(written.get("metadata"), dict):
        return review
    prepared = written
    if review.operation is Operation.CREATE:
        prepared = _created(review, written, now.strftime("%Y-%m-%dT%H:%M:%SZ"))
    elif review.operation is Operation.UPDATE:
        prepared = _with_stored_metadata(review, written if review.subresource else _updated(review, written))
    if prepared is written:
        return review
    return review.with_object(Document.from_data(prepared).after(review.object_document))


def _created(review: Review, written: JSONObject, time: str) -> JSONObject:
    resource = review.resource
    if review.subresource:
        is_token = review.concerns("", "serviceaccounts", "token")
        return _token_request(review, written, time) if is_token else written
    at = (storage_group(resource.group, resource.resource), resource.resource)
    if at in _WITHOUT_METADATA:
        return written
    type_ = review.cluster.resources.for_resource(resource)
    if type_ is not None:
        written = prepare_for_create(written, type_, review.cluster.resources)
    filled: JSONObject = {"uid": derived_uid(review.uid), "creationTimestamp": time}
    metadata = filled | {name: value for name, value in written["metadata"].items() if value is not None}
    if at in _WITH_GENERATION or built_in_schema(review.kind) is None:
        metadata["generation"] = 1
    strategy = _STRATEGIES.get(at)
    prepared = {**written, "metadata": metadata}
    return prepared if strategy is None else strategy(review, prepared)


def _updated(review: Review, written: JSONObject) -> JSONObject:
    type_, stored = review.cluster.resources.for_resource(review.resource), review.old_object
    if type_ is None or not isinstance(stored, dict):
        return written
    return prepare_for_update(written, stored, type_, review.cluster.resources)


_SPEC_PARTS = frozenset({"", "resize", "ephemeralcontainers"})
"""Objects, and the subresources of Pods that change the specification."""
_FROM_STORED = ("creationTimestamp", "generation", "deletionTimestamp")
_FROM_STORED_IF_MISSING = ("uid", "resourceVersion", "deletionGracePeriodSeconds")


def _with_stored_metadata(review: Review, written: JSONObject) -> JSONObject:
    """Take over what an update cannot change, and count the generation up if the specification changes.

    Sources: ``BeforeUpdate``, ``ValidateObjectMetaUpdate``, and ``PrepareForUpdate`` of the kinds.
    """
    stored = review.old_object
    if not isinstance(stored, dict) or stored.get("kind") != written.get("kind") or _is_scale(written):
        return written
    own, before = written["metadata"], mapping_at(stored, "metadata")
    taken = {name: before[name] for name in _FROM_STORED if before.get(name)}
    taken |= {
        name: before[name] for name in _FROM_STORED_IF_MISSING if before.get(name) and not own.get(name)
    }
    generation = before.get("generation")
    if isinstance(generation, int) and _changes_specification(review, written, stored):
        taken["generation"] = generation + 1
    if all(own.get(name) == value for name, value in taken.items()):
        return written
    return {**written, "metadata": {**own, **taken}}


def _is_scale(written: JSONObject) -> bool:
    return written.get("kind") == "Scale"


def _changes_specification(review: Review, written: JSONObject, stored: JSONObject) -> bool:
    if review.subresource not in _SPEC_PARTS:
        return False
    if built_in_schema(review.kind) is None:
        apart = {"metadata", "status"}
        return _without(written, apart) != _without(stored, apart)
    if any(written.get(name) != stored.get(name) for name in ("spec", "webhooks")):
        return True
    if not review.concerns("apps", "deployments"):
        return False
    return mapping_at(written, "metadata", "annotations") != mapping_at(stored, "metadata", "annotations")


def _without(value: JSONObject, names: set[str]) -> JSONObject:
    return {name: member for name, member in value.items() if name not in names}


_Strategy: TypeAlias = Callable[[Review, JSONObject], JSONObject]

_FINALIZER = "kubernetes"


def _namespace(_: Review, namespace: JSONObject) -> JSONObject:
    """Add the finalizer that keeps a Namespace until it is empty: ``namespaceStrategy``."""
    finalizers = list_at(namespace, "spec", "finalizers")
    if _FINALIZER not in finalizers:
        finalizers = [*finalizers, _FINALIZER]
    spec = mapping_at(namespace, "spec") | {"finalizers": finalizers}
    return {**namespace, "spec": spec, "status": {"phase": "Active"}}


_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


def _job(review: Review, job: JSONObject) -> JSONObject:
    """Let a Job select its Pods by its uid: ``generateSelector`` of ``jobStrategy``."""
    spec, template = mapping_at(job, "spec"), mapping_at(job, "spec", "template")
    if spec.get("manualSelector") is True:
        return job
    uid, name = job["metadata"]["uid"], name_of_created(review, job)
    own = {
        "job-name": name,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        _CONTROLLER_UID: uid,
    }
    metadata, selector = mapping_at(template, "metadata"), mapping_at(spec, "selector")
    labels = own | mapping_at(metadata, "labels")
    selected = {_CONTROLLER_UID: uid} | mapping_at(selector, "matchLabels")
    return {
        **job,
        "spec": {
            **spec,
            "selector": {**selector, "matchLabels": selected},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }


_LOCALHOST = "localhost/"
_APP_ARMOR_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
_MAX_PROFILE_LENGTH = 4095  # of a path in Linux: PATH_MAX - 1


def _pod(_: Review, pod: JSONObject) -> JSONObject:
    """Turn AppArmor annotations into fields: ``applyAppArmorVersionSkew`` of ``podStrategy``."""
    pod = {**pod, "status": {"phase": "Pending"}}
    if member(pod, "spec", "os", "name") == "windows" or not pod_spec.has_app_armor_annotation(pod):
        return pod
    annotations = mapping_at(pod, "metadata", "annotations")
    spec = mapping_at(pod, "spec")
    of_pod = member(spec, "securityContext", "appArmorProfile")
    containers = {
        field: [_with_app_armor(container, annotations, of_pod) for container in spec[field]]
        for field in ("initContainers", "containers", "ephemeralContainers")
        if isinstance(spec.get(field), list)
    }
    return {**pod, "spec": {**spec, **containers}}


def _with_app_armor(container: JSON, annotations: JSONObject, of_pod: JSON) -> JSON:
    profile = _app_armor_profile(
        annotations.get(f"{pod_spec.APP_ARMOR_ANNOTATION}{member(container, 'name')}")
    )
    own = member(container, "securityContext", "appArmorProfile")
    if profile is None or profile == of_pod or own is not None or not isinstance(container, dict):
        return container
    context = mapping_at(container, "securityContext")
    return {**container, "securityContext": {**context, "appArmorProfile": profile}}


def _app_armor_profile(annotation: JSON) -> JSONObject | None:
    """The field for an annotation: ``ApparmorFieldForAnnotation``; None if there is none, or it would be invalid."""
    if not isinstance(annotation, str):
        return None
    if annotation in _APP_ARMOR_TYPES:
        return {"type": _APP_ARMOR_TYPES[annotation]}
    name = annotation.removeprefix(_LOCALHOST)
    if name == annotation or not name or name.strip() != name or len(name.encode()) > _MAX_PROFILE_LENGTH:
        return None
    return {"type": "Localhost", "localhostProfile": name}


def _persistent_volume(_: Review, volume: JSONObject) -> JSONObject:
    return {**volume, "status": {"phase": "Pending"}}


_STRATEGIES: Mapping[tuple[str, str], _Strategy] = {
    ("", "namespaces"): _namespace,
    ("", "persistentvolumes"): _persistent_volume,
    ("", "pods"): _pod,
    ("batch", "jobs"): _job,
}

DEFAULT_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
"""The audience of tokens that ask for none, in a cluster that kubeadm made: an API server's own issuer."""


def _token_request(review: Review, request: JSONObject, time: str) -> JSONObject:
    """Fill in what a TokenRequest leaves out: ``TokenREST.Create``."""
    account = review.cluster.get("", "serviceaccounts", review.name, review.namespace)
    uid = member(account, "metadata", "uid") or derived_uid("serviceaccounts", review.namespace, review.name)
    filled = {"name": review.name, "namespace": review.namespace, "uid": uid}
    written = {name: value for name, value in request["metadata"].items() if value}
    spec = mapping_at(request, "spec")
    return {
        **{name: value for name, value in request.items() if name != "status"},
        "metadata": {**filled, **written, "creationTimestamp": time},
        "spec": {**spec, "audiences": list_at(spec, "audiences") or [DEFAULT_AUDIENCE]},
    }
