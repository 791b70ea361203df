"""What an API server's registry makes of an object between the two phases of admission.

Validating controllers see an object as it is about to be stored: with a uid, a creation time, and what the strategy of
its kind fills in or takes out. Behind an API server, the objects of the validating phase are like that already. Where
both phases run in one decision, nothing is between them but Pratique.

What an API server makes up at random is derived here, so that the same review is always decided alike.

Sources: ``Create`` and ``Update`` in ``k8s.io/apiserver/pkg/registry/generic/registry/store.go``,
``pkg/registry/rest/{meta,create,update}.go``, ``pkg/registry/*/*/strategy.go``,
``k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go`` and
``pkg/registry/core/serviceaccount/storage/token.go``.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import (
    JSON,
    Document,
    JSONObject,
    list_at,
    mapping_at,
    member,
    split_duplicates,
)
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import VIRTUAL_RESOURCES, storage_group
from pratique.cluster.schemas import built_in_schema
from pratique.cluster.typed_decoding import type_fault
from pratique.manifests import registry_strategies
from pratique.manifests.registry_strategies import derived_uid
from pratique.registry.custom_resources.internal_definitions import without_empty_items
from pratique.registry.defaults.defaulting import with_defaults
from pratique.registry.defaults.group_defaults import labelled_as_its_pods
from pratique.registry.strategies.disabled_fields import without_disabled_fields
from pratique.registry.strategies.object_strategies import (
    STRATEGIES,
    same_at,
    stored_autoscaler,
)
from pratique.registry.strategies.subresource_strategies import prepare_subresource

_WITHOUT_METADATA = VIRTUAL_RESOURCES | {("", "bindings"), ("", "componentstatuses")}
"""Resources that nothing is stored of, and whose objects get no uid."""

_MALFORMED = (AttributeError, KeyError, TypeError, ValueError)
"""What strategies raise at values of the wrong types, which an API server would not have decoded."""

_ADMISSION = "admissionregistration.k8s.io"
_SPEC = ("spec",)
_COUNTED: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "pods"): _SPEC,
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): _SPEC,
    ("apiextensions.k8s.io", "customresourcedefinitions"): _SPEC,
    ("apps", "daemonsets"): _SPEC,
    ("apps", "deployments"): ("spec", "metadata.annotations"),
    ("apps", "replicasets"): _SPEC,
    ("apps", "statefulsets"): _SPEC,
    ("autoscaling", "horizontalpodautoscalers"): _SPEC,
    ("batch", "cronjobs"): _SPEC,
    ("batch", "jobs"): _SPEC,
    ("discovery.k8s.io", "endpointslices"): ("addressType", "endpoints", "ports", "metadata.labels"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _SPEC,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _SPEC,
    ("lifecycle.k8s.io", "evictionrequests"): _SPEC,
    ("lifecycle.k8s.io", "evictions"): _SPEC,
    ("networking.k8s.io", "ingressclasses"): _SPEC,
    ("networking.k8s.io", "ingresses"): _SPEC,
    ("networking.k8s.io", "networkpolicies"): _SPEC,
    ("policy", "poddisruptionbudgets"): _SPEC,
    ("resource.k8s.io", "deviceclasses"): _SPEC,
    ("resource.k8s.io", "devicetaintrules"): _SPEC,
    ("resource.k8s.io", "resourceslices"): _SPEC,
    ("scheduling.k8s.io", "priorityclasses"): (),
    (_ADMISSION, "mutatingadmissionpolicies"): _SPEC,
    (_ADMISSION, "mutatingadmissionpolicybindings"): _SPEC,
    (_ADMISSION, "mutatingwebhookconfigurations"): ("webhooks",),
    (_ADMISSION, "validatingadmissionpolicies"): _SPEC,
    (_ADMISSION, "validatingadmissionpolicybindings"): _SPEC,
    (_ADMISSION, "validatingwebhookconfigurations"): ("webhooks",),
}
"""Built-in resources whose strategy counts changes in ``metadata.generation``, from 1, and the fields that count."""

_COUNTED_ON_UPDATE: Mapping[tuple[str, str], tuple[str, ...]] = {
    **_COUNTED,
    ("storage.k8s.io", "csidrivers"): _SPEC,
}


_OF_THE_SYSTEM = frozenset(
    {"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"}
)


def without_system_fields(review: Review, written: JSONObject) -> JSONObject:
    """An object as it arrives: created ones without what only an API server sets, and no owner named twice.

    Of managed fields, only those count that can be read, see :func:`_managed_fields`.

    Sources: ``WipeObjectMetaSystemFields`` and ``dedupOwnerReferences``.
    """
    metadata = written.get("metadata")
    if not isinstance(metadata, dict):
        return written
    kept = metadata
    is_created = review.operation is Operation.CREATE
    if is_created and not review.subresource and not _OF_THE_SYSTEM.isdisjoint(metadata):
        kept = {name: value for name, value in metadata.items() if name not in _OF_THE_SYSTEM}
    owners = kept.get("ownerReferences")
    if isinstance(owners, list) and len(owners) > 1:
        distinct, _ = split_duplicates(owners)
        kept = kept if len(distinct) == len(owners) else {**kept, "ownerReferences": distinct}
    if kept.get(_MANAGED) and review.kind.kind != "Scale" and not (review.subresource and is_created):
        managed = _managed_fields(review, kept[_MANAGED])
        kept = {name: value for name, value in kept.items() if name != _MANAGED}
        kept |= {_MANAGED: managed} if managed else {}
    return written if kept is metadata else {**written, "metadata": kept}


_MANAGED = "managedFields"


def _managed_fields(review: Review, sent: list[JSONObject]) -> list[JSONObject]:
    """Who manages which fields, as an API server goes on from: ``decodeLiveOrNew``.

    An update keeps the stored entries if it cannot read what is sent, or if it is one of a subresource.
    """
    if not review.subresource:
        if sent == [{}]:  # clears them
            return []
        if all(map(_is_readable, sent)):
            return sent
    stored = list_at(review.old_object, "metadata", _MANAGED)
    return stored if all(map(_is_readable, stored)) else []


def _is_readable(entry: JSON) -> bool:
    """Tell whether an entry of managed fields says who set fields, how, and of which version."""
    return (
        isinstance(entry, dict)
        and entry.get("operation") in ("Apply", "Update")
        and bool(entry.get("apiVersion"))
        and entry.get("fieldsType") == "FieldsV1"
    )


@functools.lru_cache(8)
def _time_text(seconds: int) -> str:
    """A time as it is stored. It is remembered, because many objects are made in one second."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def prepare_for_validation(review: Review, now: float) -> Review:
    """The review as validating controllers see it: with the object that is about to be stored.

    A uid or creation time that the object has already is kept, so nothing changes behind an API server.

    Args:
        review: The review after the mutating phase.
        now: The time of creation, in seconds since 1970.
    """
    written = review.object
    if not isinstance(written, dict) or not isinstance(written.get("metadata"), dict):
        return review
    prepared = _prepared(review, written, _time_text(int(now)))
    if prepared is written:
        return review
    return review.with_object(Document.from_data(prepared).after(review.object_document))


