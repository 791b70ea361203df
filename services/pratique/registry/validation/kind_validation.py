"""How the validation of a kind is written down.

The objects that are validated are decoded and defaulted, in the version whose field paths the API server's own
validation prints: the newest stable version of the kind. They have no nulls, and every value has its field's type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.field_errors import FieldError
from pratique.apimachinery.json_values import JSONObject


class AllocationError(PratiqueError):
    """The API server fails to give out what an object asks for, before it validates the object: 500."""


class TooMuchWorkError(PratiqueError):
    """Nobody holds an object against a schema that makes this so much work."""


Errors: TypeAlias = Iterable[FieldError]
"""Field errors in the order in which the API server finds them."""


def _no_warnings(_object: JSONObject, _old: JSONObject | None, _review: Review) -> Iterable[str]:
    return ()


class KindValidation(msgspec.Struct, frozen=True):
    """The validation of one kind, as its strategy calls it.

    Source: ``Validate``, ``ValidateUpdate``, ``WarningsOnCreate`` and ``WarningsOnUpdate`` of
    ``k8s.io/apiserver/pkg/registry/rest/{create,update}.go``.
    """

    create: Callable[[JSONObject, Review], Errors]
    """Validates a new object."""
    update: Callable[[JSONObject, JSONObject, Review], Errors]
    """Validates the new object against the stored one; may raise :class:`AllocationError`."""
    warnings: Callable[[JSONObject, JSONObject | None, Review], Iterable[str]] = _no_warnings
    """What kubectl prints after ``Warning:``; the stored object is None on CREATE."""


ValidationTable: TypeAlias = Mapping[tuple[str, str], KindValidation]
"""Validations by API group and resource, such as ``("apps", "deployments")``."""


def _no_update_warnings(_object: JSONObject, _old: JSONObject, _review: Review) -> Iterable[str]:
    return ()


class SubresourceValidation(msgspec.Struct, frozen=True):
    """The validation of an update of a subresource, after that of common metadata.

    Metadata is validated before, by what all updates have in common: ``validateCommonFields``.
    """

    update: Callable[[JSONObject, JSONObject, Review], Errors]
    """Validates the new object against the stored one."""
    warnings: Callable[[JSONObject, JSONObject, Review], Iterable[str]] = _no_update_warnings
    """What kubectl prints after ``Warning:``."""


SubresourceTable: TypeAlias = Mapping[tuple[str, str, str], SubresourceValidation]
"""Validations by API group, resource and subresource, such as ``("apps", "deployments", "status")``."""
