"""Writing suites: cases that a program has found, as a file for ``pratique test``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique_cli.encoding import dump_yaml
from pratique_cli.suites import API_VERSION, KIND

_FILES = ("admission-control-config-file",)
"""Flags whose values are paths."""


class WrittenCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case to write. Empty members are left out."""

    name: str
    """A sentence that says what is expected, which ``--run`` matches. It must be unique in its suite."""
    expect: JSONObject
    """The expected result, as the members of ``expect``: ``{"allowed": False, "message": "privileged"}``.

    Messages and warnings are patterns (RE2): :func:`re.escape` makes one of a text.
    """
    manifest: JSONObject | str | None = None
    """The object of the request, or the path of its file. Give either this or ``review``."""
    request: JSONObject = msgspec.field(default_factory=dict)
    """The rest of the request: ``{"operation": "UPDATE", "old": …, "user": …}``."""
    review: JSONObject | str | None = None
    """An AdmissionReview, or the path of its file."""
    phase: str = ""
    """``mutate`` or ``validate``; empty means both."""
    config: Sequence[Path | str] = ()
    """Configurations and policies in addition to those of the suite."""
    cluster: Sequence[Path | str | JSONObject] = ()
    """Files and folders of objects, and objects, in addition to those of the suite."""


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
        cluster: Files and folders of objects, as ``--cluster`` names them, and objects themselves. None means an
            undescribed cluster, as without the flag; an empty list means an empty cluster.
        flags: Chain flags by their names, such as ``{"enable-admission-plugins": ["PodSecurity"]}``.
        folder: The folder of the file to write. Paths are relative to the current folder, and are rewritten
            relative to this one; None leaves them unchanged.
        comment: Lines for a comment at the top.
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
        "cases": [_case_document(case, folder) for case in cases],
    }
    kept = {key: value for key, value in suite.items() if value or (key == "cluster" and value is not None)}
    return "".join(f"# {line}".rstrip() + "\n" for line in comment.splitlines()) + dump_yaml(kept)


def _case_document(case: WrittenCase, folder: Path | str | None) -> JSONObject:
    members: JSONObject = {
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
    return {key: value for key, value in members.items() if value} | {"expect": case.expect}


def _paths(entries: Iterable[Path | str | JSONObject], folder: Path | str | None) -> list[JSON]:
    return [_path(entry, folder) for entry in entries]


def _path(entry: Path | str | JSONObject | None, folder: Path | str | None) -> JSON:
    """A path relative to the suite's folder; values that are not paths stay unchanged."""
    if not isinstance(entry, Path | str):
        return entry
    if folder is None or Path(entry).is_absolute():
        return str(entry)
    return os.path.relpath(entry, folder)
