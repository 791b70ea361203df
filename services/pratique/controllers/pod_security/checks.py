"""Checks: what a check of the Pod Security Standards is, how it reads a Pod, and what it finds.

Source: ``k8s.io/pod-security-admission/policy/{checks,helpers,visitor}.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_reading import go_kind
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.pods.pod_spec import CONTAINER_FIELDS

if TYPE_CHECKING:
    from pratique.controllers.pod_security.standards import PodSecurityLevel


class MistypedError(InputError):
    """A field has the wrong type. The text names field and type in the words of Go's ``encoding/json``."""

    def __init__(self, value: JSON, name: str, wanted: str) -> None:
        """``wanted`` is the Go type that ``value`` should have."""
        super().__init__(
            f"json: cannot unmarshal {go_kind(value)} into Go struct field {name} of type {wanted}"
        )


def as_object(value: JSON, name: str) -> JSONObject:
    """The value as an object; empty for null.

    Raises:
        MistypedError: It has another type.
    """
    if value is None:
        return _EMPTY_OBJECT
    if isinstance(value, dict):
        return value
    raise MistypedError(value, name, "object")


_EMPTY_OBJECT: JSONObject = {}


def object_list(holder: JSONObject, name: str) -> list[JSONObject]:
    """The objects of a list; empty if the field is missing.

    Raises:
        MistypedError: It is not a list, or holds something else.
    """
    return [as_object(item, name) for item in _list(holder, name)]


def string_list(holder: JSONObject, name: str) -> list[str]:
    """The strings of a list; empty if the field is missing.

    Raises:
        MistypedError: It is not a list, or holds something else.
    """
    return [as_string(item, name) for item in _list(holder, name)]


def _list(holder: JSONObject, name: str) -> list[JSON]:
    value = holder.get(name)
    if value is None:
        return []
    if isinstance(value, list):
        return value
    raise MistypedError(value, name, "array")


def bool_field(holder: JSONObject, name: str) -> bool | None:
    """A boolean; None if the field is missing.

    Raises:
        MistypedError: It has another type.
    """
    value = holder.get(name)
    if value is None or isinstance(value, bool):
        return value
    raise MistypedError(value, name, "bool")


def int_field(holder: JSONObject, name: str) -> int | None:
    """An integer; None if the field is missing.

    Raises:
        MistypedError: It has another type.
    """
    value = holder.get(name)
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    raise MistypedError(value, name, "int64")


def string_field(holder: JSONObject, name: str) -> str:
    """A string; empty if the field is missing.

    Raises:
        MistypedError: It has another type.
    """
    return as_string(holder.get(name), name)


def as_string(value: JSON, name: str) -> str:
    """The value as a string; empty for null.

    Raises:
        MistypedError: It has another type.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    raise MistypedError(value, name, "string")


class CheckedContainer(msgspec.Struct, frozen=True):
    """A container, init container or ephemeral container."""

    name: str
    document: JSONObject
    security: JSONObject
    """Its ``securityContext``; empty if it has none."""


class CheckedPod(msgspec.Struct, frozen=True):
    """A Pod, or the template of a workload."""

    annotations: JSONObject
    spec: JSONObject
    security: JSONObject
    """Its ``securityContext``; empty if it has none."""
    containers: tuple[CheckedContainer, ...]
    """Init containers, containers and ephemeral containers."""
    is_template: bool = False
    """Whether it is the template of a workload."""

    @property
    def is_windows(self) -> bool:
        """Whether ``spec.os`` says Windows."""
        return string_field(as_object(self.spec.get("os"), "os"), "name") == "windows"

    @property
    def has_user_namespace(self) -> bool:
        """Whether it runs in a user namespace, so that its root user has no privileges on the host."""
        return bool_field(self.spec, "hostUsers") is False


def read_pod(pod: JSONObject, *, is_template: bool = False) -> CheckedPod:
    """Read a Pod or a template.

    Raises:
        MistypedError: A field has the wrong type.
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
        for document in object_list(spec, field):
            security = as_object(document.get("securityContext"), "securityContext")
            yield CheckedContainer(string_field(document, "name"), document, security)


