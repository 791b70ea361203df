"""The file format of suites, decoded strictly; every mistake is reported with file, line and column."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import inspect

from pratique.apimachinery.decoding import StrictDecodingError, decode_strictly
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.source_documents import SourceDocument
from pratique_cli.suites import API_VERSION, KIND


class _Form(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Base of all forms: JSON names in camel case, no required members, and null means absent."""


class MetadataForm(_Form, frozen=True):
    """``metadata``."""

    name: str = ""


class RequestForm(_Form, frozen=True):
    """``request``: the parts of a request that are not in its manifest."""

    operation: str = ""
    old: Any = None
    user: str = ""
    groups: tuple[str, ...] = ()
    namespace: str = ""
    subresource: str = ""
    dry_run: bool = False


class StepForm(_Form, frozen=True):
    """One of ``steps``: a step of the decision that has these members."""

    controller: str | None = None
    phase: str | None = None
    name: str | None = None
    configuration: str | None = None
    round: int | None = None
    outcome: str | None = None
    reason: str | None = None


class ExpectForm(_Form, frozen=True):
    """``expect``."""

    allowed: bool | None = None
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    warnings: tuple[str, ...] | None = None
    audit_annotations: dict[str, str] | None = None
    object: Any = None
    contains: Any = None
    patch: tuple[Any, ...] | None = None
    unchanged: bool | None = None
    steps: tuple[StepForm, ...] | None = None
    expanded: tuple[ExpectForm, ...] | None = None
    fixed_point: bool | None = None


class CaseForm(_Form, frozen=True):
    """One of ``cases``."""

    name: str = ""
    manifest: Any = None
    review: Any = None
    request: RequestForm | None = None
    phase: str = ""
    config: tuple[str, ...] = ()
    cluster: tuple[Any, ...] | None = None
    expect: ExpectForm | None = None


class SuiteForm(_Form, frozen=True):
    """The whole document."""

    api_version: str = ""
    kind: str = ""
    metadata: MetadataForm = MetadataForm()
    config: tuple[str, ...] = ()
    cluster: tuple[Any, ...] | None = None
    flags: dict[str, Any] = {}
    cases: tuple[CaseForm, ...] = ()


def decode_suite(document: SourceDocument, problems: list[InputError]) -> SuiteForm | None:
    """Decode the document of a suite; None if it is invalid, with the reasons added to ``problems``."""
    version, kind = document.data.get("apiVersion"), document.data.get("kind")
    if (version, kind) != (API_VERSION, KIND):
        member = "apiVersion" if version != API_VERSION else "kind"
        text = f"{version} {kind} is no suite: write apiVersion {API_VERSION} and kind {KIND}"
        problems.append(document.fault((member,), text))
        return None
    try:
        return decode_strictly(document.data, SuiteForm)
    except StrictDecodingError as error:
        for problem in error.problems:
            steps = problem.path.steps
            problems.append(document.fault(steps, f"{problem.text}{_hint(steps, problem.text)}"))
        return None


def suggestion(wrong: str, right: Iterable[str]) -> str:
    """Suggest the closest known word, or list the known words."""
    known = {word.lower(): word for word in right}
    close = difflib.get_close_matches(wrong.lower(), known, n=1)
    return f'did you mean "{known[close[0]]}"?' if close else f"there are {', '.join(known.values())}"


def _hint(steps: Sequence[Step], text: str) -> str:
    if not text.startswith("unknown field") or not isinstance(steps[-1], str):
        return ""
    return f"; {suggestion(steps[-1], _members_at(steps[:-1]))}"


def _members_at(steps: Sequence[Step]) -> list[str]:
    """List the members of the form at a path."""
    info = inspect.type_info(SuiteForm)
    for step in steps:
        info = _member_type(_without_none(info), step)
    found = _without_none(info)
    return [field.encode_name for field in found.fields] if isinstance(found, inspect.StructType) else []


def _member_type(info: inspect.Type, step: Step) -> inspect.Type:
    if isinstance(info, inspect.StructType):
        return next(field.type for field in info.fields if field.encode_name == step)
    return info.item_type if isinstance(info, inspect.VarTupleType) else inspect.AnyType()


def _without_none(info: inspect.Type) -> inspect.Type:
    if not isinstance(info, inspect.UnionType):
        return info
    return next(member for member in info.types if not isinstance(member, inspect.NoneType))
