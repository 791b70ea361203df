"""The status of Jobs: what other controllers may make of it.

An update is held against a rule only if it changes what the rule is about, so that a status that breaks one already can
be updated elsewhere.

Sources: ``ValidateJobUpdateStatus`` of ``pkg/apis/batch/validation/validation.go``, and
``getStatusValidationOptions`` of ``pkg/registry/batch/job/strategy.go``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import (
    OMITTED,
    ROOT,
    FieldError,
    FieldPath,
    duplicate,
    invalid,
    required,
)
from pratique.apimachinery.go_formats import parse_int64
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.go_values import differs, internal_value
from pratique.registry.validation.conditions import has_condition
from pratique.registry.validation.kind_validation import SubresourceTable, SubresourceValidation
from pratique.registry.validation.metadata import FIELD_IS_IMMUTABLE, validate_nonnegative

_STATUS = ROOT / "status"
_CONDITIONS = _STATUS / "conditions"
_UNCOUNTED = "*batch.UncountedTerminatedPods"
_COUNTS = ("active", "succeeded", "failed", "ready", "terminating")


class _JobStatus:
    """The parts of a Job's status that rules are about."""

    def __init__(self, job: JSONObject) -> None:
        self.status = status = mapping_at(job, "status")
        self.conditions = list_at(status, "conditions")
        self.is_complete = self.has("Complete")
        self.is_failed = self.has("Failed")
        self.is_finished = self.is_complete or self.is_failed
        self.is_failure_target = self.has("FailureTarget")
        self.is_success = self.has("SuccessCriteriaMet")
        self.active: int = status.get("active", 0)
        self.start, self.completion = status.get("startTime"), status.get("completionTime")
        self.completed: str = status.get("completedIndexes", "")
        self.failed: str | None = status.get("failedIndexes")
        self.uncounted = status.get("uncountedTerminatedPods")

    def has(self, type_: str, status: str = "True") -> bool:
        """Tell whether a condition has a status."""
        return has_condition(self.conditions, type_, status)


def _validate(job: JSONObject, old_job: JSONObject, _: Review) -> Iterator[FieldError]:
    new, old, spec = _JobStatus(job), _JobStatus(old_job), mapping_at(job, "spec")
    for name in _COUNTS:
        yield from validate_nonnegative(new.status.get(name), _STATUS / name)
    yield from _validate_uncounted(new.uncounted or {})
    yield from _validate_conditions(new, old)
    yield from _validate_finished(new, old, spec)
    yield from _validate_indexes(new, old, spec)
    yield from _validate_pods(new, old)
    yield from _validate_success(new, spec)
    yield from _validate_changes(new, old, spec)


def _validate_uncounted(uncounted: JSONObject) -> Iterator[FieldError]:
    known: set[str] = set()
    for field in ("succeeded", "failed"):
        for index, uid in enumerate(list_at(uncounted, field)):
            path = _STATUS / "uncountedTerminatedPods" / field / index
            if not uid:
                yield invalid(path, uid, "must not be empty")
            elif uid in known:
                yield duplicate(path, uid)
            known.add(uid)


def _of_conditions(detail: str) -> FieldError:
    return invalid(_CONDITIONS, OMITTED, detail)


