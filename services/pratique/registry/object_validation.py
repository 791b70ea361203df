"""What an API server makes of an object, around and between the phases of admission.

Before the first phase it decodes the object strictly and fills in its defaults. After the last mutation it fills in
what mutations left out, lets the strategy of the kind prepare the object, and validates it. Validating controllers see
the result, which is what is stored.

Sources: ``k8s.io/apiserver/pkg/endpoints/handlers/{create,update}.go``, ``pkg/registry/rest/{create,update}.go`` and,
for custom resources, ``k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go``.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConversionError, PratiqueError
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    TooManyErrorsError,
    invalid,
    limited_errors,
)
from pratique.apimachinery.json_values import JSON, Document, JSONObject, mapping_at, member, split_duplicates
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.names import check_path_segment, with_namespace
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.cluster.api_resources import VIRTUAL_RESOURCES, storage_group
from pratique.cluster.conversion import convert
from pratique.cluster.go_types import go_type_of_kind
from pratique.cluster.schemas import built_in_schema
from pratique.cluster.store import with_namespace_defaults
from pratique.manifests.registry_strategies import name_of_created
from pratique.registry.declarative_validation import with_declared_errors
from pratique.registry.defaults.defaulting import with_defaults
from pratique.registry.go_values import as_printed
from pratique.registry.strategies.pod_strategies import app_armor_warnings
from pratique.registry.strategies.preparation import (
    as_read_back,
    prepare_for_validation,
    without_system_fields,
)
from pratique.registry.strategies.unconditional_updates import refused_update
from pratique.registry.strict_decoding import StrictDecodingError, decode
from pratique.registry.subresources import (
    custom_resource_of,
    is_scale,
    refused_creation,
    scaled_custom_resource,
    validate_scale,
)
from pratique.registry.validation.access_reviews import refused_review
from pratique.registry.validation.catalogue import subresource_validation_of, validation_of
from pratique.registry.validation.kind_validation import AllocationError, TooMuchWorkError
from pratique.registry.validation.metadata import (
    path_segment_name,
    validate_metadata,
    validate_metadata_update,
)

if TYPE_CHECKING:
    from pratique.registry.custom_resources.registry import CustomResourceRegistry


class ObjectRefusedError(PratiqueError):
    """An API server refuses the object before or after the mutating phase."""

    def __init__(self, status: Status, warnings: tuple[str, ...] = ()) -> None:
        super().__init__(status.message)
        self.status: Status = status
        """What the API server answers: 400 for what it cannot decode, 422 for what is invalid."""
        self.warnings = warnings
        """What it has warned of before."""


class StoredObject(msgspec.Struct, frozen=True):
    """An object as it is about to be stored."""

    review: Review
    """The review of it."""
    warnings: tuple[str, ...] = ()
    """What kubectl prints after ``Warning:``."""


_WRITES = frozenset({Operation.CREATE, Operation.UPDATE})


def skip_reason(review: Review) -> str:
    """Why nothing is made of the object of a review; empty if something is."""
    if review.operation not in _WRITES:
        return f"{review.operation} writes no object"
    document = review.object_document
    # What was received is an object, or null. It is not parsed here, because that may take long.
    if document.is_null or not (document.received_bytes or isinstance(document.data, dict)):
        return "there is no object"
    if is_custom(review) and _served_definition(review) is None:
        return f"no schema of {review.kind.kind} in {review.kind.api_version} is known"
    return ""


_DEPRECATED: Mapping[GroupVersionKind, str] = {
    GroupVersionKind("", "v1", "Endpoints"): "1.33+; use discovery.k8s.io/v1 EndpointSlice",
}
"""Stable kinds whose use is warned of, with the release and what to use: ``APILifecycleDeprecated``."""


def deprecation_warnings(review: Review) -> tuple[str, ...]:
    """What an API server warns of before it reads an object: ``k8s.io/apiserver/pkg/endpoints/deprecation``."""
    since = _DEPRECATED.get(review.kind)
    return (
        () if since is None else (f"{review.kind.api_version} {review.kind.kind} is deprecated in v{since}",)
    )


_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and may reject"
    " such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)


def owner_warnings(review: Review) -> tuple[str, ...]:
    """What an API server warns of when it drops owners that are there twice: ``dedupOwnerReferences``."""
    _, duplicates = _distinct_owners(review.object)
    return (_DUPLICATE_OWNERS.format(", ".join(duplicates)),) if duplicates else ()


def _distinct_owners(written: JSON) -> tuple[list[JSON], list[str]]:
    """The owners of an object, each once, and the UIDs of the others."""
    owners = member(written, "metadata", "ownerReferences")
    if not isinstance(owners, list):
        return [], []
    distinct, duplicates = split_duplicates(owners)
    return distinct, [str(member(owner, "uid") or "") for owner in duplicates]


def _with_distinct_owners(decoded: JSONObject) -> JSONObject:
    distinct, duplicates = _distinct_owners(decoded)
    if not duplicates:
        return decoded
    return {**decoded, "metadata": {**decoded["metadata"], "ownerReferences": distinct}}


def receive(review: Review) -> Review:
    """Decode the object of a review strictly, and fill in its namespace and its defaults; decode the stored object.

    Raises:
        ObjectRefusedError: one of them cannot be decoded; or the object names another namespace or name than the
            request, or updates without a resource version what needs one; or the resource has no updates.
    """
    if review.operation is Operation.UPDATE and _is_virtual(review):
        raise ObjectRefusedError(statuses.method_not_allowed())
    try:
        custom = _custom_resources(review)
        if custom is None:
            found = decode(review.kind, review.object_document, review.made_of)
            _check_numbers(review.kind, found.data)
            decoded = found.strictly()
        else:
            decoded = custom.decode(review.object_document)
    except StrictDecodingError as error:
        raise ObjectRefusedError(_undecodable(review, str(error))) from None
    placed = without_system_fields(review, _in_namespace(review, _with_distinct_owners(decoded)))
    refused = refused_update(review, is_custom=custom is not None)
    if refused is not None:
        raise ObjectRefusedError(refused)
    return _with_object(_with_decoded_stored(review), _defaulted(review, placed, review.made_of))


def _with_decoded_stored(review: Review) -> Review:
    """The review with the stored object as Go has it: nothing of the wrong type, no nulls, no unknown fields.

    An API server never stores anything else. Whoever sends a review may.
    """
    document = review.old_object_document
    if review.operation is not Operation.UPDATE or not isinstance(document.data, dict):
        return review
    custom = _custom_resources(review)
    try:
        if custom is None:
            decoded = decode(review.kind, document).data
            _check_numbers(review.kind, decoded)
        else:
            decoded = custom.decode_stored(document)
    except StrictDecodingError as error:
        raise ObjectRefusedError(_undecodable(review, str(error), "oldObject: ")) from None
    if decoded is document.data:
        return review
    return msgspec.structs.replace(review, old_object_document=Document.from_data(decoded).after(document))


_UNREGISTERED = 'no kind is registered for the type v1.Scale in scheme "pkg/runtime/scheme.go:111"'


def _undecodable(review: Review, problem: str, where: str = "") -> Status:
    """What an API server answers to what it cannot decode: ``transformDecodeError``.

    It does not find the kind of its own answer among custom resources, if that is a Scale.
    """
    kind = review.kind
    if is_scale(review) and custom_resource_of(review) is not None:
        return statuses.bad_request(_UNREGISTERED)
    return statuses.bad_request(
        f"{where}{kind.kind} in version {go_quoted(kind.version)} cannot be handled as a {kind.kind}: {problem}"
    )


_ROLLBACK = "deprecated.deployment.rollback.to"
_NUMBERS = {
    GroupVersionKind("apps", "v1", "DaemonSet"): "deprecated.daemonset.template.generation",
    GroupVersionKind("apps", "v1", "Deployment"): _ROLLBACK,
}
"""Annotations of a kind that are numbers in Kubernetes' internal version of it."""
_INTEGER = pattern(r"[+-]?[0-9]+")
_MAXIMUM, _MOST_DIGITS = 2**63 - 1, 19


