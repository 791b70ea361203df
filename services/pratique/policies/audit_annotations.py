"""The audit annotations of ValidatingAdmissionPolicies, of one policy and of several evaluations together.

Source: ``k8s.io/apiserver/pkg/admission/plugin/policy/validating/dispatcher.go``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from pratique.apimachinery.json_values import JSONObject, go_json
from pratique.apimachinery.prepared_types import prepared

VALIDATION_FAILURE_ANNOTATION = "validation.policy.admission.k8s.io/validation_failure"
"""The audit annotation that lists the validations that failed under the action ``Audit``."""

_MAXIMUM_FAILURES = 50
_MAXIMUM_ANNOTATION = 10 * 1024  # bytes of one value


def failures_annotation(failures: Iterable[JSONObject]) -> str:
    """Write the value of :data:`VALIDATION_FAILURE_ANNOTATION`, with the first 50 failures."""
    return go_json(list(failures)[:_MAXIMUM_FAILURES])


class AuditAnnotationCollector:
    """Collects the audit annotations of one policy over all its bindings."""

    def __init__(self) -> None:
        """Begin without annotations."""
        self._values: dict[str, dict[str, None]] = {}

    def add(self, key: str, value: str) -> None:
        """Add a value, cut to the maximum length; equal values count once."""
        cut = value.encode()[:_MAXIMUM_ANNOTATION].decode(errors="replace")
        self._values.setdefault(key, {})[cut] = None

    def published(self, policy: str) -> dict[str, str]:
        """The annotations to publish; the values of a key are joined by commas."""
        return {f"{policy}/{key}": ", ".join(values) for key, values in self._values.items()}


def join_annotations(parts: Iterable[Mapping[str, str]], *, refused: bool = False) -> dict[str, str]:
    """Join the annotations of consecutive spans of policies to those of one evaluation of all of them.

    Args:
        parts: The annotations of each span, in the order of the spans. If the request's Namespace does not exist, the
            span that finds this out is the last.
        refused: Whether the Namespace does not exist; the failed validations are then not listed.

    Raises:
        msgspec.DecodeError: a list of failed validations is not a JSON array of objects.
    """
    joined: dict[str, str] = {}
    failures: list[JSONObject] = []
    for part in parts:
        joined |= part
        if (text := joined.pop(VALIDATION_FAILURE_ANNOTATION, None)) is not None:
            failures += msgspec.json.decode(text, type=prepared(list[dict[str, object]]))
    if failures and not refused:
        joined[VALIDATION_FAILURE_ANNOTATION] = failures_annotation(failures)
    return joined
