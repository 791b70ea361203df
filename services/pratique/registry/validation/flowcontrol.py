"""FlowSchemas and PriorityLevelConfigurations.

Source: ``k8s.io/kubernetes/pkg/apis/flowcontrol/validation/validation.go``; their strategies take no status.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.go_values import internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import subdomain_name, validate_metadata

_METADATA = ROOT / "metadata"
_SPEC = ROOT / "spec"


def _mandatory_schema(level: str, precedence: int, method: JSON, *groups: str) -> JSONObject:
    """The spec of a FlowSchema for everything that members of groups ask for."""
    everything = {
        "verbs": ["*"],
        "apiGroups": ["*"],
        "resources": ["*"],
        "clusterScope": True,
        "namespaces": ["*"],
    }
    rule = {
        "subjects": [{"kind": "Group", "group": {"name": group}} for group in groups],
        "resourceRules": [everything],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    }
    spec: JSONObject = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [rule],
    }
    return spec if method is None else {**spec, "distinguisherMethod": {"type": method}}


_MANDATORY_SCHEMAS: Mapping[str, JSONObject] = {
    "exempt": _mandatory_schema("exempt", 1, None, "system:masters"),
    "catch-all": _mandatory_schema(
        "catch-all", 10000, "ByUser", "system:unauthenticated", "system:authenticated"
    ),
}
"""The specs of FlowSchemas that every API server has: ``MandatoryFlowSchemas`` of ``bootstrap/default.go``."""
_METHODS = ("ByNamespace", "ByUser")
_LAST_PRECEDENCE = 10000


def _validate_schema(written: JSONObject, _review: Review) -> list[FieldError]:
    """``ValidateFlowSchema``."""
    metadata, spec = written.get("metadata", {}), written.get("spec", {})
    name = metadata.get("name", "")
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    errors += _validate_schema_spec(name, spec)
    if name in _MANDATORY_SCHEMAS and spec != _MANDATORY_SCHEMAS[name]:
        value = internal_value("flowcontrol.FlowSchemaSpec", spec)
        errors.append(invalid(_SPEC, value, f"spec of '{name}' must equal the fixed value"))
    return errors


def _validate_schema_spec(name: str, spec: JSONObject) -> list[FieldError]:
    precedence, path = spec.get("matchingPrecedence", 0), _SPEC / "matchingPrecedence"
    details = []
    if precedence <= 0:
        details.append("must be a positive value")
    if precedence > _LAST_PRECEDENCE:
        details.append(f"must not be greater than {_LAST_PRECEDENCE}")
    if precedence == 1 and name != "exempt":
        details.append("only the schema named 'exempt' may have matchingPrecedence 1")
    errors = [invalid(path, precedence, detail) for detail in details]
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type", "") not in _METHODS:
        value = internal_value("*flowcontrol.FlowDistinguisherMethod", method)
        errors.append(not_supported(_SPEC / "distinguisherMethod" / "type", value, _METHODS))
    level = spec.get("priorityLevelConfiguration", {}).get("name", "")
    place = _SPEC / "priorityLevelConfiguration" / "name"
    if level:
        errors += [invalid(place, level, message) for message in names.check_dns1123_subdomain(level)]
    else:
        errors.append(required(place, "must reference a priority level"))
    for index, rule in enumerate(spec.get("rules", ())):
        errors += _validate_rules(rule, _SPEC / "rules" / index)
    return errors


def _validate_rules(rule: JSONObject, path: FieldPath) -> list[FieldError]:
    """``ValidateFlowSchemaPolicyRulesWithSubjects``."""
    subjects = rule.get("subjects", ())
    resources, urls = rule.get("resourceRules", ()), rule.get("nonResourceRules", ())
    errors = [
        error
        for index, subject in enumerate(subjects)
        for error in _validate_subject(subject, path / "subjects" / index)
    ]
    if not subjects:
        errors.append(required(path / "subjects", "subjects must contain at least one value"))
    if not resources and not urls:
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        errors.append(required(path, detail))
    for index, resource_rule in enumerate(resources):
        errors += _validate_resource_rule(resource_rule, path / "resourceRules" / index)
    for index, url_rule in enumerate(urls):
        errors += _validate_url_rule(url_rule, path / "nonResourceRules" / index)
    return errors


_SUBJECTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "ServiceAccount": ("serviceAccount", ("user", "group")),
    "User": ("user", ("serviceAccount", "group")),
    "Group": ("group", ("serviceAccount", "user")),
}
"""The field of each kind of subjects, and the others in the order in which they are refused."""


def _validate_subject(subject: JSONObject, path: FieldPath) -> list[FieldError]:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        return [not_supported(path / "kind", kind, sorted(_SUBJECTS))]
    field, others = _SUBJECTS[kind]
    errors = _validate_named_subject(kind, subject.get(field), path / field)
    for other in others:
        if subject.get(other) is not None:
            wanted = next(name for name, (own, _) in _SUBJECTS.items() if own == other)
            detail = f"{other} is forbidden when subject kind is not '{wanted}'"
            errors.append(forbidden(path / other, detail))
    return errors


def _validate_named_subject(kind: str, subject: JSONObject | None, path: FieldPath) -> list[FieldError]:
    if subject is None:
        field = path.steps[-1]
        return [required(path, f"{field} is required when subject kind is '{kind}'")]
    name, namespace = subject.get("name", ""), subject.get("namespace", "")
    errors = [] if name else [required(path / "name")]
    if kind != "ServiceAccount":
        return errors
    if name and name != "*":
        errors += [invalid(path / "name", name, message) for message in names.check_dns1123_subdomain(name)]
    place = path / "namespace"
    if not namespace:
        return [*errors, required(place, "must specify namespace for service account")]
    return errors + [invalid(place, namespace, message) for message in names.check_dns1123_label(namespace)]


_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")


def _validate_verbs(verbs: list[str], path: FieldPath) -> list[FieldError]:
    if not verbs:
        return [required(path, "verbs must contain at least one value")]
    if "*" in verbs:
        return _alone(verbs, path, "verbs")
    return [] if set(verbs) <= set(_VERBS) else [not_supported(path, verbs, _VERBS)]


def _alone(values: Sequence[str], path: FieldPath, what: str) -> list[FieldError]:
    """Refuse others beside an asterisk."""
    if len(values) < 2 or "*" not in values:
        return []
    return [invalid(path, list(values), f"if '*' is present, must not specify other {what}")]


def _validate_url_rule(rule: JSONObject, path: FieldPath) -> list[FieldError]:
    """``ValidateFlowSchemaNonResourcePolicyRule``."""
    errors = _validate_verbs(rule.get("verbs", []), path / "verbs")
    urls, place = rule.get("nonResourceURLs", []), path / "nonResourceURLs"
    if not urls:
        return [*errors, required(place, "nonResourceURLs must contain at least one value")]
    if "*" in urls:
        return errors + _alone(urls, place, "non-resource URLs")
    for index, url in enumerate(urls):
        if problem := _url_problem(url):
            errors.append(invalid(place / index, url, problem))
    return errors


def _url_problem(url: str) -> str:
    """What is wrong with a path: ``ValidateNonResourceURLPath``."""
    if not url:
        return "must not be empty"
    if url == "/":
        return ""
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    asterisks = url.count("*")
    is_suffix = asterisks == 1 and url.endswith("/*")
    return "" if not asterisks or is_suffix else "wildcard can only do suffix matching"


_RESOURCE_LISTS = (
    ("apiGroups", "resource rules must supply at least one api group", "api groups"),
    ("resources", "resource rules must supply at least one resource", "resources"),
)
_NAMESPACE_FORM = "each member of this list must be '*' or a DNS-1123 label; "


def _validate_resource_rule(rule: JSONObject, path: FieldPath) -> list[FieldError]:
    """``ValidateFlowSchemaResourcePolicyRule``."""
    errors = _validate_verbs(rule.get("verbs", []), path / "verbs")
    for field, missing, what in _RESOURCE_LISTS:
        values = rule.get(field, [])
        errors += _alone(values, path / field, what) if values else [required(path / field, missing)]
    namespaces, place = rule.get("namespaces", []), path / "namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        return [*errors, required(place, detail)]
    if "*" in namespaces:
        return errors + _alone(namespaces, place, "namespaces")
    return errors + [
        invalid(place / index, namespace, _NAMESPACE_FORM + message)
        for index, namespace in enumerate(namespaces)
        for message in names.check_dns1123_label(namespace)
    ]


_MANDATORY_LEVELS: Mapping[str, JSONObject] = {
    "exempt": {"type": "Exempt"},
    "catch-all": {
        "type": "Limited",
        "limited": {
            "nominalConcurrencyShares": 5,
            "lendablePercent": 0,
            "limitResponse": {"type": "Reject"},
        },
    },
}
"""The specs of priority levels that every API server has; ``exempt`` of the level of that name may be anything."""
_PRESERVED_ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"
_ASSURED_SHARES = frozenset({"v1beta1", "v1beta2"})


def _validate_level(written: JSONObject, review: Review) -> list[FieldError]:
    """``ValidatePriorityLevelConfiguration``."""
    metadata, spec = written.get("metadata", {}), written.get("spec", {})
    name = metadata.get("name", "")
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    if _PRESERVED_ZERO in metadata.get("annotations", {}):
        errors.append(forbidden(_METADATA / "annotations", f"annotation '{_PRESERVED_ZERO}' is forbidden"))
    is_assured = review.resource.version in _ASSURED_SHARES
    errors += _validate_level_spec(
        name, spec, "assuredConcurrencyShares" if is_assured else "nominalConcurrencyShares"
    )
    return errors + _validate_mandatory_level(name, spec)


def _validate_mandatory_level(name: str, spec: JSONObject) -> list[FieldError]:
    """``ValidateIfMandatoryPriorityLevelConfigurationObject``."""
    wanted = _MANDATORY_LEVELS.get(name)
    compared = {key: value for key, value in spec.items() if name != "exempt" or key != "exempt"}
    if wanted is None or compared == wanted:
        return []
    but = " except the 'spec.exempt' field" if name == "exempt" else ""
    value = internal_value("flowcontrol.PriorityLevelConfigurationSpec", spec)
    return [invalid(_SPEC, value, f"spec of '{name}'{but} must equal the fixed value")]


_TYPES = ("Exempt", "Limited")


def _validate_level_spec(name: str, spec: JSONObject, shares: str) -> list[FieldError]:
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    errors = []
    if (name == "exempt") != (kind == "Exempt"):
        detail = "must be 'Exempt' if and only if `name` is 'exempt'"
        errors.append(invalid(_SPEC / "type", kind, detail))
    match kind:
        case "Exempt":
            if limited is not None:
                errors += covered(forbidden(_SPEC / "limited", "must be nil if the type is not Limited"))
            errors += _validate_exempt(exempt or {}, _SPEC / "exempt")
        case "Limited":
            if exempt is not None:
                errors += covered(forbidden(_SPEC / "exempt", "must be nil if the type is Limited"))
            if limited is None:
                errors += covered(required(_SPEC / "limited", "must not be empty when type is Limited"))
            else:
                errors += _validate_limited(limited, _SPEC / "limited", shares)
        case "":
            errors += covered(required(_SPEC / "type"))
        case _:
            errors.append(not_supported(_SPEC / "type", kind, _TYPES))
    return errors


def _validate_limited(limited: JSONObject, path: FieldPath, shares: str) -> list[FieldError]:
    errors = _validate_shares(limited, path / shares)
    errors += _validate_response(limited.get("limitResponse", {}), path / "limitResponse")
    errors += _validate_percentage(limited, path / "lendablePercent")
    limit = limited.get("borrowingLimitPercent")
    if limit is not None and limit < 0:
        detail = "if specified, must be a non-negative integer"
        errors.append(invalid(path / "borrowingLimitPercent", limit, detail))
    return errors


def _validate_shares(level: JSONObject, path: FieldPath) -> list[FieldError]:
    shares = level.get("nominalConcurrencyShares") or 0
    return [invalid(path, shares, "must be a non-negative integer")] if shares < 0 else []


def _validate_percentage(level: JSONObject, path: FieldPath) -> list[FieldError]:
    percentage = level.get("lendablePercent")
    if percentage is None or 0 <= percentage <= 100:
        return []
    return [invalid(path, percentage, "must be between 0 and 100, inclusive")]


def _validate_exempt(exempt: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = _validate_shares(exempt, path / "nominalConcurrencyShares")
    return errors + _validate_percentage(exempt, path / "lendablePercent")


_RESPONSES = ("Queue", "Reject")


def _validate_response(response: JSONObject, path: FieldPath) -> list[FieldError]:
    """``ValidateLimitResponse``."""
    queuing, place = response.get("queuing"), path / "queuing"
    match response.get("type", ""):
        case "Reject":
            detail = "must be nil if limited.limitResponse.type is not Limited"
            return [] if queuing is None else covered(forbidden(place, detail))
        case "Queue":
            detail = "must not be empty if limited.limitResponse.type is Limited"
            return covered(required(place, detail)) if queuing is None else _validate_queuing(queuing, place)
        case "":
            return covered(required(path / "type"))
        case other:
            return [not_supported(path / "type", other, _RESPONSES)]


_MAXIMUM_QUEUES = 10_000_000
_HASH_BITS = 60


def _validate_queuing(queuing: JSONObject, path: FieldPath) -> list[FieldError]:
    """``ValidatePriorityLevelQueuingConfiguration``."""
    limit, queues, hand = (queuing.get(field, 0) for field in ("queueLengthLimit", "queues", "handSize"))
    errors = [] if limit > 0 else [invalid(path / "queueLengthLimit", limit, "must be positive")]
    if queues <= 0:
        errors.append(invalid(path / "queues", queues, "must be positive"))
    elif queues > _MAXIMUM_QUEUES:
        errors.append(invalid(path / "queues", queues, f"must not be greater than {_MAXIMUM_QUEUES}"))
    if problem := _hand_problem(queues, hand):
        errors.append(invalid(path / "handSize", hand, problem))
    return errors


def _hand_problem(queues: int, hand: int) -> str:
    if hand <= 0:
        return "must be positive"
    if hand > queues:
        return f"should not be greater than queues ({queues})"
    if math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        return f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
    return ""


VALIDATIONS: ValidationTable = {
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): KindValidation(
        _validate_schema, lambda written, _old, review: _validate_schema(written, review)
    ),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): KindValidation(
        _validate_level, lambda written, _old, review: _validate_level(written, review)
    ),
}
