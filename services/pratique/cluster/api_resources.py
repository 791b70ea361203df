"""The resources of an API server: the collection each kind is stored in, its scope, and its subresources.

Built-in resources come from ``resources.json``, others from CustomResourceDefinitions. Source of the latter:
``k8s.io/apiextensions-apiserver``: ``pkg/apis/apiextensions/{v1,v1beta1}`` (types and defaults),
``pkg/apis/apiextensions/validation/validation.go`` (required fields) and
``pkg/apiserver/customresource_handler.go`` (what is registered). Schemas and conversion are not read here.
"""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.field_errors import ROOT, FieldPath, invalid, join, not_supported, required
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType, kind_of
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.served_versions import is_served_beside

CRD_GROUP = "apiextensions.k8s.io"
CRD_RESOURCE = "customresourcedefinitions"

_SPEC_PATH = ROOT / "spec"
_SCOPES = ("Cluster", "Namespaced")
_SCALE = GroupVersionKind("autoscaling", "v1", "Scale")


class _Subresources(msgspec.Struct, frozen=True):
    status: dict[str, object] | None = None
    scale: dict[str, object] | None = None


class _DefinitionVersion(msgspec.Struct, frozen=True):
    name: str = ""
    served: bool = False
    subresources: _Subresources | None = None


class _DefinitionNames(msgspec.Struct, frozen=True):
    plural: str = ""
    kind: str = ""


class _DefinitionSpec(msgspec.Struct, frozen=True):
    group: str = ""
    names: _DefinitionNames = _DefinitionNames()
    scope: str = ""
    versions: tuple[_DefinitionVersion, ...] = ()
    version: str = ""
    subresources: _Subresources | None = None


class _DefinitionMetadata(msgspec.Struct, frozen=True):
    name: str = ""


class _Definition(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    metadata: _DefinitionMetadata = _DefinitionMetadata()
    spec: _DefinitionSpec = _DefinitionSpec()


def types_of_definition(definition: JSONObject) -> Iterator[ResourceType]:
    """The collections and subresources that a CustomResourceDefinition defines, in its order.

    They include unserved versions, which an API server registers as equivalents.

    Raises:
        ConfigurationError: the definition is malformed; the message names the field as the API server does.
    """
    try:
        read = msgspec.convert(definition, prepared(_Definition))
    except msgspec.ValidationError as error:
        raise ConfigurationError(_field_error_text(str(error))) from None
    spec = _with_v1beta1_defaults(read.spec) if read.api_version.endswith("/v1beta1") else read.spec
    _check_definition(read.metadata.name, spec)
    for version in spec.versions:
        yield from _types_of_version(spec, version)


def _types_of_version(spec: _DefinitionSpec, version: _DefinitionVersion) -> Iterator[ResourceType]:
    kind = GroupVersionKind(spec.group, version.name, spec.names.kind)
    subresources = version.subresources or spec.subresources or _Subresources()
    kinds = {"": kind}
    if subresources.status is not None:
        kinds["status"] = kind
    if subresources.scale is not None:
        kinds["scale"] = _SCALE
    for name, subresource_kind in kinds.items():
        yield ResourceType(
            resource=GroupVersionResource(spec.group, version.name, spec.names.plural),
            subresource=name,
            kind=subresource_kind,
            namespaced=spec.scope == "Namespaced",
            served=version.served,
        )


def _with_v1beta1_defaults(spec: _DefinitionSpec) -> _DefinitionSpec:
    """Fill in v1beta1's defaults: scope Namespaced, and ``version`` as the single served version."""
    versions = spec.versions
    if not versions and spec.version:
        versions = (_DefinitionVersion(spec.version, served=True),)
    return msgspec.structs.replace(spec, scope=spec.scope or "Namespaced", versions=versions)


def _check_definition(name: str, spec: _DefinitionSpec) -> None:
    errors = [required(path) for path, value in _required_fields(spec) if not value]
    if spec.scope and spec.scope not in _SCOPES:
        errors.append(not_supported(_SPEC_PATH / "scope", spec.scope, _SCOPES))
    if name != f"{spec.names.plural}.{spec.group}":
        detail = 'must be spec.names.plural+"."+spec.group'
        errors.append(invalid(ROOT / "metadata" / "name", name, detail))
    if errors:
        raise ConfigurationError(join(errors))


def _required_fields(spec: _DefinitionSpec) -> Iterator[tuple[FieldPath, object]]:
    yield _SPEC_PATH / "group", spec.group
    yield _SPEC_PATH / "names" / "plural", spec.names.plural
    yield _SPEC_PATH / "names" / "kind", spec.names.kind
    yield _SPEC_PATH / "scope", spec.scope
    yield _SPEC_PATH / "versions", spec.versions
    for index, version in enumerate(spec.versions):
        yield _SPEC_PATH / "versions" / index / "name", version.name


def _field_error_text(text: str) -> str:
    """Reword msgspec's ``Expected `str`, got `int` - at `$.spec.group``` as ``spec.group: expected …``."""
    problem, _, path = text.partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".") or "the definition"
    return f"{field}: {problem[0].lower()}{problem[1:]}"