def _check_numbers(kind: GroupVersionKind, decoded: JSONObject) -> None:
    """Refuse an annotation that is no number though an API server converts it into one."""
    name = _NUMBERS.get(kind)
    written = None if name is None else member(decoded, "metadata", "annotations", name)
    if not isinstance(written, str) or (name == _ROLLBACK and not written):
        return
    fault = "" if _INTEGER.fullmatch(written) else "invalid syntax"
    digits = written.lstrip("+-0")
    if not fault and (len(digits) > _MOST_DIGITS or int(digits or "0") > _MAXIMUM + written.startswith("-")):
        fault = "value out of range"
    if fault:
        start = f"failed to parse annotation[{name}]={written} as int64: " if name == _ROLLBACK else ""
        raise StrictDecodingError(f"{start}strconv.ParseInt: parsing {go_quoted(written)}: {fault}")


def _in_namespace(review: Review, decoded: JSONObject) -> JSONObject:
    """Name the request's namespace: ``EnsureObjectNamespaceMatchesRequestNamespace``."""
    is_namespace = (review.resource.group, review.resource.resource) == ("", "namespaces")
    namespace = "" if is_namespace else review.namespace
    own = member(decoded, "metadata", "namespace") or ""
    if own and namespace and own != namespace:
        message = "the namespace of the provided object does not match the namespace sent on the request"
        raise ObjectRefusedError(statuses.bad_request(message))
    if review.operation is Operation.UPDATE:
        name = member(decoded, "metadata", "name") or ""
        if not name:
            message = f"the name of the object ({review.name} based on URL) was undeterminable: name must be provided"
            raise ObjectRefusedError(statuses.bad_request(message))
        if name != review.name:
            message = f"the name of the object ({name}) does not match the name on the URL ({review.name})"
            raise ObjectRefusedError(statuses.bad_request(message))
    placed = with_namespace(decoded, namespace)
    return with_namespace_defaults(placed) if is_namespace else placed


