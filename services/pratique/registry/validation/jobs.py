"""Jobs and CronJobs.

Source: ``pkg/apis/batch/validation/validation.go``.
"""

from __future__ import annotations

import zoneinfo
from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    invalid,
    json_text,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.job_policies import validate_failure_policy, validate_success_policy
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    subdomain_name,
    validate_immutable,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
    validate_nonnegative,
)
from pratique.registry.validation.networking import validate_prefixed_path
from pratique.registry.validation.pod_spec import validate_pod_template
from pratique.registry.validation.pod_warnings import pod_template_warnings
from pratique.registry.validation.schedules import schedule_fault
from pratique.registry.validation.workloads import (
    is_new_generation,
    name_warnings,
    selector_value,
    selects,
    validate_selected,
    validate_selector_update,
)

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_NUMBERS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_MODES = ("NonIndexed", "Indexed")
_INDEXED = "requires indexed completion mode"
_MAX_PARALLELISM = _MAX_FAILED = _MANY_COMPLETIONS = 100_000
_MOST_OF_MANY = 10_000
"""The most parallel Pods, and the most failed indexes, of a Job with more completions than that."""
_LONGEST_MANAGER = 63


def _job_spec(spec: JSONObject, old_spec: JSONObject, path: FieldPath, review: Review) -> list[FieldError]:
    """Validate what Jobs and the templates of CronJobs have in common: ``validateJobSpec``."""
    errors = [error for name in _NUMBERS for error in validate_nonnegative(spec.get(name), path / name)]
    failed, per_index = spec.get("maxFailedIndexes"), spec.get("backoffLimitPerIndex")
    if failed is not None and per_index is None:
        error = required(path / "backoffLimitPerIndex", "when maxFailedIndexes is specified")
        errors += covered(error, "dependentRequired")
    manager, place = spec.get("managedBy"), path / "managedBy"
    if manager is not None:
        errors += validate_prefixed_path(manager, place)
        if len(manager.encode()) > _LONGEST_MANAGER:
            errors.append(too_long(place, _LONGEST_MANAGER))
    mode = spec.get("completionMode")
    if mode is not None and mode not in _MODES:
        errors.append(not_supported(path / "completionMode", mode, _MODES))
    if mode == "Indexed":
        errors += _validate_indexed(spec, path)
    elif mode in {None, "NonIndexed"}:
        errors += [
            invalid(path / name, spec[name], _INDEXED)
            for name in ("backoffLimitPerIndex", "maxFailedIndexes")
            if spec.get(name) is not None
        ]
    if spec.get("podFailurePolicy") is not None:
        errors += validate_failure_policy(spec, path / "podFailurePolicy")
    if (success := spec.get("successPolicy")) is not None:
        if mode == "Indexed":
            errors += validate_success_policy(spec, path / "successPolicy")
        else:
            value = internal_value("batch.SuccessPolicy", success)
            errors.append(invalid(path / "successPolicy", value, _INDEXED))
    errors += _validate_replacement(spec, path / "podReplacementPolicy")
    template = spec.get("template") or {}
    errors += validate_pod_template(template, path / "template", review, old_spec.get("template"))
    return errors + _validate_restarts(spec, path / "template" / "spec" / "restartPolicy")


