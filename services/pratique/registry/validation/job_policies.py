"""The failure and success policies of Jobs.

Source: ``validatePodFailurePolicy`` and ``validateSuccessPolicy`` of ``pkg/apis/batch/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    OMITTED,
    FieldError,
    FieldPath,
    duplicate,
    invalid,
    not_supported,
    quoted_text,
    required,
    too_long,
    too_many,
)
from pratique.apimachinery.go_formats import parse_int64
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.validation.metadata import validate_nonnegative

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES, _MAX_CODES, _MAX_CONDITIONS = 20, 255, 20


def _choice(value: str, known: Sequence[str], path: FieldPath) -> list[FieldError]:
    """Validate a choice whose absence is answered with the values it may have."""
    if not value:
        quoted = " ".join(f'"{one}"' for one in known)
        return [required(path, f"valid values: [{quoted}]")]
    return [] if value in known else [not_supported(path, value, known)]


def validate_failure_policy(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate what failed Pods of a Job mean."""
    rules, errors = spec["podFailurePolicy"].get("rules") or [], []
    if len(rules) > _MAX_RULES:
        errors.append(too_many(path / "rules", len(rules), _MAX_RULES))
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {
        container.get("name", "")
        for field in ("containers", "initContainers")
        for container in pod.get(field) or ()
    }
    per_index = spec.get("backoffLimitPerIndex") is not None
    for index, rule in enumerate(rules):
        errors += _validate_rule(rule, path / "rules" / index, containers, per_index=per_index)
    return errors


def _validate_rule(
    rule: JSONObject, path: FieldPath, containers: set[str], *, per_index: bool
) -> list[FieldError]:
    action = rule.get("action", "")
    errors = _choice(action, _ACTIONS, path / "action")
    if action == "FailIndex" and not per_index:
        errors.append(invalid(path / "action", action, "requires the backoffLimitPerIndex to be set"))
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or ()
    if codes is not None:
        errors += _validate_exit_codes(codes, path / "onExitCodes", containers)
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path / "onPodConditions", len(conditions), _MAX_CONDITIONS))
    for index, pattern in enumerate(conditions):
        place, type_ = path / "onPodConditions" / index, pattern.get("type", "")
        problems = names.check_qualified_name(type_)
        errors += [invalid(place / "type", quoted_text(type_), problem) for problem in problems]
        errors += _choice(pattern.get("status", ""), _STATUSES, place / "status")
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        errors.append(invalid(path, OMITTED, detail))
    if codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        errors.append(invalid(path, OMITTED, detail))
    return errors


def _validate_exit_codes(codes: JSONObject, path: FieldPath, containers: set[str]) -> list[FieldError]:
    operator, name = codes.get("operator", ""), codes.get("containerName")
    values = codes.get("values") or []
    errors = _choice(operator, _OPERATORS, path / "operator")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(path / "containerName", name, detail))
    if not values:
        errors.append(invalid(path / "values", codes.get("values"), "at least one value is required"))
    elif len(values) > _MAX_CODES:
        errors.append(too_many(path / "values", len(values), _MAX_CODES))
    found: set[int] = set()
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            errors.append(invalid(path / "values" / index, value, "must not be 0 for the In operator"))
        if value in found:
            errors.append(duplicate(path / "values" / index, value))
        found.add(value)
    if values != sorted(values):
        errors.append(invalid(path / "values", values, "must be ordered"))
    return errors


def validate_success_policy(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate when an indexed Job has succeeded."""
    rules, completions = spec["successPolicy"].get("rules") or [], spec.get("completions") or 0
    errors = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(path / "rules", detail))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(path / "rules", len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        place, count = path / "rules" / index, rule.get("succeededCount")
        if count is None and rule.get("succeededIndexes") is None:
            detail = "at least one of succeededCount or succeededIndexes must be specified"
            errors.append(required(place, detail))
        indexes, total = rule.get("succeededIndexes"), 0
        if indexes is not None:
            total, fault = _count_indexes(indexes, completions)
            errors += _validate_indexes(indexes, fault, place / "succeededIndexes")
        errors += validate_nonnegative(count, place / "succeededCount")
        limits = [(completions, "of specified completions")]
        limits += [] if indexes is None else [(total, "of indexes in the specified succeededIndexes field")]
        errors += [
            invalid(
                place / "succeededCount", count, f"must be less than or equal to {most} (the number {what})"
            )
            for most, what in limits
            if count is not None and count > most
        ]
    return errors


_LONGEST_INDEXES = 64 * 1024


def _validate_indexes(indexes: str, fault: str, path: FieldPath) -> list[FieldError]:
    errors = [too_long(path, _LONGEST_INDEXES)] if len(indexes.encode()) > _LONGEST_INDEXES else []
    detail = f"error parsing succeededIndexes: {fault}"
    return [*errors, invalid(path, indexes, detail)] if fault else errors


def _count_indexes(text: str, completions: int) -> tuple[int, str]:
    """How many indexes a text such as ``1,3-5`` has, and what is wrong with it: ``validateIndexesFormat``."""
    last, total = -1, 0
    for interval in text.split(",") if text else ():
        bounds = interval.split("-")
        if len(bounds) > len(("first", "last")):
            detail = (
                "violates the requirement that an index interval can have at most two parts separated by '-'"
            )
            return 0, f"the fragment {go_quoted(interval)} {detail}"
        numbers: list[int] = []
        for bound in bounds:
            try:
                numbers.append(parse_int64(bound, "Atoi"))
            except ValueError:
                return 0, f"cannot convert string to integer for index: {go_quoted(bound)}"
            if numbers[-1] >= completions:
                return 0, f"too large index: {go_quoted(bound)}"
        first, final = numbers[0], numbers[-1]
        for before, after in ((first, final),) * (len(bounds) - 1) + ((last, first),):
            if before >= after:
                return 0, f"non-increasing order, previous: {before}, current: {after}"
        last, total = final, total + final - first + 1
    return total, ""
