"""Texts that try to break out of a report, and a decision that consists of them."""

from __future__ import annotations

import json

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.source_documents import JsonOrigin, Position, SourceDocument, SourceText
from pratique.apimachinery.statuses import failure
from pratique_cli.outputs import ReviewedDocument, UndecidedDocument
from pratique_frontdoor.chain.decisions import Decision, Step

HOSTILE = 'a\x00b\x1b[31m\r\n::error file=x:: ]]> <x a="&amp;"> \U0001f6a2 100% d,e\x85\ufffe\udcff\tf'
"""Line breaks, a command of GitHub's, the end of a CDATA section, markup, an emoji, control characters, half of one."""


def hostile_manifest() -> str:
    """A ConfigMap with a hostile name, as far as JSON allows."""
    name = HOSTILE.replace("\udcff", "")
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n"}})


def denied_hostilely(file: str = "a.json", line: int = 1, text: str = HOSTILE) -> ReviewedDocument:
    """A denial by a webhook, with a warning, all of whose texts are ``text``."""
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": text}}
    raw = json.dumps(data).encode()
    review = Review(
        uid="1",
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "ConfigMap"),
        resource=GroupVersionResource("", "v1", "configmaps"),
        name=text,
        namespace="n",
        object_document=Document.from_data(data),
    )
    step = Step(
        controller="ValidatingAdmissionWebhook",
        phase=Phase.VALIDATE,
        name=text,
        configuration=text,
        outcome=OutcomeStatus.DENIED,
        reason=text,
    )
    status = failure(400, text, text)
    decision = Decision(uid="1", allowed=False, status=status, warnings=(text,), steps=(step,))
    origin = JsonOrigin(SourceText(raw, file, line), 0)
    return ReviewedDocument(SourceDocument(data, file, 0, line, origin), review, decision)


def missed_hostilely(file: str = "a.json") -> UndecidedDocument:
    """A document that cannot be read, for a hostile reason."""
    return UndecidedDocument(InputError(HOSTILE, file=file, place=Position(3, 4)))
