"""Custom resources: the collections that a CustomResourceDefinition adds to an API server.

Source: ``k8s.io/apiextensions-apiserver``: ``pkg/apis/apiextensions/{v1,v1beta1}`` (types and defaults),
``pkg/apis/apiextensions/validation/validation.go`` (what is required) and
``pkg/apiserver/customresource_handler.go`` (what is registered).
Only what says how a resource is called and served is read; schemas and conversion are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.field_errors import ROOT, invalid, join, not_supported, required
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.apimachinery.field_errors import FieldPath
    from pratique.apimachinery.json_values import JSONObject

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
    """The collections and subresources that one CustomResourceDefinition defines, in its own order.

    Versions that are not served are among them: an API server registers those too, as equivalents.

    Raises:
        ConfigurationError: the definition is malformed; the text names the field as the API server does.
    """
    try:
        read = msgspec.convert(definition, _Definition)
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
    for name, its_kind in kinds.items():
        yield ResourceType(
            resource=GroupVersionResource(spec.group, version.name, spec.names.plural),
            subresource=name,
            kind=its_kind,
            namespaced=spec.scope == "Namespaced",
            served=version.served,
        )


def _with_v1beta1_defaults(spec: _DefinitionSpec) -> _DefinitionSpec:
    """What v1beta1 leaves out: scope Namespaced, and ``version`` for a list of one served version."""
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
    """Turn msgspec's ``Expected `str`, got `int` - at `$.spec.group``` into ``spec.group: expected …``."""
    problem, _, path = text.partition(" - at ")
    field = path.strip("`").removeprefix("$").removeprefix(".") or "the definition"
    return f"{field}: {problem[0].lower()}{problem[1:]}"
