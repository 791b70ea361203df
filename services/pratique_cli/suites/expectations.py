"""Expectations as they are written, read: patterns compiled, files read, words checked."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import msgspec

from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.regexes import compile_pattern
from pratique.definitions import Phase
from pratique.json_values import json_type
from pratique.parts import Ending
from pratique_cli.suites.cases import Expectation, ExpectedStep, Pattern
from pratique_cli.suites.decoding import meant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.field_errors import Step
    from pratique_cli.suites.forms import ExpectForm, StepForm
    from pratique_cli.suites.references import References

    Path = tuple[Step, ...]

_WORDS: tuple[tuple[str, type[Phase | Ending]], ...] = (("phase", Phase), ("outcome", Ending))
"""Members of a step that can only be one of a few words."""


def read_expectation(form: ExpectForm, path: Path, references: References) -> Expectation:
    """Read one expectation; what is wrong is collected in ``references``."""
    if form == type(form)():
        references.complain(
            path, "nothing is expected: write allowed, message, object, steps or another member"
        )
    return Expectation(
        path=path,
        allowed=form.allowed,
        code=form.code,
        reason=form.reason,
        message=_pattern(form.message, (*path, "message"), references),
        warnings=_patterns(form.warnings, (*path, "warnings"), references),
        audit_annotations=form.audit_annotations,
        object=references.object_of(form.object, (*path, "object")),
        contains=references.object_of(form.contains, (*path, "contains")),
        patch=_patch(form, path, references),
        unchanged=form.unchanged,
        steps=_steps(form.steps, (*path, "steps"), references),
        expanded=_expanded(form.expanded, (*path, "expanded"), references),
        fixed_point=form.fixed_point,
    )


def _pattern(text: str | None, path: Path, references: References) -> Pattern | None:
    if text is None:
        return None
    try:
        return Pattern(text, compile_pattern(text))
    except EvaluationError as error:
        references.complain(path, str(error))
        return None


def _patterns(texts: Iterable[str] | None, path: Path, references: References) -> tuple[Pattern, ...] | None:
    if texts is None:
        return None
    found = [_pattern(text, (*path, index), references) for index, text in enumerate(texts)]
    return tuple(each for each in found if each is not None)


def _patch(form: ExpectForm, path: Path, references: References) -> tuple[dict[str, object], ...] | None:
    for index, operation in enumerate(form.patch or ()):
        if not isinstance(operation, dict):
            text = f"must be a JSON Patch operation, not {json_type(operation)}"
            references.complain((*path, "patch", index), text)
    return form.patch


def _steps(
    forms: Iterable[StepForm] | None, path: Path, references: References
) -> tuple[ExpectedStep, ...] | None:
    if forms is None:
        return None
    return tuple(_step(form, (*path, index), references) for index, form in enumerate(forms))


def _step(form: StepForm, path: Path, references: References) -> ExpectedStep:
    members = {name: value for name, value in msgspec.structs.asdict(form).items() if value is not None}
    if not members:
        references.complain(
            path, "an empty step would be any: write controller, name, outcome or another member"
        )
    for name, words in _WORDS:
        if name in members and members[name] not in list(words):
            text = f'there is no {name} "{members[name]}"; {meant(members[name], words)}'
            references.complain((*path, name), text)
    reason = _pattern(members.pop("reason", None), (*path, "reason"), references)
    return ExpectedStep(members, reason)


def _expanded(
    forms: Iterable[ExpectForm] | None, path: Path, references: References
) -> tuple[Expectation, ...] | None:
    if forms is None:
        return None
    read = (read_expectation(form, (*path, index), references) for index, form in enumerate(forms))
    return tuple(_of_pod(each, references) for each in read)


def _of_pod(expectation: Expectation, references: References) -> Expectation:
    """Refuse what a Pod cannot have: Pods of its own."""
    if expectation.expanded is not None:
        references.complain((*expectation.path, "expanded"), "a Pod makes no Pods")
    return dataclasses.replace(expectation, expanded=None)
