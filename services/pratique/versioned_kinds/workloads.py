"""Deployments, DaemonSets and Scales.

``apps/v1`` and ``v1beta2`` have no place for what older versions say of a rollback and of a template's generation,
and keep it in annotations. Sources: ``pkg/apis/apps/{v1,v1beta1,v1beta2}/conversion.go`` and
``pkg/apis/extensions/v1beta1/conversion.go``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pratique.errors import ConversionError
from pratique.versioned_kinds.forms import SHARED, Form
from pratique.versioned_kinds.shapes import (
    annotated,
    annotation,
    changed,
    integer,
    mapping,
    parse_int64,
    text,
    without,
)

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.versioned_kinds.forms import Family

_ROLLBACK = "deprecated.deployment.rollback.to"
_GENERATION = "deprecated.daemonset.template.generation"


def _deployment_to_shared(deployment: JSONObject) -> JSONObject:
    plain = changed(deployment, "spec", lambda spec: without(spec, "rollbackTo"))
    revision = annotation(deployment, _ROLLBACK)
    if not revision:
        return plain
    try:
        number = parse_int64(revision)
    except ConversionError as error:
        raise ConversionError(
            f"failed to parse annotation[{_ROLLBACK}]={revision} as int64: {error}"
        ) from None
    spec = mapping(plain.get("spec"), "spec")
    rollback = {"revision": number} if number else {}
    return annotated({**plain, "spec": {**spec, "rollbackTo": rollback}}, {}, [_ROLLBACK])


def _deployment_from_shared(deployment: JSONObject) -> JSONObject:
    rollback = mapping(deployment.get("spec"), "spec").get("rollbackTo")
    if rollback is None:
        return annotated(
            changed(deployment, "spec", lambda spec: without(spec, "rollbackTo")), {}, [_ROLLBACK]
        )
    revision = integer(mapping(rollback, "rollbackTo").get("revision"), "revision")
    plain = changed(deployment, "spec", lambda spec: without(spec, "rollbackTo"))
    return annotated(plain, {_ROLLBACK: str(revision)})


def _daemon_set_to_shared(daemon_set: JSONObject) -> JSONObject:
    plain = changed(daemon_set, "spec", lambda spec: without(spec, "templateGeneration"))
    generation = annotation(daemon_set, _GENERATION)
    if generation is None:
        return plain
    number = parse_int64(generation)
    unannotated = annotated(plain, {}, [_GENERATION])
    if not number:
        return unannotated
    spec = mapping(plain.get("spec"), "spec")
    return {**unannotated, "spec": {**spec, "templateGeneration": number}}


def _daemon_set_from_shared(daemon_set: JSONObject) -> JSONObject:
    spec = mapping(daemon_set.get("spec"), "spec")
    generation = integer(spec.get("templateGeneration"), "templateGeneration")
    plain = changed(daemon_set, "spec", lambda spec: without(spec, "templateGeneration"))
    return annotated(plain, {_GENERATION: str(generation)})


def _scale_to_shared(scale: JSONObject) -> JSONObject:
    return changed(scale, "status", _scale_status_to_shared)


def _scale_status_to_shared(status: JSONObject) -> JSONObject:
    selector = text(status.get("targetSelector"), "targetSelector")
    if not selector:
        labels = mapping(status.get("selector"), "selector")
        selector = ",".join(f"{key}={text(value, 'selector')}" for key, value in sorted(labels.items()))
    plain = without(status, "selector", "targetSelector")
    return {**plain, "selector": selector} if selector else plain


def _scale_from_shared(scale: JSONObject) -> JSONObject:
    return changed(scale, "status", _scale_status_from_shared)


def _scale_status_from_shared(status: JSONObject) -> JSONObject:
    selector = text(status.get("selector"), "selector")
    plain = without(status, "selector", "targetSelector")
    if not selector:
        return plain
    labels = _labels(selector)
    return plain | ({"selector": labels} if labels else {}) | {"targetSelector": selector}


_LABEL = re.compile(r"\s*([A-Za-z0-9][-A-Za-z0-9_./]*)\s*==?\s*([-A-Za-z0-9_.]*)\s*")


def _labels(selector: str) -> dict[str, str]:
    """The labels that a selector names, where it says nothing else; else none."""
    matches = [_LABEL.fullmatch(part) for part in selector.split(",")]
    labels = {match[1]: match[2] for match in matches if match}
    return labels if len(labels) == len(matches) else {}


_ANNOTATED_DEPLOYMENT = Form(_deployment_to_shared, _deployment_from_shared)
_ANNOTATED_DAEMON_SET = Form(_daemon_set_to_shared, _daemon_set_from_shared)
_SCALE_OF_TWO_SELECTORS = Form(_scale_to_shared, _scale_from_shared)

DEPLOYMENTS: Family = {
    "extensions/v1beta1": SHARED,
    "apps/v1beta1": SHARED,
    "apps/v1beta2": _ANNOTATED_DEPLOYMENT,
    "apps/v1": _ANNOTATED_DEPLOYMENT,
}
DAEMON_SETS: Family = {
    "extensions/v1beta1": SHARED,
    "apps/v1beta2": _ANNOTATED_DAEMON_SET,
    "apps/v1": _ANNOTATED_DAEMON_SET,
}
SCALES: Family = {
    "autoscaling/v1": SHARED,
    "extensions/v1beta1": _SCALE_OF_TWO_SELECTORS,
    "apps/v1beta1": _SCALE_OF_TWO_SELECTORS,
    "apps/v1beta2": _SCALE_OF_TWO_SELECTORS,
}
