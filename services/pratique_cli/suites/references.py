"""Reading what a suite refers to: flags, files and objects, and expectations."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.documents import read_documents
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSON, json_type
from pratique.apimachinery.source_documents import SourceDocument, unwrap_lists
from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.regexes import compile_pattern
from pratique.configuration.settings import ChainSettings
from pratique_cli.chain_options import chain_flags
from pratique_cli.options import ExistingPath
from pratique_cli.outputs.changes import ObjectPath
from pratique_cli.suites.cases import Expectation, ExpectedStep, Pattern
from pratique_cli.suites.forms import ExpectForm, StepForm, suggestion

_MEMBERS = ("config", "cluster")
"""Flags that are members of a suite instead."""


class FlagError(ValueError):
    """A flag is unknown or has an invalid value; ``name`` is its name."""

    def __init__(self, name: str, problem: str) -> None:
        """Describe what is wrong with a flag."""
        super().__init__(problem)
        self.name = name


def read_flags(flags: Mapping[str, JSON], folder: Path) -> ChainSettings:
    """Make the settings of a chain from flags by name, such as ``enable-admission-plugins``.

    Lists are JSON lists or comma-separated; paths are relative to ``folder``.

    Raises:
        FlagError: a flag is unknown, or its value is invalid.
    """
    command = _command()
    by_name = {option.opts[-1].removeprefix("--"): option for option in command.params}
    options = {name: option for name, option in by_name.items() if name not in _MEMBERS}
    context = click.Context(command)
    values = {option.name or "": _default_value(option) for option in command.params}
    for name, value in flags.items():
        if name not in options:
            raise FlagError(name, f'unknown flag "{name}"; {_hint(name, options)}')
        option = options[name]
        try:
            values[option.name or ""] = option.type_cast_value(
                context, _command_line_value(value, option, folder)
            )
        except click.BadParameter as error:
            raise FlagError(name, f"{name}: {error.message}") from None
    callback: Any = command.callback
    settings: ChainSettings = callback(**values)
    return settings


@functools.cache
def _command() -> click.Command:
    @click.command
    @chain_flags
    def command(chain: ChainSettings) -> ChainSettings:
        """Return the settings."""
        return chain

    return command


def _hint(name: str, options: Mapping[str, click.Parameter]) -> str:
    plain = name.lstrip("-")
    if plain in _MEMBERS:
        return f"{plain} is a member of the suite itself"
    return suggestion(plain, options)


def _command_line_value(value: JSON, option: click.Parameter, folder: Path) -> JSON:
    """Convert a value to what the command line would pass."""
    if isinstance(value, dict) or value is None:
        raise click.BadParameter("write a string, a number, a boolean or a list")
    texts = [str(element) for element in value] if isinstance(value, list) else [str(value)]
    if isinstance(option.type, ExistingPath):
        texts = [os.path.normpath(folder / element) for element in texts]
    return ",".join(texts) if not option.multiple else [",".join(texts)]


def _default_value(option: click.Parameter) -> Any:
    """The value of a flag that is not given."""
    if option.multiple:
        return ()
    return False if getattr(option, "is_flag", False) else None


class References(msgspec.Struct):
    """Resolves the references of one suite, and collects problems."""

    document: SourceDocument
    """The document of the suite."""
    problems: list[InputError]
    """The problems, each at the position of the referring member."""
    _files: dict[Path, SourceDocument | str] = msgspec.field(default_factory=dict)
    """The objects of files that have been read, or the reason why not; cases share them."""

    @property
    def folder(self) -> Path:
        """The folder that paths are relative to."""
        return Path(self.document.file).parent

    def report_problem(self, path: Iterable[Step], problem: str) -> None:
        """Add a problem with a member."""
        self.problems.append(self.document.fault(tuple(path), problem))

    def path(self, text: str, path: ObjectPath) -> Path:
        """Resolve the file or folder that a member names."""
        found = Path(os.path.normpath(self.folder / text))
        if not text or not found.exists():
            self.report_problem(path, f"{found if text else 'an empty path'}: no such file or folder")
        return found

    def paths(self, texts: Iterable[str], path: ObjectPath) -> tuple[Path, ...]:
        """Resolve the files and folders that a list names."""
        return tuple(self.path(text, (*path, index)) for index, text in enumerate(texts))

    def document_of(self, value: JSON, path: ObjectPath) -> SourceDocument | None:
        """Read the object that a member holds, or that is in the file it names; None if that fails."""
        if isinstance(value, dict):
            return self.document.part(value, path)
        if not isinstance(value, str):
            self.report_problem(path, f"must be the path of a file or an object, not {json_type(value)}")
            return None
        file = Path(os.path.normpath(self.folder / value))
        if file not in self._files:
            self._files[file] = _only_document(file)
        found = self._files[file]
        if isinstance(found, str):
            self.report_problem(path, found)
            return None
        return found

    def object_of(self, value: JSON, path: ObjectPath) -> JSON:
        """Read the data of that object; None if the member is absent."""
        if value is None:
            return None
        found = self.document_of(value, path)
        return None if found is None else found.data


def _only_document(file: Path) -> SourceDocument | str:
    try:
        documents = list(unwrap_lists(read_documents(file)))
    except InputError as error:
        return str(error)
    if len(documents) != 1:
        return f"{file}: holds {len(documents)} objects, but must hold one"
    return documents[0]


_WORDS: tuple[tuple[str, type[Phase | OutcomeStatus]], ...] = (("phase", Phase), ("outcome", OutcomeStatus))
"""Members of a step that take one of a few words."""


def read_expectation(form: ExpectForm, path: ObjectPath, references: References) -> Expectation:
    """Read one expectation; problems are collected in ``references``."""
    if form == type(form)():
        references.report_problem(
            path, "the expectation is empty: write allowed, message, object, steps or another member"
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


def _pattern(text: str | None, path: ObjectPath, references: References) -> Pattern | None:
    if text is None:
        return None
    try:
        return Pattern(text, compile_pattern(text))
    except EvaluationError as error:
        references.report_problem(path, str(error))
        return None


def _patterns(
    texts: Iterable[str] | None, path: ObjectPath, references: References
) -> tuple[Pattern, ...] | None:
    if texts is None:
        return None
    found = [_pattern(text, (*path, index), references) for index, text in enumerate(texts)]
    return tuple(pattern for pattern in found if pattern is not None)


def _patch(
    form: ExpectForm, path: ObjectPath, references: References
) -> tuple[dict[str, object], ...] | None:
    for index, operation in enumerate(form.patch or ()):
        if not isinstance(operation, dict):
            text = f"must be a JSON Patch operation, not {json_type(operation)}"
            references.report_problem((*path, "patch", index), text)
    return form.patch


def _steps(
    forms: Iterable[StepForm] | None, path: ObjectPath, references: References
) -> tuple[ExpectedStep, ...] | None:
    if forms is None:
        return None
    return tuple(_step(form, (*path, index), references) for index, form in enumerate(forms))


def _step(form: StepForm, path: ObjectPath, references: References) -> ExpectedStep:
    members = {name: value for name, value in msgspec.structs.asdict(form).items() if value is not None}
    if not members:
        references.report_problem(
            path, "an empty step matches any step: write controller, name, outcome or another member"
        )
    for name, words in _WORDS:
        if name in members and members[name] not in list(words):
            text = f'there is no {name} "{members[name]}"; {suggestion(members[name], words)}'
            references.report_problem((*path, name), text)
    reason = _pattern(members.pop("reason", None), (*path, "reason"), references)
    return ExpectedStep(members, reason)


def _expanded(
    forms: Iterable[ExpectForm] | None, path: ObjectPath, references: References
) -> tuple[Expectation, ...] | None:
    if forms is None:
        return None
    read = (read_expectation(form, (*path, index), references) for index, form in enumerate(forms))
    return tuple(_pod_expectation(expectation, references) for expectation in read)


def _pod_expectation(expectation: Expectation, references: References) -> Expectation:
    """Refuse ``expanded`` in the expectation of a Pod."""
    if expectation.expanded is not None:
        references.report_problem((*expectation.path, "expanded"), "a Pod does not make Pods")
    return msgspec.structs.replace(expectation, expanded=None)
