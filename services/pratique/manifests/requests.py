"""Manifests as reviews: the request that an API server gets when somebody applies a manifest.

Source: ``k8s.io/apiserver/pkg/endpoints/handlers/{create,update,delete}.go`` and ``…/handlers/rest.go`` (connections)
for what admission is given, and ``pkg/registry/rest/meta.go`` for the metadata that is wiped and filled in before that.
The status follows :mod:`pratique.manifests.registry_strategies`. Requests to subresources are in
:mod:`pratique.admission.subresources`.
"""

from __future__ import annotations

import functools
import uuid

import msgspec

from pratique.admission.reviews import Review
from pratique.admission.subresources import check_operation, subresource_object
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, NULL, Document, JSONObject, encode, mapping_at
from pratique.apimachinery.kinds import GroupVersionKind, ResourceType, kind_of
from pratique.apimachinery.names import (
    DEFAULT_NAMESPACE,
    generate_name_of,
    name_of,
    namespace_of,
    uuid5,
    with_namespace,
)
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.statuses import qualified_resource
from pratique.cluster.api_resources import ApiResources, unknown_kind
from pratique.cluster.store import ANY_NAMESPACE, Cluster, with_namespace_defaults
from pratique.cluster.typed_decoding import without_nulls
from pratique.manifests.registry_strategies import prepare_for_create, prepare_for_update

KUBECTL_USER = UserInfo(
    username="kubernetes-admin", groups=("kubeadm:cluster-admins", "system:authenticated")
)
"""The default user: the administrator that kubeadm writes into ``admin.conf``."""

_OPTIONS = {
    Operation.CREATE: "CreateOptions",
    Operation.UPDATE: "UpdateOptions",
    Operation.DELETE: "DeleteOptions",
}

_WRITES = frozenset({Operation.CREATE, Operation.UPDATE})

# Operations without an old object.
_WITHOUT_OLD_OBJECT = frozenset({Operation.CREATE, Operation.CONNECT})

# The fields that a CREATE may not set: rest.WipeObjectMetaSystemFields.
_SYSTEM_FIELDS = frozenset(
    {"creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid"}
)

# Virtual resources, which are never stored, need no name: TokenReview, SubjectAccessReview and the like.
_NAMELESS_GROUPS = frozenset({"authentication.k8s.io", "authorization.k8s.io"})

# The name space of the review uids made here; any fixed UUID would do.
_UID_NAMESPACE = uuid.UUID("6f1d7c52-6f0b-4a53-9d0e-8a2a4b7f6a11").bytes


class _RequestTarget(msgspec.Struct, frozen=True):
    """The collection, name and namespace that a manifest is sent to."""

    type: ResourceType
    name: str
    namespace: str

    @property
    def is_namespace(self) -> bool:
        """True for a Namespace, whose requests name itself as their namespace."""
        return (self.type.resource.group, self.type.resource.resource) == ("", "namespaces")

    def stored_in(self, cluster: Cluster) -> JSONObject | None:
        """The object stored there; None if there is none."""
        at = self.type.resource
        return cluster.get(at.group, at.resource, self.name, self.namespace)