def complete(review: Review, received: JSON = None) -> Review:
    """Fill in the defaults of what mutations have added to an object that had its defaults when it was received."""
    written = review.object
    if not isinstance(written, dict):
        return review
    return _with_object(review, _defaulted(review, written, received))


def store(review: Review, now: float) -> StoredObject:
    """Prepare and validate the object that an API server is about to store.

    Args:
        review: The review after the mutating phase.
        now: The time of creation, in seconds since 1970.

    Raises:
        ObjectRefusedError: it is invalid; the Status has every cause, in the API server's order.
    """
    stored = _stored(review)
    prepared = prepare_for_validation(_with_defaults_of_stored(review, stored), now)
    if stored is None and (review.subresource or _is_virtual(review)):
        refused = refused_creation(prepared) if review.subresource else refused_review(prepared)
        if refused is not None:
            raise ObjectRefusedError(refused)
        return StoredObject(prepared)
    scaled = scaled_custom_resource(prepared)
    if scaled is not None:
        store(scaled, now)
        return StoredObject(prepared)
    try:
        errors, warnings = _judged(prepared, stored)
    except AllocationError as error:
        raise ObjectRefusedError(statuses.plain_error(str(error))) from None
    except TooMuchWorkError:
        message = "Request entity too large: holding it against its schema takes too many steps"
        raise ObjectRefusedError(statuses.failure(413, "RequestEntityTooLarge", message)) from None
    except TooManyErrorsError as error:
        raise ObjectRefusedError(_invalid(review, prepared, (), str(error))) from None
    if errors:
        type_ = go_type_of_kind(_newest_kind(review))
        errors = errors if type_ is None else [as_printed(error, type_) for error in errors]
        raise ObjectRefusedError(_invalid(review, prepared, errors), _strategy_warnings(review))
    return StoredObject(as_read_back(prepared), (*_strategy_warnings(review), *warnings))


def _invalid(review: Review, prepared: Review, errors: Sequence[FieldError], text: str = "") -> Status:
    is_generated = member(prepared.object, "metadata", "generateName") and not review.name
    name = name_of_created(review, prepared.object) if is_generated else _name_of(review, prepared)
    return statuses.invalid(_group_of(review), review.kind.kind, name, errors, text)


def _is_virtual(review: Review) -> bool:
    """Whether objects of the resource are answered and never stored."""
    return (review.resource.group, review.resource.resource) in VIRTUAL_RESOURCES


