"""Events, of the core group and of ``events.k8s.io``, which are the same objects with other names of fields.

Source: ``k8s.io/kubernetes/pkg/apis/core/validation/events.go``, whose paths name the fields of the core group.
"""

from __future__ import annotations

from collections.abc import Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid, required
from pratique.apimachinery.json_values import JSON, JSONObject, mapping_at
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    path_segment_name,
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)

_METADATA = ROOT / "metadata"
_GROUP = "events.k8s.io"
_CORE_NAMES: Mapping[str, str] = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
"""The names of fields in the core group, by those in ``events.k8s.io``."""


def _in_core_names(written: JSONObject, review: Review) -> JSONObject:
    if review.resource.group != _GROUP:
        return written
    return {_CORE_NAMES.get(field, field): value for field, value in written.items()}


def _is_strict(review: Review) -> bool:
    """Whether a request is validated strictly: those of ``events.k8s.io/v1``."""
    return review.resource.group == _GROUP and review.resource.version == "v1"


def _validate_event(written: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateEventCreate``."""
    event = _in_core_names(written, review)
    errors = _validate_legacy(event, review)
    if not _is_strict(review):
        # Only here is metadata not the kind's own matter, but what every store asks of an object that is valid else.
        metadata = event.get("metadata", {})
        return errors or validate_metadata(metadata, path_segment_name, _METADATA, namespaced=True)
    errors += validate_metadata(event.get("metadata", {}), subdomain_name, _METADATA, namespaced=True)
    errors += _validate_series(event)
    if not event.get("eventTime"):
        errors.append(required(ROOT / "eventTime"))
    kind = event.get("type", "")
    if kind not in {"Normal", "Warning"}:
        errors.append(invalid(ROOT / "type", "", f"has invalid value: {kind}"))
    for field in ("firstTimestamp", "lastTimestamp", "count"):
        if event.get(field):
            errors.append(invalid(ROOT / field, "", "needs to be unset"))
    if any(mapping_at(event, "source").values()):
        errors.append(invalid(ROOT / "source", "", "needs to be unset"))
    return errors


_LONGEST = {"reportingInstance": 128, "action": 128, "reason": 128}
_LONGEST_MESSAGE = 1024
_OTHER_NAMESPACE = "does not match event.namespace"


def _validate_legacy(event: JSONObject, review: Review) -> list[FieldError]:
    """Validate what every Event has always had to have: ``legacyValidateEvent``."""
    path = ROOT / "involvedObject" / "namespace"
    namespace = event.get("metadata", {}).get("namespace", "")
    about = mapping_at(event, "involvedObject").get("namespace", "")
    if not event.get("eventTime"):
        agrees = namespace == about if about else namespace in {"", "default"}
        return [] if agrees else [invalid(path, about, _OTHER_NAMESPACE)]
    errors = []
    if not about and namespace not in {"default", "kube-system"}:
        errors.append(invalid(path, about, _OTHER_NAMESPACE))
    is_core = review.resource.group != _GROUP
    controller, place = (
        event.get("reportingComponent", ""),
        ROOT / ("reportingComponent" if is_core else "reportingController"),
    )
    errors += [] if controller else [required(place)]
    errors += [invalid(place, controller, message) for message in names.check_qualified_name(controller)]
    for field, maximum in _LONGEST.items():
        value = event.get(field, "")
        errors += [] if value else [required(ROOT / field)]
        if len(value.encode()) > maximum:
            errors.append(invalid(ROOT / field, "", f"can have at most {maximum} characters"))
    if len(event.get("message", "").encode()) > _LONGEST_MESSAGE:
        errors.append(invalid(ROOT / "message", "", f"can have at most {_LONGEST_MESSAGE} characters"))
    return errors


def _validate_series(event: JSONObject) -> list[FieldError]:
    series = event.get("series")
    if series is None:
        return []
    errors = []
    if series.get("count", 0) < 2:
        errors.append(invalid(ROOT / "series" / "count", "", "should be at least 2"))
    if not series.get("lastObservedTime"):
        errors.append(required(ROOT / "series" / "lastObservedTime"))
    return errors


_IMMUTABLE_BEFORE: Mapping[str, tuple[str, JSON]] = {
    "involvedObject": ("core.ObjectReference", {}),
    "reason": ("", ""),
    "message": ("", ""),
    "source": ("core.EventSource", {}),
    "firstTimestamp": ("", None),
    "lastTimestamp": ("", None),
    "count": ("", 0),
    "type": ("", ""),
    "eventTime": ("", None),
    "action": ("", ""),
    "related": ("*core.ObjectReference", None),
    "reportingComponent": ("", ""),
    "reportingInstance": ("", ""),
}
"""The fields that may not change, with their internal types, if they print otherwise, and what they are if missing."""


def _validate_event_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """``ValidateEventUpdate``."""
    event, stored = _in_core_names(written, review), _in_core_names(old, review)
    errors = _validate_legacy(event, review)
    if not _is_strict(review):
        return errors
    errors += validate_metadata_update(event.get("metadata", {}), stored.get("metadata", {}), _METADATA)
    if event.get("series") != stored.get("series"):
        errors += _validate_series(event)
    for field, (kind, missing) in _IMMUTABLE_BEFORE.items():
        value = event.get(field, missing)
        before = stored.get(field, missing)
        if differs(kind, before, value) if kind else value != before:
            name = "reportingController" if field == "reportingComponent" else field
            shown = internal_value(kind, value) if kind else value
            errors.append(invalid(ROOT / name, shown, "field is immutable"))
    return errors


VALIDATIONS: ValidationTable = {
    ("", "events"): KindValidation(_validate_event, _validate_event_update),
}