def as_read_back(review: Review) -> Review:
    """The review with its object as the API server answers: what was stored gets the defaults of the stored version.

    That differs for autoscalers in other versions than ``v2``, for Jobs whose templates had no labels before the
    strategy added those that they are selected by, and for definitions with something else than a schema for items.
    """
    written, kind = review.object, review.kind
    if kind.kind == "HorizontalPodAutoscaler" and kind.version != "v2" and not review.subresource:
        written = stored_autoscaler(review, written)
    elif kind.kind == "Job" and kind.group == "batch":
        written = labelled_as_its_pods(written)
    elif kind.kind == "CustomResourceDefinition":
        written = without_empty_items(written)
    if written is review.object:
        return review
    return review.with_object(Document.from_data(written).after(review.object_document))


def _prepared(review: Review, written: JSONObject, time: str) -> JSONObject:
    """Prepare an object; one that no API server could have decoded only gets its metadata."""
    if review.operation is Operation.CREATE:
        return _created(review, written, time)
    return _updated(review, written, time) if review.operation is Operation.UPDATE else written


def _created(review: Review, written: JSONObject, time: str) -> JSONObject:
    if review.subresource:
        is_token = review.concerns("", "serviceaccounts", "token")
        return _token_request(review, written, time) if is_token else written
    at = _storage(review)
    if at in _WITHOUT_METADATA:
        return written
    filled: JSONObject = {"uid": derived_uid(review.uid), "creationTimestamp": time}
    metadata = filled | {name: value for name, value in written["metadata"].items() if value is not None}
    if at in _COUNTED or built_in_schema(review.kind) is None:
        metadata["generation"] = 1
    named = {**written, "metadata": metadata}
    try:
        return prepare_for_create(review, named)
    except _MALFORMED:
        if not type_fault(review):
            raise
        return named