def _strategy_warnings(review: Review) -> tuple[str, ...]:
    """What a strategy warns of while it prepares an object, and so of invalid ones, too."""
    is_pod = review.kind.kind == "Pod" and not review.kind.group and not review.subresource
    return tuple(app_armor_warnings(review.object)) if is_pod and review.operation is Operation.CREATE else ()


def _group_of(review: Review) -> str:
    """The API group that errors name."""
    resource = review.resource
    return review.kind.group if is_scale(review) else storage_group(resource.group, resource.resource)


def _with_defaults_of_stored(review: Review, stored: Review | None) -> Review:
    """The review with the defaults of the stored custom resource, of which updates of subresources keep the rest."""
    if stored is None or not review.subresource or stored.object is review.old_object:
        return review
    return msgspec.structs.replace(review, old_object_document=stored.object_document)


def _judged(review: Review, stored: Review | None) -> tuple[list[FieldError], tuple[str, ...]]:
    """The errors and the warnings of an object; ``stored`` has the one that it replaces, with its defaults.

    Raises:
        TooManyErrorsError: a built-in kind has too many errors.
    """
    written, old = _in_newest_version(review), None if stored is None else _in_newest_version(stored)
    custom = _custom_resources(review)
    if custom is not None:
        if review.subresource == "status" and old is not None:
            findings = custom.judge_status(written, old)
        else:
            findings = custom.judge(written, old)
        return list(findings.errors), tuple(findings.warnings)
    # Of custom resources, alternatives of a schema make errors that nobody is told.
    with limited_errors():
        return _judged_built_in(review, written, stored, old)


def _judged_built_in(
    review: Review, written: JSONObject, stored: Review | None, old: JSONObject | None
) -> tuple[list[FieldError], tuple[str, ...]]:
    if review.subresource and stored is not None and old is not None:
        return _judged_subresource(review, written, stored, old)
    resource = review.resource
    validation = validation_of(storage_group(resource.group, resource.resource), resource.resource)
    errors: list[FieldError] = []
    if validation is not None and old is None:
        errors += validation.create(written, review)
        errors += [] if errors else _unsafe_name(written)
    elif validation is not None and old is not None:
        errors += _validate_common_fields(review, written, old)
        errors += validation.update(written, old, review)
    errors = with_declared_errors(
        errors, review.kind, review.object, None if stored is None else stored.object
    )
    if errors or validation is None:
        return errors, ()
    return [], _limited(validation.warnings(written, old, review))


_MAX_WARNINGS = 1000
"""The most warnings of one object. Fewer are shown, as they have 4096 characters together. Each pair of ports may have
one."""


def _limited(warnings: Iterable[str]) -> tuple[str, ...]:
    return tuple(itertools.islice(warnings, _MAX_WARNINGS))


def _judged_subresource(
    review: Review, written: JSONObject, stored: Review, old: JSONObject
) -> tuple[list[FieldError], tuple[str, ...]]:
    """The errors and the warnings of an update of a subresource of a built-in kind."""
    errors: list[FieldError] = []
    if is_scale(review):
        errors += validate_scale(written)
        validation = None
    else:
        resource = review.resource
        group = storage_group(resource.group, resource.resource)
        validation = subresource_validation_of(group, resource.resource, review.subresource)
        errors += _validate_common_fields(review, written, old)
    if validation is not None:
        errors += validation.update(written, old, review)
    errors = with_declared_errors(errors, review.kind, review.object, stored.object)
    if errors or validation is None:
        return errors, ()
    return [], _limited(validation.warnings(written, old, review))


_METADATA = ROOT / "metadata"


def _name_of(review: Review, prepared: Review) -> str:
    return review.name or str(member(prepared.object, "metadata", "name") or "")


def _unsafe_name(written: JSONObject) -> list[FieldError]:
    """What of a name cannot stand in a path, which is asked of what is valid otherwise: ``ValidateCreate``."""
    name = member(written, "metadata", "name") or ""
    return [invalid(_METADATA / "name", name, message) for message in check_path_segment(name)]