def review_of_manifest(  # noqa: PLR0913 - a request has this many attributes besides the manifest
    manifest: JSON,
    resources: ApiResources,
    *,
    operation: Operation = Operation.CREATE,
    old: JSONObject | None = None,
    before: Cluster | None = None,
    namespace: str | None = None,
    user: UserInfo = KUBECTL_USER,
    dry_run: bool = False,
    subresource: str = "",
    cluster: Cluster = ANY_NAMESPACE,
    index: int = 0,
    object_validation: bool = False,
) -> Review:
    """Make the review of a manifest, as kubectl and the API server would.

    A namespaced object without a namespace goes to ``namespace`` (as in ``kubectl --namespace``), or to ``default``;
    the namespace of a cluster-scoped object is dropped. :func:`prepare_for_create` and :func:`prepare_for_update`
    decide on the status.

    For UPDATE and DELETE, ``old`` is the stored object; None means the one in ``before``, else the one in the
    cluster, else, for DELETE, the manifest.

    A ``subresource`` accepts a manifest of its own kind (an Eviction) or of the parent object (a Pod), see
    :mod:`pratique.admission.subresources`; a CONNECT always needs one.

    With ``object_validation``, the chain does what an API server does with the object, so that the review has it as it
    is written.

    The same manifest always makes the same review, ``uid`` included; ``index``, its index in the input,
    distinguishes equal manifests.

    Raises:
        InputError: the manifest is not a named object of a known kind, or the operation needs something that does not
            exist; the message says what would be right.
    """
    options = _options(operation, dry_run=dry_run)
    type_ = _type(manifest, subresource, resources)
    check_operation(type_, operation, resources)
    if type_.resource.group in _NAMELESS_GROUPS:
        manifest = {"metadata": {}, **manifest}
    as_written = object_validation and operation in _WRITES
    named = _readable(manifest) if as_written else manifest
    target = _target(named, type_, operation, namespace, needs_name=not as_written)
    if as_written and operation is Operation.UPDATE:
        target = target if before is None else _placed(target, before)
        target = target if old is None else _at(target, old)
    stored = old
    if operation not in _WITHOUT_OLD_OBJECT:
        stored = old or (before and target.stored_in(before)) or target.stored_in(cluster)
    if as_written:
        sent, sent_before = _as_written(manifest, stored, target, operation)
    else:
        sent, sent_before = _documents(manifest, stored, target, operation, resources)
    return Review(
        uid=_uid(manifest, operation, subresource, index, sent),
        operation=operation,
        kind=target.type.kind,
        resource=target.type.resource,
        subresource=subresource,
        name=target.name,
        namespace=target.name if target.is_namespace else target.namespace,
        user=user,
        object_document=sent,
        old_object_document=sent_before,
        options_document=options,
        dry_run=dry_run,
        cluster=cluster,
        object_validation=as_written,
    )


def _readable(manifest: JSONObject) -> JSONObject:
    """The manifest with what can be read of its metadata; what cannot is for the decoder to refuse."""
    metadata = mapping_at(manifest, "metadata")
    return {"metadata": {name: value for name, value in metadata.items() if isinstance(value, str)}}


def _target(
    manifest: JSONObject,
    type_: ResourceType,
    operation: Operation,
    asked_in: str | None,
    *,
    needs_name: bool = True,
) -> _RequestTarget:
    namespace = _namespace(manifest, asked_in) if type_.namespaced else ""
    if type_.resource.group in _NAMELESS_GROUPS or (operation is Operation.CREATE and not needs_name):
        return _RequestTarget(type_, name_of(manifest), namespace)
    return _RequestTarget(type_, _name(manifest, operation), namespace)


def _placed(target: _RequestTarget, before: Cluster) -> _RequestTarget:
    """The request to the one stored object of that name, whatever namespace the manifest has."""
    at = target.type.resource
    if not target.type.namespaced or target.stored_in(before) is not None:
        return target
    namesakes = [one for one in before.list(at.group, at.resource) if name_of(one) == target.name]
    return (
        msgspec.structs.replace(target, namespace=namespace_of(namesakes[0]))
        if len(namesakes) == 1
        else target
    )


def _at(target: _RequestTarget, old: JSONObject) -> _RequestTarget:
    """The request to where an object is stored, whatever the manifest calls itself."""
    namespace = namespace_of(old) if target.type.namespaced else ""
    return msgspec.structs.replace(
        target, name=name_of(old) or target.name, namespace=namespace or target.namespace
    )


def _as_written(
    manifest: JSONObject, stored: JSONObject | None, target: _RequestTarget, operation: Operation
) -> tuple[Document, Document]:
    """The object and the old object of a review in which the chain does what an API server does with objects."""
    sent = subresource_object(target.type, manifest) if target.type.subresource else manifest
    if operation is Operation.CREATE:
        return Document.from_data(sent), NULL
    before = _found(stored, target)
    if target.type.subresource:
        before = subresource_object(target.type, before)
    return Document.from_data(sent), Document.from_data(before)


def _documents(
    manifest: JSONObject,
    stored: JSONObject | None,
    target: _RequestTarget,
    operation: Operation,
    resources: ApiResources,
) -> tuple[Document, Document]:
    """The object and the old object of the review."""
    if operation is Operation.DELETE:
        return NULL, Document.from_data(stored or _decoded_object(manifest, target))
    if operation is Operation.UPDATE:
        return _update(manifest, stored, target, resources)
    read = _decoded_object(prepare_for_create(manifest, target.type, resources), target)
    return Document.from_data(subresource_object(target.type, _without_system_fields(read))), NULL


