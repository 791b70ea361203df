"""NodeDeclaredFeatureValidator: denies changes that need a feature which the node has not declared.

Source: ``plugin/pkg/admission/nodedeclaredfeatures/admission.go``. The settings are here; :mod:`.pod_updates` and
:mod:`.resource_slices` decide.
"""

from __future__ import annotations

import functools

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery.json_values import JSON, member
from pratique.controllers.node_declared_feature_validator.pod_updates import validate_pod_update
from pratique.controllers.node_declared_feature_validator.resource_slices import validate_resource_slice

_DEVICES_GATE = "DRANodeAllocatableResources"
_SLICES = ("resource.k8s.io", "resourceslices")


class DeclaredFeatureGates(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="pascal"):
    """The feature gates of an API server that affect this controller."""

    node_declared_features: bool = True
    """Check anything at all; on by default since 1.36, and always on since 1.37."""
    node_allocatable_resources: bool = msgspec.field(default=False, name=_DEVICES_GATE)
    """Also check ResourceSlices; off by default in 1.37."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings that an API server takes from its flags."""

    feature_gates: DeclaredFeatureGates = DeclaredFeatureGates()
    """As in the flag ``--feature-gates`` of an API server."""


def validate(settings: Settings, review: Review) -> Answer:
    """Deny the update of a Pod, or a ResourceSlice, that needs more than its nodes have declared."""
    gates = settings.feature_gates
    if not gates.node_declared_features:
        return allow()
    if not review.concerns(*_SLICES):
        return validate_pod_update(review)
    return validate_resource_slice(review) if gates.node_allocatable_resources else allow()


def _skip_reason(configuration: JSON, review: Review) -> str:
    """Skip the call for ResourceSlices if their gate is off, as it is by default."""
    off = review.concerns(*_SLICES) and member(configuration, "featureGates", _DEVICES_GATE) is not True
    return f"the feature gate {_DEVICES_GATE} is off" if off else ""


def _build(settings: Settings) -> Handlers:
    return Handlers(validate=functools.partial(validate, settings))


CONTROLLER = Controller(
    name="NodeDeclaredFeatureValidator",
    summary="Denies changes of Pods that need a feature which their node has not declared.",
    phases=VALIDATE,
    rules=(
        rule("pods", "pods/resize", operations=("UPDATE",)),
        rule("resourceslices", group="resource.k8s.io"),
    ),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("nodes",),
    skip_reason=_skip_reason,
    trusted=True,
)
