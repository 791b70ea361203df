"""Decoding suites: strictly, with every mistake told by file, line and column, and what may have been meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from msgspec import inspect

from pratique.strict_decoding import StrictDecodingError, decode_strictly
from pratique_cli.suites import API_VERSION, KIND
from pratique_cli.suites.forms import SuiteForm

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pratique.errors import InputError
    from pratique.field_errors import Step
    from pratique.source_documents import SourceDocument


def decode_suite(document: SourceDocument, problems: list[InputError]) -> SuiteForm | None:
    """Read a suite's document; None where it is none, and ``problems`` then has what is wrong with it."""
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


def meant(wrong: str, right: Iterable[str]) -> str:
    """Say what may have been meant by a word, or else which there are."""
    known = {each.lower(): each for each in right}
    close = difflib.get_close_matches(wrong.lower(), known, n=1)
    return f'did you mean "{known[close[0]]}"?' if close else f"there are {', '.join(known.values())}"


def _hint(steps: Sequence[Step], text: str) -> str:
    if not text.startswith("unknown field") or not isinstance(steps[-1], str):
        return ""
    return f"; {meant(steps[-1], _members_at(steps[:-1]))}"


def _members_at(steps: Sequence[Step]) -> list[str]:
    """Name the members that a form has at a path."""
    info = inspect.type_info(SuiteForm)
    for step in steps:
        info = _inside(_without_none(info), step)
    found = _without_none(info)
    return [field.encode_name for field in found.fields] if isinstance(found, inspect.StructType) else []


def _inside(info: inspect.Type, step: Step) -> inspect.Type:
    if isinstance(info, inspect.StructType):
        return next(field.type for field in info.fields if field.encode_name == step)
    return info.item_type if isinstance(info, inspect.VarTupleType) else inspect.AnyType()


def _without_none(info: inspect.Type) -> inspect.Type:
    if not isinstance(info, inspect.UnionType):
        return info
    return next(each for each in info.types if not isinstance(each, inspect.NoneType))