def _validate_indexed(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    errors = []
    if completions is None:
        errors.append(required(path / "completions", "when completion mode is Indexed"))
    if (spec.get("parallelism") or 0) > _MAX_PARALLELISM:
        detail = f"must be less than or equal to {_MAX_PARALLELISM} when completion mode is Indexed"
        errors.append(invalid(path / "parallelism", spec["parallelism"], detail))
    if completions is not None and failed is not None and failed > completions:
        detail = "must be less than or equal to completions"
        errors.append(invalid(path / "maxFailedIndexes", failed, detail))
    if (failed or 0) > _MAX_FAILED:
        detail = f"must be less than or equal to {_MAX_FAILED}"
        errors.append(invalid(path / "maxFailedIndexes", failed, detail))
    if (completions or 0) > _MANY_COMPLETIONS and spec.get("backoffLimitPerIndex") is not None:
        errors += _validate_many(spec, path)
    return errors


def _validate_many(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the limits of Jobs with very many indexes that each have a number of retries."""
    errors = []
    if spec.get("maxFailedIndexes") is None:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        errors.append(required(path / "maxFailedIndexes", detail))
    for name in ("parallelism", "maxFailedIndexes"):
        if (spec.get(name) or 0) > _MOST_OF_MANY:
            detail = (
                f"must be less than or equal to {_MOST_OF_MANY} when completions are above {_MANY_COMPLETIONS}"
                " and used with backoff limit per index"
            )
            errors.append(invalid(path / name, spec[name], detail))
    return errors


def _validate_replacement(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    if spec.get("podFailurePolicy") is not None:
        return [] if policy == "Failed" else [not_supported(path, policy, ("Failed",))]
    known = ("TerminatingOrFailed", "Failed")
    return [] if policy in known else [not_supported(path, policy, sorted(known))]


def _validate_restarts(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "")
    if policy in {"", "Always"}:
        return [required(path, 'valid values: "OnFailure", "Never"')]
    if policy not in {"OnFailure", "Never"}:
        return [not_supported(path, policy, ("OnFailure", "Never"))]
    if spec.get("podFailurePolicy") is not None and policy != "Never":
        return [invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')]
    return []


def _whole_job_spec(spec: JSONObject, old_spec: JSONObject, review: Review) -> list[FieldError]:
    errors = _job_spec(spec, old_spec, _SPEC, review)
    selector = spec.get("selector")
    found = validate_label_selector(selector, _SPEC / "selector")
    errors += [required(_SPEC / "selector")] if selector is None else found
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if not found:
        errors += validate_selected(selector, labels, _SPEC / "template" / "metadata" / "labels")
    return errors


def _job(job: JSONObject, review: Review) -> list[FieldError]:
    metadata, spec = job.get("metadata") or {}, job.get("spec") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    errors += _validate_generated(spec)
    return errors + _whole_job_spec(spec, {}, review) + _validate_pod_names(metadata, spec)


_GENERATED = (
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-uid",
    "job-name",
)


def _validate_generated(spec: JSONObject) -> list[FieldError]:
    """Refuse a selector that asks for more than the labels that a Job gives its Pods: ``validateGeneratedSelector``."""
    selector, template = spec.get("selector"), spec.get("template") or {}
    if (
        spec.get("manualSelector") is True
        or not selector
        or validate_label_selector(selector, _SPEC / "selector")
    ):
        return []
    labels = (template.get("metadata") or {}).get("labels") or {}
    if selects(selector, {name: labels[name] for name in _GENERATED if name in labels}):
        return []
    return [invalid(_SPEC / "selector", selector_value(selector), "`selector` not auto-generated")]


def _validate_pod_names(metadata: JSONObject, spec: JSONObject) -> list[FieldError]:
    """Validate that the highest index makes a host name with the Job's name."""
    name, completions = metadata.get("name", ""), spec.get("completions") or 0
    if spec.get("completionMode") != "Indexed" or completions <= 0:
        return []
    highest = f"{name}-{completions - 1}"
    if not names.check_dns1123_label(highest):
        return []
    detail = f"will not able to create pod with invalid DNS label: {highest}"
    return [invalid(_METADATA / "name", name, detail)]


_IMMUTABLE = {
    "completionMode": "*string",
    "podFailurePolicy": "*batch.PodFailurePolicy",
    "backoffLimitPerIndex": "*int32",
    "managedBy": "*string",
    "successPolicy": "*batch.SuccessPolicy",
}
"""Fields that no update changes, and their types."""


def _job_update(job: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    spec, old_spec = job.get("spec") or {}, old.get("spec") or {}
    metadata = job.get("metadata") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    errors += _whole_job_spec(spec, old_spec, review)
    errors += _validate_completions(spec, old_spec)
    errors += validate_selector_update(spec, old_spec)
    errors += _validate_template_update(spec.get("template") or {}, old)
    for name, type_ in _IMMUTABLE.items():
        if differs(type_, old_spec.get(name), spec.get(name)):
            value = internal_value(type_, spec.get(name))
            errors.append(invalid(_SPEC / name, value, FIELD_IS_IMMUTABLE))
    return errors + _validate_pod_names(metadata, spec)


def _validate_template_update(template: JSONObject, old: JSONObject) -> list[FieldError]:
    """Refuse changes of the template, but where and how Pods of a suspended Job are to run."""
    stored = (old.get("spec") or {}).get("template") or {}
    if not _is_suspended(old):
        if not differs("core.PodTemplateSpec", stored, template):
            return []
        value = internal_value("core.PodTemplateSpec", template)
        return [invalid(_SPEC / "template", value, FIELD_IS_IMMUTABLE)]
    pod = template.get("spec") or {}
    if not differs("core.PodSpec", _with_what_may_change(stored.get("spec") or {}, pod), pod):
        return []
    path = _SPEC / "template" / "spec"
    return [invalid(path, internal_value("core.PodSpec", pod), FIELD_IS_IMMUTABLE)]


def _is_suspended(job: JSONObject) -> bool:
    """Whether a Job is suspended and has no Pods: ``shouldAllowMutablePodTemplate``."""
    status = job.get("status") or {}
    has_stopped = any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    is_idle = not status.get("active") and (has_stopped or status.get("startTime") is None)
    return is_idle and (job.get("spec") or {}).get("suspend") is True


_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates")


def _with_what_may_change(pod: JSONObject, changed: JSONObject) -> JSONObject:
    """The stored specification of Pods with what an update may change as it is to be."""
    kept = {**pod, **{name: changed.get(name) for name in _DIRECTIVES}}
    affinity, stored = changed.get("affinity"), pod.get("affinity")
    if affinity is not None:
        kept["affinity"] = {**(stored or {}), "nodeAffinity": affinity.get("nodeAffinity")}
    elif stored is not None:
        others = {name: value for name, value in stored.items() if name != "nodeAffinity"}
        kept["affinity"] = others or None
    for field in ("containers", "initContainers"):
        before, after = pod.get(field) or [], changed.get(field) or []
        if len(before) == len(after):
            kept[field] = [_with_resources(*pair) for pair in zip(before, after, strict=True)]
    return kept


def _with_resources(container: JSONObject, changed: JSONObject) -> JSONObject:
    is_same = container.get("name") == changed.get("name")
    return {**container, "resources": changed.get("resources")} if is_same else container


def _validate_completions(spec: JSONObject, old_spec: JSONObject) -> list[FieldError]:
    completions, before, path = spec.get("completions"), old_spec.get("completions"), _SPEC / "completions"
    if spec.get("completionMode") != "Indexed":
        return validate_immutable(completions, before, path)
    if completions in {before, None} or completions == spec.get("parallelism"):
        return []
    return [invalid(path, completions, "can only be modified in tandem with spec.parallelism")]


_CONCURRENCY = ("Allow", "Forbid", "Replace")
_MAX_NAME = 52


def _cron_spec(spec: JSONObject, old_spec: JSONObject | None, review: Review) -> list[FieldError]:
    schedule, zone, path = spec.get("schedule", ""), spec.get("timeZone"), _SPEC / "schedule"
    errors = [] if schedule else covered(required(path))
    if schedule:
        had_zone = "TZ" in (old_spec or {}).get("schedule", "")
        errors += _validate_schedule(schedule, zone, path, had_zone=had_zone)
    deadline = spec.get("startingDeadlineSeconds")
    errors += validate_nonnegative(deadline, _SPEC / "startingDeadlineSeconds")
    if zone is not None and (old_spec is None or old_spec.get("timeZone") != zone):
        errors += _validate_zone(zone, _SPEC / "timeZone")
    policy, path = spec.get("concurrencyPolicy", ""), _SPEC / "concurrencyPolicy"
    if not policy:
        errors.append(required(path))
    elif policy not in _CONCURRENCY:
        errors.append(not_supported(path, policy, _CONCURRENCY))
    errors += _validate_job_template(spec, old_spec or {}, review)
    for name in ("successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
        errors += validate_nonnegative(spec.get(name), _SPEC / name)
    return errors


def _validate_job_template(spec: JSONObject, old_spec: JSONObject, review: Review) -> list[FieldError]:
    path = _SPEC / "jobTemplate" / "spec"
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors = _job_spec(job, (old_spec.get("jobTemplate") or {}).get("spec") or {}, path, review)
    if (selector := job.get("selector")) is not None:
        errors.append(
            invalid(path / "selector", selector_value(selector), "`selector` will be auto-generated")
        )
    if job.get("manualSelector") is True:
        errors.append(not_supported(path / "manualSelector", True, ("nil", "false")))
    return errors


def _validate_schedule(
    schedule: str, zone: str | None, path: FieldPath, *, had_zone: bool
) -> list[FieldError]:
    fault = schedule_fault(schedule)
    errors = [invalid(path, schedule, fault)] if fault else []
    if "TZ" not in schedule:
        return errors
    if not had_zone:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        errors.append(invalid(path, schedule, detail))
    elif zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        errors.append(invalid(path, schedule, detail))
    return errors


_ZONE_PART = pattern(r"[A-Za-z0-9.\-_+]{1,14}")


def _validate_zone(zone: str, path: FieldPath) -> list[FieldError]:
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    unknown = invalid(path, json_text(zone), f"unknown time zone {zone}")
    if any(
        part in {".", ".."} or part.startswith("-") or not _ZONE_PART.fullmatch(part)
        for part in zone.split("/")
    ):
        return [unknown]
    errors = []
    if zone.lower() == "local":
        detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        errors.append(invalid(path, zone, detail))
    if zone in {"UTC", "Local"}:
        return errors
    try:
        zoneinfo.ZoneInfo(zone)
    except (OSError, ValueError, zoneinfo.ZoneInfoNotFoundError):
        errors.append(unknown)
    return errors


def _cron_job(cron_job: JSONObject, review: Review) -> list[FieldError]:
    metadata = cron_job.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    errors += _cron_spec(cron_job.get("spec") or {}, None, review)
    name = metadata.get("name", "")
    if len(name.encode()) > _MAX_NAME:
        errors.append(invalid(_METADATA / "name", name, f"must be no more than {_MAX_NAME} characters"))
    return errors


def _cron_job_update(cron_job: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    metadata = cron_job.get("metadata") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    return errors + _cron_spec(cron_job.get("spec") or {}, old.get("spec") or {}, review)


_MANY_AT_ONCE = (
    "In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might"
    " not be able to track completedIndexes when a big number of indexes fail"
)


def _job_spec_warnings(spec: JSONObject, path: FieldPath, old_spec: JSONObject) -> Iterator[str]:
    """``WarningsForJobSpec``."""
    is_large = (spec.get("completions") or 0) > _MANY_COMPLETIONS
    if (
        spec.get("completionMode") == "Indexed"
        and is_large
        and (spec.get("parallelism") or 0) > _MOST_OF_MANY
    ):
        yield f"{path}: {_MANY_AT_ONCE}"
    yield from pod_template_warnings(spec.get("template") or {}, path / "template", old_spec.get("template"))


def _job_warnings(job: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    if old is None:
        yield from name_warnings(job)
    if is_new_generation(job, old):
        yield from _job_spec_warnings(job.get("spec") or {}, _SPEC, (old or {}).get("spec") or {})


def _cron_job_warnings(cron_job: JSONObject, old: JSONObject | None, _: Review) -> Iterator[str]:
    if old is None:
        yield from name_warnings(cron_job)
    if is_new_generation(cron_job, old):
        spec, old_spec = (
            (((held or {}).get("spec") or {}).get("jobTemplate") or {}).get("spec") or {}
            for held in (cron_job, old)
        )
        yield from _job_spec_warnings(spec, _SPEC / "jobTemplate" / "spec", old_spec)
    if old is not None and "TZ" in ((cron_job.get("spec") or {}).get("schedule") or ""):
        advice = "see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        yield f"cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, {advice}"


VALIDATIONS: ValidationTable = {
    ("batch", "jobs"): KindValidation(_job, _job_update, _job_warnings),
    ("batch", "cronjobs"): KindValidation(_cron_job, _cron_job_update, _cron_job_warnings),
}
