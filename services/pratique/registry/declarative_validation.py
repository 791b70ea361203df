"""Declarative validation: the checks that Kubernetes declares by tags of its types, ``+k8s:…``.

Every strategy of a built-in kind makes them after its handwritten validation, in the version of the request. With
the feature gates of 1.37, the errors of standard and beta tags count, and those of alpha ones do not. A beta error
takes the place of a handwritten one that is marked as covered
(:func:`~pratique.apimachinery.field_errors.covered`), if kind, path and origin are the same; an invalid value without
an origin is never replaced. What remains of the handwritten errors comes first.

Validators of kinds need know nothing of this, except to mark what the source marks ``MarkCoveredByDeclarative``, with
the origin of ``WithOrigin``. The object validation calls :func:`with_declared_errors` for all kinds.

Sources: ``k8s.io/apiserver/pkg/registry/rest/validate.go`` ``ValidateDeclarativelyWithMigrationChecks`` and
``k8s.io/apimachinery/pkg/api/validate/errors.go``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from pratique.apimachinery.field_errors import FieldError, FieldErrorKind, MapKey, limited_texts
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.prepared_types import prepared
from pratique.cluster.go_types import go_type_of_kind
from pratique.registry.declarative_checks import Check, CheckCompiler, DeclaredError, Request
from pratique.registry.go_values import api_value

_OPTIONS: Mapping[str, bool] = {
    "CompositePodGroup": False,
    "DRAPartitionableDevicesType": False,
    "DRAWorkloadResourceClaims": False,
    "HPAScaleToZero": True,
    "InPlacePodVerticalScalingSchedulerPreemption": False,
    "PodGroupPreemptionPolicy": False,
    "TopologyAwareWorkloadScheduling": False,
    "WorkloadWithJob": False,
}
"""The feature gates that checks ask for, as they are by default in 1.37."""
_CREATE, _UPDATE = Request(is_update=False, options=_OPTIONS), Request(is_update=True, options=_OPTIONS)

_WITHOUT_DECLARATION = frozenset({"apiregistration.k8s.io", "apiextensions.k8s.io"})
"""Groups whose strategies make no declarative validation."""


class _Data(msgspec.Struct):
    kinds: dict[str, str]
    types: dict[str, list[list[Any]]]


@functools.cache
def _data() -> _Data:
    return msgspec.json.decode(
        Path(__file__).with_name("declarative.json").read_bytes(), type=prepared(_Data)
    )


@functools.cache
def _compiler() -> CheckCompiler:
    return CheckCompiler(_data().types)


@functools.cache
def _check_of(kind: GroupVersionKind) -> Check | None:
    name = _data().kinds.get(f"{kind.api_version}/{kind.kind}")
    return None if name is None else _compiler().of_type(name)


def validate_declaratively(
    kind: GroupVersionKind, written: JSONObject, old: JSONObject | None
) -> Sequence[DeclaredError]:
    """Make the checks that the tags of a kind declare.

    Args:
        kind: The kind in the version of the request.
        written: The object in that version, decoded and defaulted.
        old: The stored object in that version; None on CREATE.
    """
    check = _check_of(kind)
    if check is None:
        return ()
    return check(_CREATE if old is None else _UPDATE, (), written, old)


def with_declared_errors(
    handwritten: Sequence[FieldError], kind: GroupVersionKind, written: JSONObject, old: JSONObject | None
) -> list[FieldError]:
    """The errors of handwritten validation and those of tags, joined as the API server joins them.

    Args:
        handwritten: The errors of handwritten validation.
        kind: The kind in the version of the request.
        written: The object in that version, decoded and defaulted.
        old: The stored object in that version; None on CREATE.

    Raises:
        TooManyErrorsError: the handwritten errors are too long to be told.
    """
    declared = validate_declaratively(kind, written, old)
    if not handwritten and not declared:
        return []
    if kind.group in _WITHOUT_DECLARATION:
        return list(handwritten)
    beta = {_identity(found.error) for found in declared if found.is_beta}
    # Filtering drops what is told twice, as it makes one error of many and back.
    told: dict[str, FieldError] = {}
    for text, error in limited_texts(handwritten):
        if not (error.is_covered and _is_replaceable(error) and _identity(error) in beta):
            told.setdefault(text, error)
    return [*told.values(), *(_as_printed(found.error, kind) for found in declared)]


def _as_printed(error: FieldError, kind: GroupVersionKind) -> FieldError:
    """The error with a value that prints as Go writes it: with the fields of its type in their order."""
    if not isinstance(error.bad_value, dict):
        return error
    value_type = go_type_of_kind(kind)
    for step in error.path.steps:
        if value_type is None:
            return error
        is_item = isinstance(step, int | MapKey)
        value_type = value_type.items if is_item else value_type.fields[str(step)].type
    if value_type is None:
        return error
    return msgspec.structs.replace(error, bad_value=api_value(value_type, error.bad_value))


def _identity(error: FieldError) -> tuple[FieldErrorKind, str, str]:
    return error.kind, str(error.path), error.origin


def _is_replaceable(error: FieldError) -> bool:
    return error.kind is not FieldErrorKind.INVALID or bool(error.origin)