class CheckResult(msgspec.Struct, frozen=True):
    """What a check forbids in a Pod. Prints as ``reason (detail)``."""

    reason: str
    """The same for all Pods with the same violation."""
    detail: str
    """The containers, volumes and values that violate the check."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def join_reasons(violations: Iterable[CheckResult]) -> str:
    """The reasons in one line: ``host namespaces, hostPort``."""
    return ", ".join(violation.reason for violation in violations)


def join_details(violations: Iterable[CheckResult]) -> str:
    """The reasons and details in one line."""
    return ", ".join(map(str, violations))


def quoted(texts: Iterable[str]) -> str:
    """The texts in quotes, unescaped: ``"a", "b"``."""
    return '"' + '", "'.join(texts) + '"'


def pluralize(singular: str, items: Sequence[object] | set[str], plural: str = "") -> str:
    """The singular for a single item, otherwise the plural, by default the singular with an ``s``."""
    return singular if len(items) == 1 else plural or f"{singular}s"


def containers(names: Sequence[str]) -> str:
    """The names of containers: ``containers "a", "b"``."""
    return f"{pluralize('container', names)} {quoted(names)}"


def setters(names: Sequence[str], *, pod: bool) -> str:
    """Who sets a field: ``pod and container "a"``. Empty if nobody does."""
    who = ["pod"] if pod else []
    if names:
        who.append(containers(names))
    return " and ".join(who)


CheckPod: TypeAlias = Callable[[CheckedPod], CheckResult | None]
"""Checks a Pod; None if it is allowed. Raises MistypedError if a field has the wrong type."""


class VersionedCheck(msgspec.Struct, frozen=True):
    """A check as of a minor release."""

    minimum_minor: int
    """The first minor release of Kubernetes 1 in which the check has this form."""
    check_pod: CheckPod
    override_check_ids: tuple[str, ...] = ()
    """The ids of the ``baseline`` checks that it replaces."""


class PodSecurityCheck(msgspec.Struct, frozen=True):
    """One restriction on Pods."""

    id: str
    """Checks are reported in the order of their ids, those of ``baseline`` first."""
    level: PodSecurityLevel
    """``baseline`` or ``restricted``; the latter includes the former."""
    versions: tuple[VersionedCheck, ...]
    """In ascending order of releases. Before the first of them, the check does not exist."""


def unless_windows(check_pod: CheckPod) -> CheckPod:
    """Exempt Pods for Windows: the API server's validation rejects such fields there."""

    def check(pod: CheckedPod) -> CheckResult | None:
        return None if pod.is_windows else check_pod(pod)

    return check


def unless_user_namespace(check_pod: CheckPod) -> CheckPod:
    """Exempt Pods with a user namespace of their own."""

    def check(pod: CheckedPod) -> CheckResult | None:
        return None if pod.has_user_namespace else check_pod(pod)

    return check


ALLOWED_PROFILE_TYPES = frozenset({"RuntimeDefault", "Localhost"})
"""The profile types that any Pod may have."""


class ForbiddenTypes(msgspec.Struct, frozen=True):
    """Who sets forbidden types, and which types these are."""

    setters: str
    values: list[str]


def profile_type(security: JSONObject, field: str) -> str | None:
    """The type of the profile in a field of a ``securityContext``; None if there is no profile."""
    profile = security.get(field)
    return None if profile is None else string_field(as_object(profile, field), "type")


def forbidden_types(pod: CheckedPod, field: str) -> ForbiddenTypes:
    """Find the types that are not allowed."""
    own = profile_type(pod.security, field)
    is_bad = own is not None and own not in ALLOWED_PROFILE_TYPES
    values = {own} if own is not None and is_bad else set()
    bad = []
    for container in pod.containers:
        profile = profile_type(container.security, field)
        if profile is not None and profile not in ALLOWED_PROFILE_TYPES:
            bad.append(container.name)
            values.add(profile)
    return ForbiddenTypes(setters(bad, pod=is_bad), sorted(values))