def _update(
    manifest: JSONObject, stored: JSONObject | None, target: _RequestTarget, resources: ApiResources
) -> tuple[Document, Document]:
    before = _found(stored, target)
    read = _decoded_object(prepare_for_update(manifest, before, target.type, resources), target)
    sent, sent_before = subresource_object(target.type, read), subresource_object(target.type, before)
    return Document.from_data(sent), Document.from_data(sent_before)


def _found(stored: JSONObject | None, target: _RequestTarget) -> JSONObject:
    if stored is None:
        collection = qualified_resource(target.type.resource.group, target.type.resource.resource)
        raise InputError(
            f'{collection} "{target.name}" not found: an UPDATE needs the object as it is stored, in --old or'
            " --cluster, or admitted before; 'kubectl get -o yaml' writes it for --old"
        )
    return stored


def _type(manifest: JSON, subresource: str, resources: ApiResources) -> ResourceType:
    kind = kind_of(manifest)
    if kind.kind.endswith("List") and isinstance(manifest.get("items"), list):
        raise InputError(f'kind "{kind.kind}" is a list: give each of its items as a document of its own')
    if not subresource:
        return resources.for_object(manifest)
    parent = resources.for_kind(kind)
    of_parent = parent and resources.for_resource(parent.resource, subresource)
    found = (of_parent,) if of_parent else resources.of_subresource_kind(kind, subresource)
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(f"{type_.resource.resource}/{subresource}" for type_ in found)
        raise InputError(
            f'kind "{kind.kind}" is that of {names}: give the object that it is of, or an AdmissionReview'
        )
    raise InputError(_not_a_subresource(kind, subresource, resources))


def _not_a_subresource(kind: GroupVersionKind, subresource: str, resources: ApiResources) -> str:
    parent = resources.for_kind(kind)
    if parent is None:
        return unknown_kind(kind, resources)
    takes = [t.subresource for t in resources if t.subresource and t.resource == parent.resource]
    collection = parent.resource.resource
    where = f"only to {', '.join(takes)}" if takes else f"only to {collection} itself"
    return f'kind "{kind.kind}" cannot be sent to {collection}/{subresource}: {where}'


def _name(manifest: JSONObject, operation: Operation) -> str:
    name = name_of(manifest)
    if name or (operation is Operation.CREATE and generate_name_of(manifest)):
        return name
    if operation is Operation.CREATE:
        raise InputError("metadata.name: Required value: name or generateName is required")
    raise InputError(f"metadata.name: Required value: {operation} needs the name of the object")


def _namespace(manifest: JSONObject, asked_in: str | None) -> str:
    own = namespace_of(manifest)
    if own and asked_in and own != asked_in:
        raise InputError(
            f'the namespace from the provided object "{own}" does not match the namespace "{asked_in}". '
            f"You must pass '--namespace={own}' to perform this operation."
        )
    return own or asked_in or DEFAULT_NAMESPACE


def _decoded_object(manifest: JSONObject, target: _RequestTarget) -> JSONObject:
    """The object as the API server decodes it: in its namespace, with defaults, and without nulls."""
    read = with_namespace(manifest, target.namespace)
    if b"null" in encode(read):
        read = without_nulls(kind_of(manifest), read)
    return with_namespace_defaults(read) if target.is_namespace else read


def _without_system_fields(read: JSONObject) -> JSONObject:
    # Most manifests set none of them, and then need no copy.
    if _SYSTEM_FIELDS.isdisjoint(read["metadata"]):
        return read
    metadata = {key: value for key, value in read["metadata"].items() if key not in _SYSTEM_FIELDS}
    return {**read, "metadata": metadata}


@functools.cache
def _options(operation: Operation, *, dry_run: bool) -> Document:
    if operation is Operation.CONNECT:
        if dry_run:
            raise InputError("dryRun is not supported: a CONNECT is carried out or is not made")
        return NULL
    options: JSONObject = {"kind": _OPTIONS[operation], "apiVersion": "meta.k8s.io/v1"}
    return Document.from_data(options | {"dryRun": ["All"]} if dry_run else options)


def _uid(manifest: JSONObject, operation: Operation, subresource: str, index: int, sent: Document) -> str:
    # Most manifests are sent as they are written, and then encoded only once.
    written = sent.raw if sent.data is manifest else encode(manifest)
    return uuid5(_UID_NAMESPACE, encode([index, operation, subresource])[:-1] + b"," + written + b"]")