# difflib's ratio: "Deploymnt" is similar enough to "Deployment", "ServiceMonitor" is not to "Service".
_SIMILARITY_CUTOFF = 0.75


def nearest_kind(kind: GroupVersionKind, known: Iterable[ResourceType]) -> GroupVersionKind | None:
    """The known kind that was probably meant; None if none is close.

    A kind of the same name in another group or version is nearest. Case does not matter, and plurals count.
    """
    creatable = [known_type for known_type in known if known_type.served and not known_type.subresource]
    names = {known_type.kind.kind.lower(): known_type.kind.kind for known_type in creatable}
    names |= {known_type.resource.resource: known_type.kind.kind for known_type in creatable}
    close = difflib.get_close_matches(kind.kind.lower(), names, n=1, cutoff=_SIMILARITY_CUTOFF)
    close = close or _swapped(kind.kind.lower(), names)
    if not close:
        return None
    named = [known_type for known_type in creatable if known_type.kind.kind == names[close[0]]]
    return min(named, key=lambda known_type: _distance(known_type, kind)).kind


def _swapped(written: str, names: Iterable[str]) -> list[str]:
    """The names with the same letters in another order: ``pdo`` is too short to be similar to ``pod``."""
    letters = sorted(written[:_LONGEST_KIND])
    return [name for name in names if sorted(name) == letters]


_LONGEST_KIND = 64
"""Letters of a kind that are compared: what is written as a kind may be of any length."""


def unknown_kind(kind: GroupVersionKind, known: Iterable[ResourceType]) -> str:
    """The error for an unknown kind, in kubectl's words, with a hint."""
    known = tuple(known)
    hint = _hint(kind, known)
    return f'no matches for kind "{kind.kind}" in version "{kind.api_version}": {hint}'


_KUSTOMIZE_GROUP = "kustomize.config.k8s.io"


def _hint(kind: GroupVersionKind, known: tuple[ResourceType, ...]) -> str:
    if kind.group == _KUSTOMIZE_GROUP:
        return "it is read by kustomize, and never sent to an API server: take what kubectl kustomize writes"
    parents = [f"{t.resource.resource}/{t.subresource}" for t in known if t.subresource and t.kind == kind]
    if parents:
        return f"it is the kind of a subresource ({', '.join(parents)}), not of an object of its own"
    nearest = nearest_kind(kind, known)
    of_group = {known_type.kind.kind for known_type in known if known_type.kind.group == kind.group}
    if nearest is not None and (of_group or nearest.kind == kind.kind):
        return f'did you mean kind "{nearest.kind}" in version "{nearest.api_version}"?'
    if of_group:
        return f"the kinds of that group are {', '.join(sorted(of_group))}"
    return "if it is a custom resource, add its CustomResourceDefinition: by --crds in a review, else by --cluster"


