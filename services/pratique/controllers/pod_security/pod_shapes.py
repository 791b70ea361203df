"""Pods and workloads' templates as checks see them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_errors import go_kind
from pratique.pods.containers import CONTAINER_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.apimachinery.json_values import JSON, JSONObject


class MistypedError(InputError):
    """A member is of another type than its field. The text says which, in the words of Go's ``encoding/json``."""

    def __init__(self, value: JSON, name: str, wanted: str) -> None:
        """Say that ``value`` is not of the Go type ``wanted``."""
        super().__init__(
            f"json: cannot unmarshal {go_kind(value)} into Go struct field {name} of type {wanted}"
        )


def as_object(value: JSON, name: str) -> JSONObject:
    """An object; an empty one where there is none.

    Raises:
        MistypedError: it is something else.
    """
    if value is None:
        return _EMPTY_OBJECT
    if isinstance(value, dict):
        return value
    raise MistypedError(value, name, "object")


_EMPTY_OBJECT: JSONObject = {}


def objects(holder: JSONObject, name: str) -> list[JSONObject]:
    """The objects of a list; none where there is no list.

    Raises:
        MistypedError: it is no list, or holds something else.
    """
    return [as_object(item, name) for item in _list(holder, name)]


def texts(holder: JSONObject, name: str) -> list[str]:
    """The texts of a list; none where there is no list.

    Raises:
        MistypedError: it is no list, or holds something else.
    """
    return [as_text(item, name) for item in _list(holder, name)]


def _list(holder: JSONObject, name: str) -> list[JSON]:
    value = holder.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise MistypedError(value, name, "array")


def flag(holder: JSONObject, name: str) -> bool | None:
    """A boolean; None where there is none.

    Raises:
        MistypedError: it is something else.
    """
    value = holder.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise MistypedError(value, name, "bool")


def integer(holder: JSONObject, name: str) -> int | None:
    """A whole number; None where there is none.

    Raises:
        MistypedError: it is something else.
    """
    value = holder.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise MistypedError(value, name, "int64")


def text(holder: JSONObject, name: str) -> str:
    """A text; empty where there is none.

    Raises:
        MistypedError: it is something else.
    """
    return as_text(holder.get(name), name)


def as_text(value: JSON, name: str) -> str:
    """A text; empty where there is none.

    Raises:
        MistypedError: it is something else.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise MistypedError(value, name, "string")


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedContainer:
    """A container of whatever kind."""

    name: str
    document: JSONObject
    security: JSONObject
    """Its ``securityContext``, empty where it has none."""


@dataclasses.dataclass(frozen=True, slots=True)
class CheckedPod:
    """A Pod, or the template of Pods to come."""

    annotations: JSONObject
    spec: JSONObject
    security: JSONObject
    """Its ``securityContext``, empty where it has none."""
    containers: tuple[CheckedContainer, ...]
    """Init containers, containers and ephemeral containers."""
    is_template: bool = False
    """True where it is no Pod yet."""

    @property
    def is_windows(self) -> bool:
        """True where it says that it is for Windows."""
        return text(as_object(self.spec.get("os"), "os"), "name") == "windows"

    @property
    def has_own_users(self) -> bool:
        """True where it runs in a user namespace, so that its root is nobody on the host."""
        return flag(self.spec, "hostUsers") is False


def read_pod(pod: JSONObject, *, is_template: bool = False) -> CheckedPod:
    """Read a Pod or a template.

    Raises:
        MistypedError: a member is of another type than its field.
    """
    metadata = as_object(pod.get("metadata"), "metadata")
    spec = as_object(pod.get("spec"), "spec")
    return CheckedPod(
        annotations=as_object(metadata.get("annotations"), "annotations"),
        spec=spec,
        security=as_object(spec.get("securityContext"), "securityContext"),
        containers=tuple(_containers(spec)),
        is_template=is_template,
    )


def _containers(spec: JSONObject) -> Iterator[CheckedContainer]:
    for field in CONTAINER_FIELDS:
        for document in objects(spec, field):
            security = as_object(document.get("securityContext"), "securityContext")
            yield CheckedContainer(text(document, "name"), document, security)
