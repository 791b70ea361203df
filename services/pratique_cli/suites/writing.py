"""Writing suites: cases that a program has found, as the text of a file that ``pratique test`` reads."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique_cli.suites import API_VERSION, KIND
from pratique_cli.terminal import dump_yaml

_FILES = ("admission-control-config-file",)
"""Flags whose values are paths."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WrittenCase:
    """One case to write. What is empty or None is left out of the text."""

    name: str
    """Says what is expected, as a sentence; it is what ``--run`` looks at. Unique in its suite."""
    expect: JSONObject
    """What is to come of it, by the members of ``expect``: ``{"allowed": False, "message": "privileged"}``.

    Messages and warnings are patterns (RE2): :func:`re.escape` makes one of a text.
    """
    manifest: JSONObject | str | None = None
    """The object that is asked for, or the path of its file. Either this or ``review``."""
    request: JSONObject = dataclasses.field(default_factory=dict)
    """What a manifest does not say: ``{"operation": "UPDATE", "old": …, "user": …}``."""
    review: JSONObject | str | None = None
    """An AdmissionReview, or the path of its file."""
    phase: str = ""
    """``mutate`` or ``validate``, where it is not both."""
    config: Sequence[Path | str] = ()
    """Configurations and policies for this case beside those of the suite."""
    cluster: Sequence[Path | str | JSONObject] = ()
    """Files and folders of objects, and objects, for this case beside those of the suite."""


def suite_text(
    name: str,
    cases: Iterable[WrittenCase],
    *,
    config: Sequence[Path | str] = (),
    cluster: Sequence[Path | str | JSONObject] | None = None,
    flags: Mapping[str, JSON] | None = None,
    folder: Path | str | None = None,
    comment: str = "",
) -> str:
    """Write a suite as YAML, ready for ``pratique test``.

    Args:
        name: The suite's name.
        cases: What it holds.
        config: Configurations and policies, as ``--config`` names them.
        cluster: Files and folders of objects, as ``--cluster`` names them, and objects themselves. None means that
            nobody says what there is, as without the flag; an empty list, that there is nothing.
        flags: Chain flags by their names, such as ``{"enable-admission-plugins": ["PodSecurity"]}``.
        folder: Where the text is going to be stored. Paths are relative to the current folder, and are written
            relative to this one; None means that they are written as they are.
        comment: Lines to put above it all.
    """
    suite: JSONObject = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name},
        "config": _paths(config, folder),
        "cluster": None if cluster is None else _paths(cluster, folder),
        "flags": {
            name: _path(value, folder) if name in _FILES else value for name, value in (flags or {}).items()
        },
        "cases": [_case_document(each, folder) for each in cases],
    }
    kept = {key: value for key, value in suite.items() if value or (key == "cluster" and value is not None)}
    return "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines()) + dump_yaml(kept)


def _case_document(case: WrittenCase, folder: Path | str | None) -> JSONObject:
    told: JSONObject = {
        "name": case.name,
        "manifest": _path(case.manifest, folder),
        "request": case.request | {"old": _path(case.request["old"], folder)}
        if "old" in case.request
        else case.request,
        "review": _path(case.review, folder),
        "phase": case.phase,
        "config": _paths(case.config, folder),
        "cluster": _paths(case.cluster, folder),
    }
    return {key: value for key, value in told.items() if value} | {"expect": case.expect}


def _paths(entries: Iterable[Path | str | JSONObject], folder: Path | str | None) -> list[JSON]:
    return [_path(entry, folder) for entry in entries]


def _path(entry: Path | str | JSONObject | None, folder: Path | str | None) -> JSON:
    """A path as the suite's file is to name it; what is no path as it is."""
    if not isinstance(entry, Path | str):
        return entry
    if folder is None or Path(entry).is_absolute():
        return str(entry)
    return os.path.relpath(entry, folder)