def _distance(candidate: ResourceType, wanted: GroupVersionKind) -> tuple[bool, bool, bool]:
    """A sort key for kinds of the right name: current ones first, then the same group, then the same version."""
    kind = candidate.kind
    return candidate.removed_in is not None, kind.group != wanted.group, kind.version != wanted.version


# Collections that share their storage with one in another group, and the group they are stored under:
# pkg/kubeapiserver/default_storage_factory_builder.go AddCohabitatingResources.
_COHABITATING_GROUPS = {
    ("extensions", "daemonsets"): "apps",
    ("extensions", "deployments"): "apps",
    ("extensions", "replicasets"): "apps",
    ("extensions", "ingresses"): "networking.k8s.io",
    ("extensions", "networkpolicies"): "networking.k8s.io",
    ("extensions", "podsecuritypolicies"): "policy",
    ("events.k8s.io", "events"): "",
}


def storage_group(group: str, resource: str) -> str:
    """The group that a collection is stored under: ``apps`` for ``extensions`` Deployments."""
    return _COHABITATING_GROUPS.get((group, resource), group)


class ApiResources:
    """The kinds of an API server, their collections, and which collections are equivalent. Immutable."""

    __slots__ = ("_by_kind", "_by_resource", "_equivalents")

    def __init__(self, types: Iterable[ResourceType]) -> None:
        """Register ``types`` in order; the first of two for one collection wins."""
        self._by_kind: dict[GroupVersionKind, ResourceType] = {}
        self._by_resource: dict[tuple[GroupVersionResource, str], ResourceType] = {}
        self._equivalents: dict[tuple[str, str, str], tuple[GroupVersionResource, ...]] = {}
        for type_ in types:
            self._register(type_)

    def _register(self, new: ResourceType) -> None:
        at = (new.resource, new.subresource)
        if at in self._by_resource:
            return
        self._by_resource[at] = new
        if new.served and not new.subresource:
            self._by_kind.setdefault(new.kind, new)
        same = _storage_key(new.resource, new.subresource)
        self._equivalents[same] = (*self._equivalents.get(same, ()), new.resource)

    def __iter__(self) -> Iterator[ResourceType]:
        """All collections and subresources, in the order of registration."""
        return iter(self._by_resource.values())

    def for_kind(self, kind: GroupVersionKind) -> ResourceType | None:
        """The collection of a kind; None if the kind is unknown."""
        return self._by_kind.get(kind)

    def for_resource(self, resource: GroupVersionResource, subresource: str = "") -> ResourceType | None:
        """The type of a collection or subresource; None if it is unknown."""
        return self._by_resource.get((resource, subresource))

    def for_object(self, document: JSON) -> ResourceType:
        """The collection of an object.

        Raises:
            InputError: the object has no kind, or an unknown one; the message suggests the nearest.
        """
        kind = kind_of(document)
        found = self.for_kind(kind)
        if found is None:
            raise InputError(unknown_kind(kind, self))
        return found

    def versions(self, group: str, resource: str) -> tuple[str, ...]:
        """All versions of a collection in its own group, the preferred one first, including removed ones."""
        return tuple(
            type_.resource.version
            for type_ in self._by_resource.values()
            if (type_.resource.group, type_.resource.resource, type_.subresource) == (group, resource, "")
        )

    def equivalents(
        self, resource: GroupVersionResource, subresource: str = ""
    ) -> tuple[GroupVersionResource, ...]:
        """The collections equivalent to one, including itself, in the order of registration.

        These are all its versions, and those of its namesakes in groups that share its storage
        (``k8s.io/apimachinery/pkg/runtime/mapper.go``), including removed versions;
        :mod:`pratique.cluster.served_versions` tells which of them an API server serves together.
        """
        return self._equivalents.get(_storage_key(resource, subresource), ())

    def with_crds(self, definitions: Iterable[JSONObject]) -> ApiResources:
        """A new catalogue with the collections of CustomResourceDefinitions (v1 or v1beta1) added.

        Raises:
            ConfigurationError: a definition is malformed; the message names the field.
        """
        # They are registered last, so a definition cannot replace a built-in collection.
        added = [type_ for definition in definitions for type_ in types_of_definition(definition)]
        return ApiResources([*self, *added]) if added else self

    def of_subresource_kind(self, kind: GroupVersionKind, subresource: str) -> tuple[ResourceType, ...]:
        """The subresources of a name that accept a kind: ``pods/eviction`` for an Eviction."""
        return tuple(
            type_
            for type_ in self._by_resource.values()
            if type_.subresource == subresource and type_.kind == kind
        )