_SPEC_OF_POD = frozenset({"resize", "ephemeralcontainers"})
"""The subresources of Pods that change the specification."""


def _updated(review: Review, written: JSONObject, time: str) -> JSONObject:
    stored, kind = review.old_object, written.get("kind")
    if not isinstance(stored, dict) or stored.get("kind") != kind:
        return written
    if not review.subresource and _storage(review) in _WITHOUT_METADATA:
        return written
    prepare = _updated_subresource if review.subresource else _updated_object
    try:
        return prepare(review, written, with_defaults(review.kind, stored), time)
    except _MALFORMED:
        if not type_fault(review):
            raise
        return written


def _updated_object(review: Review, written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    return prepare_for_update(review, written, stored)


def _updated_subresource(review: Review, written: JSONObject, stored: JSONObject, time: str) -> JSONObject:
    prepared = prepare_subresource(review, written, stored, time)
    if prepared.get("kind") == "Scale":
        return prepared
    is_changed = review.subresource in _SPEC_OF_POD and not same_at(review.kind, _SPEC, prepared, stored)
    return _with_metadata_of(stored, prepared, is_changed=is_changed)


def _storage(review: Review) -> tuple[str, str]:
    resource = review.resource
    return storage_group(resource.group, resource.resource), resource.resource


def prepare_for_create(review: Review, written: JSONObject) -> JSONObject:
    """The object that a CREATE stores: ``PrepareForCreate``."""
    resources = review.cluster.resources
    type_ = resources.for_resource(review.resource)
    if type_ is not None:
        written = registry_strategies.prepare_for_create(written, type_, resources)
    return _by_strategy(review, written, None)


def _by_strategy(review: Review, written: JSONObject, stored: JSONObject | None) -> JSONObject:
    strategy = STRATEGIES.get(_storage(review))
    kept = without_disabled_fields(review.kind, written, stored)
    return kept if strategy is None else strategy(review, kept, stored)


def prepare_for_update(review: Review, written: JSONObject, stored: JSONObject) -> JSONObject:
    """The object that an UPDATE stores: ``BeforeUpdate`` and ``PrepareForUpdate``."""
    resources = review.cluster.resources
    type_ = resources.for_resource(review.resource)
    if type_ is not None:
        written = registry_strategies.prepare_for_update(written, stored, type_, resources)
    prepared = _by_strategy(review, written, stored)
    return _with_metadata_of(stored, prepared, is_changed=_is_changed(review, prepared, stored))


def _is_changed(review: Review, prepared: JSONObject, stored: JSONObject) -> bool:
    """Tell whether an update changes what a generation counts."""
    if built_in_schema(review.kind) is None:
        return _without_metadata(prepared) != _without_metadata(stored)
    fields = _COUNTED_ON_UPDATE.get(_storage(review), ())
    paths = [tuple(field.split(".")) for field in fields]
    if all(same_at(review.kind, path, prepared, stored) for path in paths):
        return False
    filled = with_defaults(review.kind, prepared)
    return not all(same_at(review.kind, path, filled, stored) for path in paths)


def _without_metadata(written: JSONObject) -> JSONObject:
    return {name: value for name, value in written.items() if name != "metadata"}


_FROM_STORED = ("creationTimestamp", "generation", "deletionTimestamp")
_FROM_STORED_IF_MISSING = ("uid", "resourceVersion")
_GRACE = "deletionGracePeriodSeconds"


def _with_metadata_of(stored: JSONObject, written: JSONObject, *, is_changed: bool) -> JSONObject:
    """Keep what no update changes, and count the changes: ``BeforeUpdate``."""
    before, own = mapping_at(stored, "metadata"), mapping_at(written, "metadata")
    if "generation" in own and not before.get("generation"):
        own = {name: value for name, value in own.items() if name != "generation"}
        written = {**written, "metadata": own}
    taken = {name: before[name] for name in _FROM_STORED if before.get(name)}
    taken |= {
        name: before[name] for name in _FROM_STORED_IF_MISSING if before.get(name) and not own.get(name)
    }
    if own.get(_GRACE) is None and before.get(_GRACE) is not None:
        taken[_GRACE] = before[_GRACE]
    generation = before.get("generation")
    if is_changed and isinstance(generation, int):
        taken["generation"] = generation + 1
    if all(own.get(name) == value for name, value in taken.items()):
        return written
    return {**written, "metadata": {**own, **taken}}


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
