"""PodGroupProtection: keeps PodGroups from being deleted while Pods belong to them.

Source: ``plugin/pkg/admission/scheduling/podgroupprotection/admission.go``. It only adds the finalizer; a controller of
the cluster removes it.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import JSON, list_at, member

FINALIZER = "scheduling.k8s.io/podgroup-protection"
"""``PodGroupProtectionFinalizer`` of ``pkg/apis/scheduling/types.go``."""

_FINALIZERS = ("metadata", "finalizers")


class PodGroupFeatureGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The feature gate of an API server that affects this controller."""

    generic_workload: bool = False
    """Protect PodGroups; off by default in 1.37."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings that an API server takes from its flags."""

    feature_gates: PodGroupFeatureGates = PodGroupFeatureGates()
    """As in the flag ``--feature-gates`` of an API server."""


def mutate(settings: Settings, review: Review) -> Answer:
    """Add the finalizer, unless the PodGroup has it."""
    group = review.object
    if not settings.feature_gates.generic_workload or not isinstance(group, dict):
        return allow()
    if group.get("kind", "PodGroup") != "PodGroup" or FINALIZER in list_at(group, *_FINALIZERS):
        return allow()
    edits = Edits(group)
    edits.append(_FINALIZERS, FINALIZER)
    return edits.answer()


def _skip_reason(configuration: JSON, review: Review) -> str:
    """Skip the call if the gate is off, as it is by default."""
    del review
    if member(configuration, "featureGates", "GenericWorkload") is True:
        return ""
    return "the feature gate GenericWorkload is off"


def _build(settings: Settings) -> Handlers:
    return Handlers(mutate=functools.partial(mutate, settings))


CONTROLLER = Controller(
    name="PodGroupProtection",
    summary="Keeps PodGroups from being removed while Pods belong to them.",
    phases=MUTATE,
    rules=(rule("podgroups", group="scheduling.k8s.io", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    default=True,
    skip_reason=_skip_reason,
    trusted=True,
)
