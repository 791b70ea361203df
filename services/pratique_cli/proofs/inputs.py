"""Inputs of a proof: files and folders in which configurations and objects may stand side by side."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.configurations.policies import PolicyKind
from pratique.configurations.webhooks import GROUP, ConfigurationKind
from pratique.documents import list_files
from pratique.errors import InputError
from pratique.source_documents import STDIN
from pratique.suite_documents import is_suite
from pratique_cli.inputs import read_inputs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pratique.json_values import JSONObject
    from pratique.source_documents import SourceDocument

_KINDS = frozenset(kind.value for kind in (*ConfigurationKind, *PolicyKind))


@dataclasses.dataclass(frozen=True, slots=True)
class ProofInputs:
    """What the paths of a proof hold."""

    configurations: tuple[Path, ...]
    """Files of webhook configurations and policies."""
    objects: tuple[SourceDocument, ...]
    """Manifests and AdmissionReviews."""


def read_proof_inputs(paths: Iterable[Path]) -> ProofInputs:
    """Read files and folders, and sort their files by what stands in them. Test suites are passed over.

    Raises:
        InputError: something cannot be read, or a file holds both configurations and objects.
    """
    configurations: list[Path] = []
    objects: list[SourceDocument] = []
    for file in _files(paths):
        documents = list(_read(file))
        settings = [each for each in documents if _is_configuration(each.data)]
        if settings and len(settings) < len(documents):
            stray = next(each for each in documents if each not in settings)
            raise stray.fault((), "stands among configurations; put objects into a file of their own")
        if settings:
            configurations.append(Path(file))
        else:
            objects += documents
    return ProofInputs(tuple(configurations), tuple(objects))


def _files(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        yield from [STDIN] if str(path) == STDIN else list_files(path)


def _read(file: str) -> Iterator[SourceDocument]:
    for each in read_inputs(file):
        if isinstance(each, InputError):
            raise each
        if not is_suite(each.data):
            yield each


def _is_configuration(data: JSONObject) -> bool:
    group = str(data.get("apiVersion", "")).partition("/")[0]
    return group == GROUP and data.get("kind") in _KINDS