def _validate_common_fields(review: Review, written: JSONObject, old: JSONObject) -> list[FieldError]:
    """Validate metadata before anything else, on updates of every kind: ``validateCommonFields``."""
    type_ = review.cluster.resources.for_resource(review.resource)
    is_namespaced = type_ is not None and type_.namespaced
    metadata = mapping_at(written, "metadata")
    errors = validate_metadata(metadata, path_segment_name, _METADATA, namespaced=is_namespaced)
    return errors + validate_metadata_update(metadata, mapping_at(old, "metadata"), _METADATA)


def _defaulted(review: Review, written: JSONObject, before: JSON = None) -> JSONObject:
    custom = _custom_resources(review)
    if custom is None:
        return with_defaults(review.kind, written, before)
    # The module is there: the custom resources have loaded it.
    from pratique.registry.custom_resources.pruning import MAXIMUM_DEFAULTS, TooManyDefaultsError  # noqa: PLC0415

    try:
        return custom.with_defaults(written)
    except TooManyDefaultsError:
        message = (
            f"Request entity too large: defaults of its definition add more than {MAXIMUM_DEFAULTS} values"
        )
        raise ObjectRefusedError(statuses.failure(413, "RequestEntityTooLarge", message)) from None


def _with_object(review: Review, changed: JSONObject) -> Review:
    if changed is review.object:
        return review
    return review.with_object(Document.from_data(changed).after(review.object_document))


_NEWEST_VERSIONS: Mapping[tuple[str, str], str] = {
    ("autoscaling", "horizontalpodautoscalers"): "v2",
    ("certificates.k8s.io", "podcertificaterequests"): "v1beta1",
}
"""The versions that kinds are validated in where that is not ``v1``, which may have fewer fields than others."""


def _newest_kind(review: Review) -> GroupVersionKind:
    kind = review.kind
    version = _NEWEST_VERSIONS.get((review.resource.group, review.resource.resource), "v1")
    newest = GroupVersionKind(kind.group, version, kind.kind)
    return kind if version == kind.version or built_in_schema(newest) is None else newest


def _in_newest_version(review: Review) -> JSONObject:
    document = review.object_document
    kind = _newest_kind(review)
    if kind == review.kind:
        written: JSONObject = document.data
        return written
    try:
        converted: JSONObject = convert(document, review.resource, kind, review.cluster).data
    except ConversionError as error:
        raise ObjectRefusedError(statuses.internal_error(str(error))) from None
    return converted


def _stored(review: Review) -> Review | None:
    """The review with the stored object in the place of the new one, and with its defaults; None on CREATE."""
    old = review.old_object
    if review.operation is not Operation.UPDATE or not isinstance(old, dict):
        return None
    return _with_object(review, _defaulted(review, old))


_MAX_REGISTRIES = 512
"""Versions of custom resources to remember: more than large clusters have, of some 100 KB each at most."""


class _Definition:
    """A definition as the key of a cache: stored objects are never changed in place."""

    __slots__ = ("data",)

    def __init__(self, data: JSONObject) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Definition) and self.data is other.data

    def __hash__(self) -> int:
        return id(self.data)


@functools.lru_cache(_MAX_REGISTRIES)
def _registry(definition: _Definition, version: str) -> CustomResourceRegistry:
    # Imported here, because it takes a tenth of a second, and most manifests are of built-in kinds.
    from pratique.registry.custom_resources.registry import CustomResourceRegistry  # noqa: PLC0415 - see above

    return CustomResourceRegistry(definition.data, version)


def is_custom(review: Review) -> bool:
    """Whether a review is of a custom resource, which takes as long as the rules of its definition."""
    return built_in_schema(review.kind) is None


def _served_definition(review: Review) -> JSONObject | None:
    """The definition of a custom resource; None if there is none that serves its version."""
    definition = custom_resource_of(review)
    if definition is None:
        return None
    versions = mapping_at(definition, "spec").get("versions")
    served = versions if isinstance(versions, list) else []
    return definition if any(member(version, "name") == review.kind.version for version in served) else None


def _custom_resources(review: Review) -> CustomResourceRegistry | None:
    """The registry of the custom resource that a review is of; None if its kind is built in or unknown."""
    if not is_custom(review):
        return None
    definition = _served_definition(review)
    return None if definition is None else _registry(_Definition(definition), review.kind.version)