def _storage_key(resource: GroupVersionResource, subresource: str) -> tuple[str, str, str]:
    name = resource.resource
    return storage_group(resource.group, name), name, subresource


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """A row of ``resources.json``."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    removed_in: str | None
    subresources: dict[str, str]


class _ResourcesFile(msgspec.Struct, frozen=True):
    """``resources.json``."""

    resources: list[_Row]


@functools.cache
def built_in_resources() -> ApiResources:
    """The resources of Kubernetes itself, loaded on first use."""
    raw = Path(__file__).with_name("resources.json").read_bytes()
    rows = msgspec.json.decode(raw, type=prepared(_ResourcesFile)).resources
    return ApiResources(type_ for row in rows for type_ in _types_of_row(row))


def _types_of_row(row: _Row) -> Iterator[ResourceType]:
    resource = GroupVersionResource(row.group, row.version, row.resource)
    for name, written in {"": row.kind, **row.subresources}.items():
        group, version, kind = written.split("/") if "/" in written else (row.group, row.version, written)
        yield ResourceType(
            resource=resource,
            subresource=name,
            kind=GroupVersionKind(group, version, kind),
            namespaced=row.namespaced,
            removed_in=row.removed_in,
        )


VIRTUAL_RESOURCES = frozenset(
    {
        ("authentication.k8s.io", "selfsubjectreviews"),
        ("authentication.k8s.io", "tokenreviews"),
        ("authorization.k8s.io", "localsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectaccessreviews"),
        ("authorization.k8s.io", "selfsubjectrulesreviews"),
        ("authorization.k8s.io", "subjectaccessreviews"),
    }
)
"""Groups and resources that are exempt from webhooks and policies, because a broken one would lock everybody out."""


def rest_mappings(
    api_version: str, kind: str, resources: ApiResources, asked: GroupVersionResource
) -> Sequence[ResourceType]:
    """The collections of a kind that an API server serves, one version of each: ``RESTMappings``.

    Args:
        api_version: As written. Without a version, it means all versions of the group.
        kind: As written, or in lower case.
        resources: The known resources.
        asked: The resource of the current request, which implies the API server's release.

    Raises:
        InputError: the API server does not serve the kind. The message is its REST mapper's.
    """
    group, version = _parse_group_version(api_version)
    found = {
        type_.resource.resource: type_
        for type_ in resources
        if type_.served
        and not type_.subresource
        and (type_.kind.group, type_.kind.version) == (group, version or type_.kind.version)
        and kind in {type_.kind.kind, type_.kind.kind.lower()}
        and is_served_beside(resources, type_, asked)
    }
    if not found:
        where = f"{group}/{version}" if group else version
        raise InputError(f"no matches for kind {go_quoted(kind)} in version {go_quoted(where)}")
    return tuple(found.values())


def _parse_group_version(api_version: str) -> tuple[str, str]:
    """Split as ``schema.ParseGroupVersion`` does, which allows an empty group or version."""
    if api_version.count("/") > 1:
        raise InputError(f"unexpected GroupVersion string: {api_version}")
    group, _, version = api_version.rpartition("/")
    return group, version
