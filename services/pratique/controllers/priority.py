"""Priority: gives Pods and groups of Pods the priority of their PriorityClass, and allows only one default class.

Source: ``plugin/pkg/admission/priority/admission.go``; that of 1.10 for ``release``.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import msgspec

from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError, RefusalError
from pratique.apimachinery.field_errors import ROOT, not_supported
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import Cluster
from pratique.pods import pod_spec

SYSTEM_CLASSES = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}
"""The built-in classes and their values: ``pkg/apis/scheduling/types.go``."""

_OLD_RELEASE = "1.10"
_HIGHEST_USER_PRIORITY = 1_000_000_000
"""``HighestUserDefinablePriority``: higher values are reserved for system classes."""
_PREEMPT_LOWER_PRIORITY = "PreemptLowerPriority"
_SCHEDULING = "scheduling.k8s.io"
_CLASSES = (_SCHEDULING, "priorityclasses")
_CLASS_NAME = ("spec", "priorityClassName")
_PRIORITY = ("spec", "priority")
_POLICY = ("spec", "preemptionPolicy")


_GROUPS = {
    "podgroups": ("PodGroup", "pod group"),
    "compositepodgroups": ("CompositePodGroup", "composite pod group"),
}
"""Kinds of groups by their resource, each with how messages call it."""


class PriorityFeatureGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The feature gates of an API server that affect this controller; off by default in 1.37."""

    generic_workload: bool = False
    """Give PodGroups a priority."""
    composite_pod_group: bool = False
    """Give CompositePodGroups a priority."""
    pod_group_preemption_policy: bool = False
    """Give both a preemption policy."""

    def includes(self, resource: str) -> bool:
        """Whether groups of a resource get a priority."""
        return self.generic_workload if resource == "podgroups" else self.composite_pod_group


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    release: str = ""
    """``1.10``: deny any integer in a Pod, know the two system classes without looking them up, set neither class
    name nor preemption policy, ignore updates of Pods, and check names and values of PriorityClasses. Empty: as
    current Kubernetes."""
    system_classes_only_in_kube_system: bool = False
    """Allow the two system classes only in ``kube-system``, as 1.11 to 1.16 do."""
    feature_gates: PriorityFeatureGates = PriorityFeatureGates()
    """As in the flag ``--feature-gates`` of an API server."""


class _ResolvedClass(NamedTuple):
    """The values that follow from a class, or from there being none."""

    class_name: str
    value: int
    policy: str


def mutate(settings: Settings, review: Review) -> Answer:
    """Set the priority of a new Pod or group; keep that of an existing Pod."""
    resource = review.resource.resource
    if review.resource.group == _SCHEDULING and resource in _GROUPS:
        return _admit_group(settings.feature_gates, review, *_GROUPS[resource])
    if not pod_spec.is_pod_review(review):
        return allow()
    if not pod_spec.is_pod(review.object):
        return _deny_wrong_kind("Pod")
    if settings.release == _OLD_RELEASE:
        return _admit_pod_as_1_10(review) if review.operation is Operation.CREATE else allow()
    return _keep_stored(review) if review.operation is Operation.UPDATE else _admit_pod(settings, review)


def _keep_stored(review: Review) -> Answer:
    """Restore the fields that an update leaves out; both are immutable."""
    if not pod_spec.is_pod(review.old_object):
        return _deny_wrong_kind("Pod")
    edits = Edits(review.object)
    for path in (_PRIORITY, _POLICY):
        stored = member(review.old_object, *path)
        if edits.get(path) is None and stored is not None:
            edits.set(path, stored)
    return edits.answer()


def _admit_pod(settings: Settings, review: Review) -> Answer:
    edits = Edits(review.object)
    written = edits.get(_CLASS_NAME) or ""
    if settings.system_classes_only_in_kube_system:
        _check_system_class(review, written)
    resolved = _resolve_class(review, written)
    if resolved.class_name != written:
        edits.set(_CLASS_NAME, resolved.class_name)
    priority = edits.get(_PRIORITY)
    if priority is not None and priority != resolved.value:
        return deny(_mismatch_message(f"integer value of priority ({priority})", resolved.value))
    edits.set(_PRIORITY, resolved.value)
    policy = edits.get(_POLICY)
    if policy is not None and policy != resolved.policy:
        return deny(_mismatch_message(f"string value of PreemptionPolicy ({policy})", resolved.policy))
    edits.set(_POLICY, resolved.policy)
    return edits.answer()


def _admit_group(gates: PriorityFeatureGates, review: Review, kind: str, called: str) -> Answer:
    if not gates.includes(review.resource.resource):
        return allow()
    if not isinstance(review.object, dict) or review.object.get("kind", kind) != kind:
        return _deny_wrong_kind(kind)
    edits = Edits(review.object)
    resolved = _resolve_class(review, edits.get(_CLASS_NAME) or "")
    priority, policy = edits.get(_PRIORITY), edits.get(_POLICY)
    if priority is not None and priority != resolved.value:
        return deny(
            f"priority set in the {called} ({priority}) must match the priority computed ({resolved.value})"
            " based on the priority class set in the spec"
        )
    edits.set(_PRIORITY, resolved.value)
    if resolved.class_name:
        edits.set(_CLASS_NAME, resolved.class_name)
    if not gates.pod_group_preemption_policy:
        return edits.answer()
    if policy is not None and policy != resolved.policy:
        return deny(
            f"the string value of PreemptionPolicy ({policy}) must not be provided in {called} spec;"
            f" priority admission controller computed {resolved.policy} from the given PriorityClass name"
        )
    edits.set(_POLICY, resolved.policy)
    return edits.answer()


