"""Deployments, ReplicaSets, ReplicationControllers, DaemonSets and PodTemplates.

Sources: ``pkg/apis/apps/validation/validation.go``, ``ValidateReplicationController`` of
``pkg/apis/core/validation/validation.go``, and the warnings of their strategies.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    covered,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.selectors import DOES_NOT_EXIST, EXISTS, IN
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    NameRule,
    subdomain_name,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
    validate_nonnegative,
)
from pratique.registry.validation.numbers import (
    number_or_percent,
    validate_at_most_all,
    validate_number_or_percent,
)
from pratique.registry.validation.pod_spec import validate_pod_template
from pratique.registry.validation.pod_warnings import host_name_warnings, pod_template_warnings

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_SELECTOR, _TEMPLATE = _SPEC / "selector", _SPEC / "template"


def _spec_of(workload: JSONObject | None) -> JSONObject:
    return (workload or {}).get("spec") or {}


def _metadata_errors(workload: JSONObject, name_rule: NameRule) -> list[FieldError]:
    return validate_metadata(workload.get("metadata") or {}, name_rule, _METADATA, namespaced=True)


def _metadata_update_errors(workload: JSONObject, old: JSONObject) -> list[FieldError]:
    return validate_metadata_update(workload.get("metadata") or {}, old.get("metadata") or {}, _METADATA)


def selects(selector: JSONObject | None, labels: Mapping[str, str]) -> bool:
    """Tell whether a valid label selector matches labels; an empty one matches all, and None nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_meets(requirement, labels) for requirement in selector.get("matchExpressions") or ())


def validate_selected(
    selector: JSONObject | None, labels: JSONObject | None, path: FieldPath
) -> list[FieldError]:
    """Validate that the labels of a template, which are at a path, are those that its workload selects."""
    if selects(selector, labels or {}):
        return []
    shown = internal_value("map[string]string", labels)
    return [invalid(path, shown, "`selector` does not match template `labels`")]


def _meets(requirement: JSONObject, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.get("key", ""))
    match requirement.get("operator"):
        case operator if operator == IN:
            return value in (requirement.get("values") or ())
        case operator if operator == EXISTS:
            return value is not None
        case operator if operator == DOES_NOT_EXIST:
            return value is None
        case _:
            return value not in (requirement.get("values") or ())


def selector_value(selector: JSONObject | None) -> GoLiteral:
    """A label selector as Go prints it."""
    return internal_value("*meta.v1.LabelSelector", selector)


def validate_selector_update(spec: JSONObject, old_spec: JSONObject) -> list[FieldError]:
    """Refuse another selector."""
    selector = spec.get("selector")
    if not differs("*meta.v1.LabelSelector", old_spec.get("selector"), selector):
        return []
    return [invalid(_SELECTOR, selector_value(selector), FIELD_IS_IMMUTABLE)]


def _validate_selector(spec: JSONObject, kind: str) -> tuple[list[FieldError], bool]:
    """The errors of a selector that may not be empty, and whether it can be used."""
    selector = spec.get("selector")
    if selector is None:
        return [required(_SELECTOR)], True
    errors = validate_label_selector(selector, _SELECTOR)
    is_usable = not errors
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        errors.append(invalid(_SELECTOR, selector_value(selector), f"empty selector is invalid for {kind}"))
    return errors, is_usable


def _validate_match(template: JSONObject, selector: JSONObject | None) -> list[FieldError]:
    labels = (template.get("metadata") or {}).get("labels")
    return validate_selected(selector, labels, _TEMPLATE / "metadata" / "labels")


