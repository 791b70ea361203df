"""Checks: what a check of the Pod Security Standards is, how it reads a Pod, and what it finds.

Source: ``k8s.io/pod-security-admission/policy/{checks,helpers,visitor}.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_reading import go_kind
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.pods.pod_spec import CONTAINER_FIELDS

if TYPE_CHECKING:
    from pratique.controllers.pod_security.standards import PodSecurityLevel


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


@dataclasses.dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check holds against a Pod. Prints as ``reason (detail)``."""

    reason: str
    """The same for all Pods that do the same."""
    detail: str
    """Which containers, volumes and values it is about."""

    def __str__(self) -> str:
        return f"{self.reason} ({self.detail})" if self.detail else self.reason


def join_reasons(findings: Iterable[CheckResult]) -> str:
    """Say in short what is wrong: ``host namespaces, hostPort``."""
    return ", ".join(finding.reason for finding in findings)


def details(findings: Iterable[CheckResult]) -> str:
    """Say at length what is wrong."""
    return ", ".join(map(str, findings))


def quoted(texts: Iterable[str]) -> str:
    """List texts in quotes, which are not escaped: ``"a", "b"``."""
    return '"' + '", "'.join(texts) + '"'


def pluralize(one: str, items: Sequence[object] | set[str], many: str = "") -> str:
    """A word in the number that goes with so many items; ``many`` where it is not just an ``s`` more."""
    return one if len(items) == 1 else many or f"{one}s"


def containers(names: Sequence[str]) -> str:
    """Name containers: ``containers "a", "b"``."""
    return f"{pluralize('container', names)} {quoted(names)}"


def setters(names: Sequence[str], *, pod: bool) -> str:
    """Name who sets something: ``pod and container "a"``. Empty where nobody does."""
    found = ["pod"] if pod else []
    if names:
        found.append(containers(names))
    return " and ".join(found)


CheckPod: TypeAlias = Callable[[CheckedPod], CheckResult | None]
"""Looks at a Pod; None where it has nothing against it. Raises MistypedError where it cannot read it."""


@dataclasses.dataclass(frozen=True, slots=True)
class VersionedCheck:
    """A check as of some release."""

    since: int
    """The first minor release of Kubernetes 1 whose standards have it so."""
    find: CheckPod
    overrides: tuple[str, ...] = ()
    """The checks of ``baseline`` that it takes the place of."""


@dataclasses.dataclass(frozen=True, slots=True)
class PodSecurityCheck:
    """One thing that Pods may not do."""

    id: str
    """Checks are reported in the order of their ids, those of ``baseline`` first."""
    level: PodSecurityLevel
    """``baseline`` or ``restricted``; what is forbidden in the former is so in the latter."""
    revisions: tuple[VersionedCheck, ...]
    """In the order of releases. Before the first there is no such check."""


def unless_windows(find: CheckPod) -> CheckPod:
    """Let Pods pass that say that they are for Windows, where validation refuses such fields."""

    def found(pod: CheckedPod) -> CheckResult | None:
        return None if pod.is_windows else find(pod)

    return found


def unless_user_namespace(find: CheckPod) -> CheckPod:
    """Let Pods pass that have user namespaces of their own."""

    def found(pod: CheckedPod) -> CheckResult | None:
        return None if pod.has_own_users else find(pod)

    return found


ALLOWED_PROFILE_TYPES = frozenset({"RuntimeDefault", "Localhost"})
"""The types that any Pod may have."""


@dataclasses.dataclass(frozen=True, slots=True)
class ForbiddenTypes:
    """Who sets a type that is not allowed, and which types these are."""

    setters: str
    values: list[str]


def profile_type(security: JSONObject, field: str) -> str | None:
    """The type of the profile that a ``securityContext`` has in a field; None where it has no profile."""
    profile = security.get(field)
    return None if profile is None else text(as_object(profile, field), "type")


def forbidden_types(pod: CheckedPod, field: str) -> ForbiddenTypes:
    """Find the types that are not allowed."""
    own = profile_type(pod.security, field)
    is_bad = own is not None and own not in ALLOWED_PROFILE_TYPES
    values = {own} if own is not None and is_bad else set()
    bad = []
    for each in pod.containers:
        found = profile_type(each.security, field)
        if found is not None and found not in ALLOWED_PROFILE_TYPES:
            bad.append(each.name)
            values.add(found)
    return ForbiddenTypes(setters(bad, pod=is_bad), sorted(values))