def _validate_conditions(new: _JobStatus, old: _JobStatus) -> Iterator[FieldError]:
    is_complete_changed, is_failed_changed = (
        new.is_complete != old.is_complete,
        new.is_failed != old.is_failed,
    )
    completed_at_changed = is_complete_changed or new.completion != old.completion
    path = _STATUS / "completionTime"
    if new.is_complete and new.is_failed and (is_complete_changed or is_failed_changed):
        yield _of_conditions("cannot set Complete=True and Failed=true conditions")
    is_target_changed = new.is_failure_target != old.is_failure_target
    if new.is_complete and new.is_failure_target and (is_complete_changed or is_target_changed):
        yield _of_conditions("cannot set Complete=True and FailureTarget=true conditions")
    if new.completion is not None and not new.is_complete and completed_at_changed:
        detail = "cannot set completionTime when there is no Complete=True condition"
        yield invalid(path, new.completion, detail)
    if new.completion is None and new.is_complete and completed_at_changed:
        yield required(path, "completionTime is required for Complete jobs")
    is_time_changed = new.start != old.start or new.completion != old.completion
    if new.start and new.completion and new.completion < new.start and is_time_changed:
        yield invalid(path, new.completion, "must be equal to or after `startTime`")
    if new.is_failed and not new.is_failure_target and (is_failed_changed or new.failed != old.failed):
        yield _of_conditions("cannot set Failed=True condition without the FailureTarget=true condition")
    if new.is_complete and not new.is_success and (is_complete_changed or new.is_success != old.is_success):
        yield _of_conditions(
            "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        )


def _validate_finished(new: _JobStatus, old: _JobStatus, spec: JSONObject) -> Iterator[FieldError]:
    if not new.is_finished:
        return
    is_changed = not old.is_finished
    if new.active > 0 and (is_changed or new.active != old.active):
        yield invalid(_STATUS / "active", new.active, "active>0 is invalid for finished job")
    is_empty = spec.get("suspend") is True and spec.get("completions") == 0
    if new.start is None and (is_changed or old.start is not None) and not is_empty:
        yield required(_STATUS / "startTime", "startTime is required for finished job")
    pods = new.uncounted or {}
    has_uncounted = bool(list_at(pods, "failed") or list_at(pods, "succeeded"))
    if has_uncounted and (is_changed or differs(_UNCOUNTED, old.uncounted, new.uncounted)):
        value = internal_value("batch.UncountedTerminatedPods", pods)
        yield invalid(_STATUS / "uncountedTerminatedPods", value, "must be empty for finished job")


# Indexes


def _validate_indexes(new: _JobStatus, old: _JobStatus, spec: JSONObject) -> Iterator[FieldError]:
    completions, limit = spec.get("completions"), spec.get("backoffLimitPerIndex")
    completed_path, failed_path = _STATUS / "completedIndexes", _STATUS / "failedIndexes"
    is_completed_changed, is_failed_changed = new.completed != old.completed, new.failed != old.failed
    if is_completed_changed and completions is not None:
        yield from _of_format(new.completed, completions, completed_path)
    if is_failed_changed and completions is not None and limit is not None and new.failed is not None:
        yield from _of_format(new.failed, completions, failed_path)
    if is_completed_changed and new.completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid(completed_path, new.completed, detail)
    if is_failed_changed and limit is None and new.failed is not None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid(failed_path, new.failed, detail)
    if (is_completed_changed or is_failed_changed) and completions is not None and new.failed is not None:
        overlap = _overlap(new.completed, new.failed, completions)
        if overlap is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {overlap}"
            yield invalid(failed_path, new.failed, detail)


class _IndexError(Exception):
    """Indexes are malformed, in Go's words."""


def _of_format(indexes: str, completions: int, path: FieldPath) -> Iterator[FieldError]:
    try:
        _check_format(indexes, completions)
    except _IndexError as error:
        yield invalid(path, indexes, f"error parsing {path.steps[-1]}: {error}")


def _check_format(indexes: str, completions: int) -> None:
    """``validateIndexesFormat``."""
    last: int | None = None
    for text in indexes.split(",") if indexes else ():
        first, end = _interval(text, completions)
        if last is not None and last >= first:
            raise _IndexError(f"non-increasing order, previous: {last}, current: {first}")
        last = end


def _interval(text: str, completions: int) -> tuple[int, int]:
    """The first and the last index of an interval: ``parseIndexInterval``."""
    limits = text.split("-")
    if len(limits) > 2:
        detail = "violates the requirement that an index interval can have at most two parts separated by '-'"
        raise _IndexError(f"the fragment {go_quoted(text)} {detail}")
    first = _index(limits[0], completions)
    if len(limits) == 1:
        return first, first
    last = _index(limits[1], completions)
    if first >= last:
        raise _IndexError(f"non-increasing order, previous: {first}, current: {last}")
    return first, last


def _index(text: str, completions: int) -> int:
    try:
        number = parse_int64(text, "Atoi")
    except ValueError:
        raise _IndexError(f"cannot convert string to integer for index: {go_quoted(text)}") from None
    if number >= completions:
        raise _IndexError(f"too large index: {go_quoted(text)}")
    return number


def _overlap(completed: str, failed: str, completions: int) -> int | None:
    """The first index that has both completed and failed; None if there is none."""
    pairs = (_valid_intervals(completed, completions), _valid_intervals(failed, completions))
    done, broken = pairs
    place, other = 0, 0
    while place < len(done) and other < len(broken):
        (first, last), (from_, to) = done[place], broken[other]
        if first <= to and from_ <= last:
            return max(first, from_)
        if first <= from_:
            place += 1
        else:
            other += 1
    return None


def _valid_intervals(indexes: str, completions: int) -> list[tuple[int, int]]:
    found = []
    for text in indexes.split(",") if indexes else ():
        try:
            found.append(_interval(text, completions))
        except _IndexError:
            continue  # what is malformed is an error of its own
    return found


# Pods, success and changes


def _validate_pods(new: _JobStatus, old: _JobStatus) -> Iterator[FieldError]:
    terminating, ready = new.status.get("terminating"), new.status.get("ready")
    is_finished_changed = new.is_finished != old.is_finished
    is_terminating_changed = terminating != old.status.get("terminating")
    if (
        terminating
        and terminating > 0
        and new.is_finished
        and (is_finished_changed or is_terminating_changed)
    ):
        yield invalid(_STATUS / "terminating", terminating, "terminating>0 is invalid for finished job")
    is_changed = ready != old.status.get("ready") or new.active != old.active
    if ready is not None and ready > new.active and is_changed:
        yield invalid(_STATUS / "ready", ready, "cannot set more ready pods than active")


def _validate_success(new: _JobStatus, spec: JSONObject) -> Iterator[FieldError]:
    if new.is_success and new.is_failed:
        yield _of_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if new.is_success and new.is_failure_target:
        yield _of_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    if spec.get("successPolicy") is not None and not new.is_success and new.is_complete:
        yield _of_conditions(
            "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        )


def _validate_changes(new: _JobStatus, old: _JobStatus, spec: JSONObject) -> Iterator[FieldError]:
    for type_ in ("Failed", "Complete", "FailureTarget"):
        if old.has(type_) and not new.has(type_):
            yield _of_conditions(f"cannot disable the terminal {type_}=True condition")
    is_elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get(
        "parallelism"
    )
    for name in ("failed", "succeeded"):
        count = new.status.get(name, 0)
        if count < old.status.get(name, 0) and not (name == "succeeded" and is_elastic):
            yield invalid(_STATUS / name, count, f"cannot decrease the {name} counter")
    if new.completion and old.completion and new.completion != old.completion:
        yield invalid(_STATUS / "completionTime", new.completion, FIELD_IS_IMMUTABLE)
    is_resuming = old.has("Suspended") and new.has("Suspended", "False")
    if old.start and new.start != old.start and not spec.get("suspend") and not is_resuming:
        start: JSON = new.start
        yield invalid(_STATUS / "startTime", start, "field is immutable for unsuspended job once set")
    if old.is_success and not new.is_success:
        yield _of_conditions("cannot disable the SuccessCriteriaMet=True condition")
    if old.is_complete and not old.is_success and new.is_success:
        yield _of_conditions(
            "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        )


SUBRESOURCE_VALIDATIONS: SubresourceTable = {("batch", "jobs", "status"): SubresourceValidation(_validate)}
"""What updates of the status of Jobs are validated with."""