def _validate_lasting_pods(template: JSONObject, kind: str) -> list[FieldError]:
    """Validate that Pods run until they are deleted."""
    errors, spec = [], template.get("spec") or {}
    policy = spec.get("restartPolicy", "")
    if policy != "Always":
        errors.append(not_supported(_TEMPLATE / "spec" / "restartPolicy", policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        path = _TEMPLATE / "spec" / "activeDeadlineSeconds"
        errors.append(forbidden(path, f"activeDeadlineSeconds in {kind} is not Supported"))
    return errors


def _validate_replica_template(spec: JSONObject, old_spec: JSONObject, review: Review) -> list[FieldError]:
    """``ValidatePodTemplateSpecForReplicaSet``, of Deployments too."""
    template = spec.get("template") or {}
    errors = _validate_match(template, spec.get("selector"))
    errors += validate_pod_template(template, _TEMPLATE, review, old_spec.get("template"))
    return errors + _validate_lasting_pods(template, "ReplicaSet")


def _deployment_spec(spec: JSONObject, old_spec: JSONObject, review: Review) -> list[FieldError]:
    errors = validate_nonnegative(spec.get("replicas"), _SPEC / "replicas")
    found, is_usable = _validate_selector(spec, "deployment")
    errors += found
    if is_usable:
        errors += _validate_replica_template(spec, old_spec, review)
    else:
        errors.append(invalid(_SELECTOR, selector_value(spec.get("selector")), "invalid label selector"))
    errors += _validate_deployment_strategy(spec.get("strategy") or {}, _SPEC / "strategy")
    ready = spec.get("minReadySeconds", 0)
    errors += validate_nonnegative(ready, _SPEC / "minReadySeconds")
    errors += validate_nonnegative(spec.get("revisionHistoryLimit"), _SPEC / "revisionHistoryLimit")
    deadline, path = spec.get("progressDeadlineSeconds"), _SPEC / "progressDeadlineSeconds"
    errors += validate_nonnegative(deadline, path)
    if deadline is not None and deadline <= ready:
        errors.append(invalid(path, deadline, "must be greater than minReadySeconds"))
    return errors


def _validate_deployment_strategy(strategy: JSONObject, path: FieldPath) -> list[FieldError]:
    rolling, place = strategy.get("rollingUpdate"), path / "rollingUpdate"
    match strategy.get("type", ""):
        case "Recreate":
            detail = "may not be specified when strategy `type` is 'Recreate'"
            return [] if rolling is None else [forbidden(place, detail)]
        case "RollingUpdate":
            return _validate_rolling_deployment(rolling or {}, place)
        case type_:
            shown = {"Type": type_, "RollingUpdate": _internal_rolling(rolling)}
            return [not_supported(path, shown, ("Recreate", "RollingUpdate"))]


def _internal_rolling(rolling: JSONObject | None) -> JSON:
    if rolling is None:
        return None
    return {
        "MaxUnavailable": rolling.get("maxUnavailable", 0),
        "MaxSurge": rolling.get("maxSurge", 0),
    }


def _validate_rolling_deployment(rolling: JSONObject, path: FieldPath) -> list[FieldError]:
    unavailable, surge = rolling.get("maxUnavailable", 0), rolling.get("maxSurge", 0)
    place = path / "maxUnavailable"
    errors = validate_number_or_percent(unavailable, place)
    errors += validate_number_or_percent(surge, path / "maxSurge")
    if number_or_percent(unavailable) == 0 and number_or_percent(surge) == 0:
        errors.append(invalid(place, unavailable, "may not be 0 when `maxSurge` is 0"))
    return errors + validate_at_most_all(unavailable, place)


def _deployment(deployment: JSONObject, review: Review) -> list[FieldError]:
    return _metadata_errors(deployment, subdomain_name) + _deployment_spec(_spec_of(deployment), {}, review)


def _deployment_update(deployment: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    spec, old_spec = _spec_of(deployment), _spec_of(old)
    errors = _metadata_update_errors(deployment, old) + _deployment_spec(spec, old_spec, review)
    return errors + validate_selector_update(spec, old_spec)


def _replica_set_spec(spec: JSONObject, old_spec: JSONObject, review: Review) -> list[FieldError]:
    errors = validate_nonnegative(spec.get("replicas"), _SPEC / "replicas")
    errors += validate_nonnegative(spec.get("minReadySeconds"), _SPEC / "minReadySeconds")
    found, is_usable = _validate_selector(spec, "deployment")
    errors += found
    if is_usable:
        return errors + _validate_replica_template(spec, old_spec, review)
    return [*errors, invalid(_SELECTOR, selector_value(spec.get("selector")), "invalid label selector")]


def _replica_set(replica_set: JSONObject, review: Review) -> list[FieldError]:
    return _metadata_errors(replica_set, subdomain_name) + _replica_set_spec(
        _spec_of(replica_set), {}, review
    )


def _replica_set_update(replica_set: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    spec, old_spec = _spec_of(replica_set), _spec_of(old)
    errors = _metadata_update_errors(replica_set, old) + _replica_set_spec(spec, old_spec, review)
    return errors + validate_selector_update(spec, old_spec)


def _controller_spec(spec: JSONObject, old_spec: JSONObject, review: Review) -> list[FieldError]:
    errors = covered(validate_nonnegative(spec.get("minReadySeconds"), _SPEC / "minReadySeconds"), "minimum")
    selector = spec.get("selector") or {}
    if not selector:
        errors.append(required(_SELECTOR))
    replicas, path = spec.get("replicas"), _SPEC / "replicas"
    errors += covered(required(path) if replicas is None else validate_nonnegative(replicas, path), "minimum")
    template = spec.get("template")
    if template is None:
        return [*errors, required(_TEMPLATE)]
    errors += _validate_match(template, {"matchLabels": selector})
    errors += validate_pod_template(template, _TEMPLATE, review, old_spec.get("template"))
    return errors + _validate_lasting_pods(template, "ReplicationController")


def _controller(controller: JSONObject, review: Review) -> list[FieldError]:
    return _metadata_errors(controller, subdomain_name) + _controller_spec(_spec_of(controller), {}, review)


def _controller_update(controller: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    errors = _metadata_update_errors(controller, old)
    return errors + _controller_spec(_spec_of(controller), _spec_of(old), review)


def _daemon_set_spec(spec: JSONObject, old_spec: JSONObject, review: Review) -> list[FieldError]:
    selector, template = spec.get("selector"), spec.get("template") or {}
    errors = validate_label_selector(selector, _SELECTOR)
    if not errors:
        errors += _validate_match(template, selector)
    if selector is not None and not (selector.get("matchLabels") or selector.get("matchExpressions")):
        errors.append(invalid(_SELECTOR, selector_value(selector), "empty selector is invalid for daemonset"))
    errors += validate_pod_template(template, _TEMPLATE, review, old_spec.get("template"))
    errors += _validate_lasting_pods(template, "DaemonSet")
    errors += validate_nonnegative(spec.get("minReadySeconds"), _SPEC / "minReadySeconds")
    errors += _validate_daemon_set_strategy(spec.get("updateStrategy") or {}, _SPEC / "updateStrategy")
    return errors + validate_nonnegative(spec.get("revisionHistoryLimit"), _SPEC / "revisionHistoryLimit")


def _validate_daemon_set_strategy(strategy: JSONObject, path: FieldPath) -> list[FieldError]:
    rolling, type_ = strategy.get("rollingUpdate"), strategy.get("type", "")
    if type_ == "OnDelete":
        return []
    if type_ != "RollingUpdate":
        shown = {"Type": type_, "RollingUpdate": _internal_rolling(rolling)}
        return [not_supported(path, shown, ("RollingUpdate", "OnDelete"))]
    if rolling is None:
        return [required(path / "rollingUpdate")]
    fields = ("maxUnavailable", "maxSurge")
    places = [(rolling.get(name, 0), path / "rollingUpdate" / name) for name in fields]
    errors = [error for value, place in places for error in validate_number_or_percent(value, place)]
    errors += [error for value, place in places for error in validate_at_most_all(value, place)]
    (unavailable, place), (surge, surge_place) = places
    if number_or_percent(unavailable) and number_or_percent(surge):
        errors.append(invalid(surge_place, surge, "may not be set when maxUnavailable is non-zero"))
    elif not number_or_percent(unavailable) and not number_or_percent(surge):
        errors.append(required(place, "cannot be 0 when maxSurge is 0"))
    return errors


def _daemon_set(daemon_set: JSONObject, review: Review) -> list[FieldError]:
    return _metadata_errors(daemon_set, subdomain_name) + _daemon_set_spec(_spec_of(daemon_set), {}, review)


def _daemon_set_update(daemon_set: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    spec, old_spec = _spec_of(daemon_set), _spec_of(old)
    errors = _metadata_update_errors(daemon_set, old)
    errors += validate_selector_update(spec, old_spec)
    return errors + _daemon_set_spec(spec, old_spec, review)


def _pod_template(written: JSONObject, review: Review) -> list[FieldError]:
    errors = _metadata_errors(written, subdomain_name)
    return errors + validate_pod_template(written.get("template") or {}, ROOT / "template", review)


def _pod_template_update(written: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    template, old_template = written.get("template") or {}, old.get("template") or {}
    errors = _metadata_update_errors(written, old)
    return errors + validate_pod_template(template, ROOT / "template", review, old_template)


def _pod_template_warnings(written: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    template, old_template = written.get("template") or {}, (old or {}).get("template")
    if old is None or differs("core.PodTemplateSpec", old_template, template):
        yield from pod_template_warnings(template, ROOT / "template", old_template)


def name_warnings(workload: JSONObject) -> Iterator[str]:
    """Warn that a name makes no good names of Pods."""
    return host_name_warnings(workload, "this is used in Pod names and hostnames")


def is_new_generation(workload: JSONObject, old: JSONObject | None) -> bool:
    """Tell whether an object is created, or an update of it is counted."""
    if old is None:
        return True
    counts = [(held.get("metadata") or {}).get("generation") for held in (workload, old)]
    return counts[0] != counts[1] if all(counts) else _spec_of(workload) != _spec_of(old)


def _template_warnings(workload: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    if old is None:
        yield from name_warnings(workload)
    if is_new_generation(workload, old):
        template, before = _spec_of(workload).get("template") or {}, _spec_of(old).get("template")
        yield from pod_template_warnings(template, _TEMPLATE, before)


def _daemon_set_warnings(daemon_set: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    """Warn of a template that is new or changes."""
    template, before = _spec_of(daemon_set).get("template") or {}, _spec_of(old).get("template")
    if old is None or differs("core.PodTemplateSpec", before, template):
        yield from pod_template_warnings(template, _TEMPLATE, before)


def _controller_warnings(controller: JSONObject, old: JSONObject | None, review: Review) -> Iterator[str]:
    """Warn of the template; of an update, the API server warns of the one that was, as if it came after the other."""
    if old is None:
        yield from _template_warnings(controller, None, review)
    elif is_new_generation(controller, old):
        template, changed = _spec_of(old).get("template") or {}, _spec_of(controller).get("template")
        yield from pod_template_warnings(template, _TEMPLATE, changed)


VALIDATIONS: ValidationTable = {
    ("apps", "deployments"): KindValidation(_deployment, _deployment_update, _template_warnings),
    ("apps", "replicasets"): KindValidation(_replica_set, _replica_set_update, _template_warnings),
    ("apps", "daemonsets"): KindValidation(_daemon_set, _daemon_set_update, _daemon_set_warnings),
    ("", "podtemplates"): KindValidation(_pod_template, _pod_template_update, _pod_template_warnings),
    ("", "replicationcontrollers"): KindValidation(_controller, _controller_update, _controller_warnings),
}
