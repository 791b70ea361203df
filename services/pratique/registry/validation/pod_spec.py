"""The specs of Pods and Pod templates."""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import FieldError, FieldPath
from pratique.apimachinery.json_values import JSONObject


def validate_pod_template(
    template: JSONObject, path: FieldPath, review: Review, old: JSONObject | None = None
) -> list[FieldError]:
    """Validate a Pod template with its metadata: ``ValidatePodTemplateSpec``.

    ``old`` is the stored template, whose oddities are tolerated (``GetValidationOptionsFromPodTemplate``).
    """
    return []


def pod_template_warnings(template: JSONObject, path: FieldPath, old: JSONObject | None = None) -> list[str]:
    """What is deprecated or odd in a Pod template: ``GetWarningsForPodTemplate``."""
    return []
