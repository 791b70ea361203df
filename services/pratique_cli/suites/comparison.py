"""Comparing what a review decided with what a case expects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from pratique.apimachinery.diff import identical
from pratique.apimachinery.json_values import JSON, encode, json_type
from pratique.apimachinery.statuses import Status
from pratique_cli.outputs.changes import ObjectPath, difference, path_text
from pratique_cli.suites.cases import Expectation, ExpectationMismatch, ExpectedStep, ObservedDecision
from pratique_frontdoor.chain.decisions import Step
from pratique_frontdoor.recording.redaction import concerns_secret

_MAX_SHOWN = 200
"""The most characters of a value to print; longer values are easier to read in the file."""
_MAX_NEAREST = 3
"""The most similar steps to print for a missing one."""


def missing_parts(
    expected: JSON, got: JSON, path: ObjectPath, *, hidden: bool = False, inside: ObjectPath = ()
) -> Iterator[ExpectationMismatch]:
    """Yield the places where ``got`` does not contain ``expected``.

    A mapping must contain the expected members. A list must have the expected length, and each element must contain
    the expected one. Anything else must be equal. ``path`` is the path of ``expected`` in the suite, ``inside`` its
    path in the object; ``hidden`` hides the values.
    """
    if isinstance(expected, dict) and isinstance(got, dict):
        for name, value in expected.items():
            place, further = (*path, name), (*inside, name)
            if name in got:
                yield from missing_parts(value, got[name], place, hidden=hidden, inside=further)
            else:
                yield ExpectationMismatch(
                    place, f"{path_text(further)} {_value_text(value, hidden=hidden)}", "nothing there"
                )
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        for index, value in enumerate(expected):
            place, further = (*path, index), (*inside, index)
            yield from missing_parts(value, got[index], place, hidden=hidden, inside=further)
    elif not identical(expected, got):
        yield ExpectationMismatch(
            path,
            f"{path_text(inside)} {_expected_text(expected, got, hidden=hidden)}",
            _value_text(got, hidden=hidden),
        )


def _expected_text(expected: JSON, got: JSON, *, hidden: bool) -> str:
    if isinstance(expected, list) and isinstance(got, list):
        return f"to be a list of {len(expected)}, not of {len(got)}"
    return _value_text(expected, hidden=hidden)


def _value_text(value: JSON, *, hidden: bool) -> str:
    if hidden:
        return f"({json_type(value)}, hidden)"
    text = encode(value).decode()
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"


def missing_step(
    expected: Sequence[ExpectedStep], steps: Sequence[Step], path: ObjectPath
) -> ExpectationMismatch | None:
    """Find the first expected step that does not occur after those before it; None if all occur in order."""
    begun = 0
    for index, expected_step in enumerate(expected):
        found = next((at for at in range(begun, len(steps)) if _matches(expected_step, steps[at])), None)
        if found is None:
            return ExpectationMismatch(
                (*path, index),
                f"a step {_expected_step_text(expected_step)}",
                _nearest_steps(expected_step, steps, begun),
            )
        begun = found + 1
    return None


def _matches(expected: ExpectedStep, step: Step) -> bool:
    if any(getattr(step, name) != value for name, value in expected.members.items()):
        return False
    return expected.reason is None or expected.reason.found_in(step.reason)


def _expected_step_text(expected: ExpectedStep) -> str:
    parts = [f"{name} {value}" for name, value in expected.members.items()]
    if expected.reason is not None:
        parts.append(f"reason that matches {expected.reason.text}")
    return f"({', '.join(parts)})"


def _nearest_steps(expected: ExpectedStep, steps: Sequence[Step], begun: int) -> str:
    """Describe the most similar steps: those that agree in most members."""
    if any(_matches(expected, step) for step in steps[:begun]):
        return (
            f"it only before the step that matched the previous expectation: {_step_text(steps[begun - 1])}"
        )
    agreeing = [(_agreement(expected, step), step) for step in steps]
    best = max((count for count, _ in agreeing), default=0)
    nearest = [_step_text(step) for count, step in agreeing if count == best and best > 0]
    return "; ".join(nearest[:_MAX_NEAREST]) or "no similar step"


def _agreement(expected: ExpectedStep, step: Step) -> int:
    return sum(getattr(step, name) == value for name, value in expected.members.items() if name != "phase")


def _step_text(step: Step) -> str:
    name = step.controller if step.name == step.controller else f"{step.controller} {step.name}"
    origin = f" ({step.configuration})" if step.configuration else ""
    reason = f": {step.reason}" if step.reason else ""
    return f"{name}{origin} {step.phase.value} {step.outcome.value}{reason}"


def compare(expected: Expectation, observed: ObservedDecision) -> tuple[ExpectationMismatch, ...]:
    """List all mismatches, in the order of the comparisons below."""
    return tuple(mismatch for comparison in _COMPARISONS for mismatch in comparison(expected, observed))


def _allowed(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    decision = observed.decision
    if expected.allowed not in (None, decision.allowed):
        wanted = "the request to be admitted" if expected.allowed else "the request to be denied"
        yield ExpectationMismatch((*expected.path, "allowed"), wanted, _decision_text(decision.status))


def _status(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    status = observed.decision.status
    for name in ("code", "reason"):
        wanted = getattr(expected, name)
        if wanted is not None and (status is None or getattr(status, name) != wanted):
            yield ExpectationMismatch((*expected.path, name), f"{name} {wanted}", _decision_text(status))
    pattern = expected.message
    if pattern is not None and (status is None or not pattern.found_in(status.message)):
        got = _decision_text(None) if status is None else _quoted(status.message)
        yield ExpectationMismatch(
            (*expected.path, "message"), f"a message that matches {_quoted(pattern.text)}", got
        )


def _warnings(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    path, warnings = (*expected.path, "warnings"), observed.decision.warnings
    if expected.warnings is None:
        return
    got = ", ".join(map(_quoted, warnings)) or "no warning"
    if not expected.warnings and warnings:
        yield ExpectationMismatch(path, "no warning", got)
    for index, pattern in enumerate(expected.warnings):
        if not any(map(pattern.found_in, warnings)):
            yield ExpectationMismatch((*path, index), f"a warning that matches {_quoted(pattern.text)}", got)


def _annotations(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    got = observed.decision.audit_annotations
    for key, value in (expected.audit_annotations or {}).items():
        if got.get(key) != value:
            came = (
                _quoted(got[key]) if key in got else f"none of that key ({', '.join(got) or 'none at all'})"
            )
            yield ExpectationMismatch(
                (*expected.path, "auditAnnotations", key), f"audit annotation {key} {_quoted(value)}", came
            )


def _object(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    got = observed.decision.object_document.data
    if expected.object is not None and not identical(expected.object, got):
        lines = tuple(difference(expected.object, got, in_secret=concerns_secret(observed.review)))
        came = "none" if got is None else "another one"
        yield ExpectationMismatch((*expected.path, "object"), "the object that is written there", came, lines)
    if expected.contains is not None:
        path = (*expected.path, "contains")
        yield from missing_parts(expected.contains, got, path, hidden=concerns_secret(observed.review))


def _patch(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    patch = list(observed.decision.patch)
    is_hidden = concerns_secret(observed.review)
    if expected.patch is not None and not identical(list(expected.patch), patch):
        lines = () if is_hidden else tuple(difference(list(expected.patch), patch))
        wanted, got = (_count_text(len(operations), "operation") for operations in (expected.patch, patch))
        yield ExpectationMismatch(
            (*expected.path, "patch"), f"the patch of {wanted} there", f"one of {got}", lines
        )
    if expected.unchanged is not None and expected.unchanged is bool(patch):
        wanted = "the object to stay as it is" if expected.unchanged else "the object to be changed"
        got = "it unchanged"
        if patch:
            got = "changes at " + ", ".join(operation["path"] or "the whole of it" for operation in patch)
        yield ExpectationMismatch((*expected.path, "unchanged"), wanted, got)


def _steps(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    if expected.steps is not None:
        found = missing_step(expected.steps, observed.decision.steps, (*expected.path, "steps"))
        yield from () if found is None else (found,)


def _pods(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    if expected.expanded is None:
        return
    if len(expected.expanded) != len(observed.pods):
        wanted, got = (_count_text(len(pods), "Pod") for pods in (expected.expanded, observed.pods))
        yield ExpectationMismatch((*expected.path, "expanded"), f"{wanted} to be made", got)
        return
    for expectation, pod in zip(expected.expanded, observed.pods, strict=True):
        yield from compare(expectation, pod)


def _fixed_point(expected: Expectation, observed: ObservedDecision) -> Iterator[ExpectationMismatch]:
    if expected.fixed_point is None or observed.repeated is None:
        return
    path, repeated = (*expected.path, "fixedPoint"), observed.repeated
    before, after = observed.decision.object_document.data, repeated.object_document.data
    if repeated.status is not None:
        if expected.fixed_point:
            yield ExpectationMismatch(
                path, "nothing to happen in a second mutating phase", _decision_text(repeated.status)
            )
    elif expected.fixed_point and not identical(before, after):
        lines = tuple(difference(before, after, in_secret=concerns_secret(observed.review)))
        yield ExpectationMismatch(path, "a second mutating phase to change nothing", "another object", lines)
    elif not expected.fixed_point and identical(before, after):
        yield ExpectationMismatch(path, "a second mutating phase to change the object", "it unchanged")


_COMPARISONS: tuple[Callable[[Expectation, ObservedDecision], Iterator[ExpectationMismatch]], ...] = (
    _allowed,
    _status,
    _warnings,
    _annotations,
    _object,
    _patch,
    _steps,
    _pods,
    _fixed_point,
)


def _count_text(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _decision_text(status: Status | None) -> str:
    if status is None:
        return "it was admitted"
    return " ".join(
        filter(None, ("it was denied:", str(status.code), status.reason, _quoted(status.message)))
    )


def _quoted(text: str) -> str:
    return encode(text).decode()