def _admit_pod_as_1_10(review: Review) -> Answer:
    edits = Edits(review.object)
    if edits.get(_PRIORITY) is not None:
        return deny(
            "the integer value of priority must not be provided in pod spec. Priority admission controller"
            " populates the value from the given PriorityClass name"
        )
    written = edits.get(_CLASS_NAME) or ""
    value = SYSTEM_CLASSES.get(written)
    edits.set(_PRIORITY, _resolve_class(review, written).value if value is None else value)
    return edits.answer()


def _mismatch_message(what: str, computed: JSON) -> str:
    return (
        f"the {what} must not be provided in pod spec; priority admission controller computed {computed}"
        " from the given PriorityClass name"
    )


def _check_system_class(review: Review, name: str) -> None:
    if name in SYSTEM_CLASSES and review.namespace != "kube-system":
        text = f"pods with {name} priorityClass is not permitted in {review.namespace} namespace"
        raise RefusalError(statuses.admission_forbidden(review, text))


def _resolve_class(review: Review, name: str) -> _ResolvedClass:
    """Look up the named class, or the default class if none is named."""
    if name:
        priority_class = review.cluster.get(*_CLASSES, name)
        if priority_class is None:
            text = f"no PriorityClass with name {name} was found"
            raise RefusalError(statuses.admission_forbidden(review, text))
    else:
        priority_class = _default_class(review.cluster)
    if priority_class is None:
        return _ResolvedClass("", 0, _PREEMPT_LOWER_PRIORITY)
    # The API server stores a preemption policy with every class.
    return _ResolvedClass(
        _name(priority_class),
        _value(priority_class),
        priority_class.get("preemptionPolicy") or _PREEMPT_LOWER_PRIORITY,
    )


def _default_class(cluster: Cluster) -> JSONObject | None:
    """The default class. Two concurrent requests can create several; the one with the lowest value counts."""
    defaults = [
        priority_class
        for priority_class in cluster.list(*_CLASSES)
        if priority_class.get("globalDefault") is True
    ]
    return min(defaults, key=_value, default=None)


def _name(priority_class: JSONObject) -> str:
    return str(member(priority_class, "metadata", "name"))


def _value(priority_class: JSONObject) -> int:
    value = priority_class.get("value")
    return value if isinstance(value, int) else 0


def validate(settings: Settings, review: Review) -> Answer:
    """Deny a second default class."""
    if not review.concerns(*_CLASSES):
        return allow()
    priority_class = review.object
    if not isinstance(priority_class, dict) or priority_class.get("kind", "PriorityClass") != "PriorityClass":
        return _deny_wrong_kind("PriorityClass")
    if settings.release == _OLD_RELEASE and (reserved := _reserved_error(priority_class)):
        return deny(reserved)
    default = _default_class(review.cluster) if priority_class.get("globalDefault") is True else None
    if default is None:
        return allow()
    if review.operation is Operation.UPDATE and _name(default) == _name(priority_class):
        return allow()
    return deny(f"PriorityClass {_name(default)} is already marked as default. Only one default can exist")


def _reserved_error(priority_class: JSONObject) -> str:
    """Why a PriorityClass is not allowed. Since 1.11, the API server's validation checks this."""
    if _value(priority_class) > _HIGHEST_USER_PRIORITY:
        return f"maximum allowed value of a user defined priority is {_HIGHEST_USER_PRIORITY}"
    name = _name(priority_class)
    if name in SYSTEM_CLASSES:
        return f"the name of the priority class is a reserved name for system use only: {name}"
    return ""


def _deny_wrong_kind(kind: str) -> Answer:
    text = f"resource was marked with kind {kind} but was unable to be converted"
    return deny(status=statuses.bad_request(text))


def _skip_reason(configuration: JSON, review: Review) -> str:
    """Skip the call for groups whose gate is off, as they all are by default."""
    resource = review.resource.resource
    if resource not in _GROUPS:
        return ""
    gate = "GenericWorkload" if resource == "podgroups" else "CompositePodGroup"
    if member(configuration, "featureGates", gate) is True:
        return ""
    return f"the feature gate {gate} is off"


def _build(settings: Settings) -> Handlers:
    if settings.release not in ("", _OLD_RELEASE):
        raise ConfigurationError(str(not_supported(ROOT / "release", settings.release, [_OLD_RELEASE])))
    return Handlers(
        mutate=functools.partial(mutate, settings), validate=functools.partial(validate, settings)
    )


CONTROLLER = Controller(
    name="Priority",
    summary="Gives Pods and their groups the priority of their PriorityClass, and allows only one default class.",
    phases=BOTH,
    rules=(
        rule("pods"),
        rule("priorityclasses", group=_SCHEDULING),
        rule(*_GROUPS, group=_SCHEDULING, operations=("CREATE",)),
    ),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("priorityclasses",),
    skip_reason=_skip_reason,
    trusted=True,
)
