"""Secrets stay secret in every form: what is recorded, logged, shown and reported of their reviews.

A mutating webhook puts another value into each Secret; a validating one denies it, and quotes all values that it sees,
as they are, decoded and encoded, in all that it may say.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.blame.changes import blame_document, blame_of
from pratique_frontdoor.chain.decision_documents import to_document
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.console.live import LiveDecisions
from pratique_frontdoor.console.presentation import show
from pratique_frontdoor.decision_logs.entries import EntryWriter, Observation
from pratique_frontdoor.engines.engine import open_local
from pratique_frontdoor.http.codecs import ReceivedReview, decode_review
from pratique_frontdoor.recording.recorders import LineWriter, RecordedDecision
from support.front_doors.reviews import review_document
from support.webhook_servers import Received, WebhookServer, answered, serve

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

CANARY = "cAnary+7f3e/which-is-nowhere-else"
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
CORE_SECRET = {"group": "", "version": "v1", "kind": "Secret"}
SECRETS = {"group": "", "version": "v1", "resource": "secrets"}
CONFIG_MAP = {"group": "", "version": "v1", "kind": "ConfigMap"}
CONFIG_MAPS = {"group": "", "version": "v1", "resource": "configmaps"}


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def canary(place: str) -> str:
    """The secret of one place, with what JSON and Go escape."""
    return f'{CANARY} "{place}" <é>'


def secret(**fields: JSON) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "one", "namespace": "default"},
        **fields,
    }


def annotated(annotation: str, text: str) -> JSONObject:
    metadata = {"name": "one", "namespace": "default", "annotations": {annotation: text}}
    return secret(data={"a": encoded(canary("data"))}) | {"metadata": metadata}


def nameless(document: JSONObject) -> JSONObject:
    """The same without what says that it is a Secret."""
    return {name: value for name, value in document.items() if name not in {"kind", "apiVersion"}}


DATA = secret(data={"a": encoded(canary("data"))})
TEXTS = secret(stringData={"a": canary("text")})
BOTH_FIELDS = secret(data={"a": encoded(canary("data")), "b": "AAEC/w=="}, stringData={"c": canary("text")})
WRAPPED = encoded(canary("data"))
FORMS: dict[str, JSONObject] = {
    "data": {"object": DATA},
    "stringData": {"object": TEXTS},
    "both": {"object": BOTH_FIELDS},
    "base64 in lines": {"object": secret(data={"a": f"{WRAPPED[:8]}\n{WRAPPED[8:]}\r\n"})},
    "no base64": {"object": secret(data={"a": canary("data")})},
    "data of lists": {"object": secret(data={"a": [{"b": canary("data")}]})},
    "data is a text": {"object": secret(data=canary("data"))},
    "last applied": {"object": annotated(APPLIED, json.dumps(TEXTS))},
    "last applied without a kind": {"object": annotated(APPLIED, json.dumps(nameless(TEXTS)))},
    "another copy": {"object": annotated("example.com/applied", json.dumps(TEXTS))},
    "update": {"operation": "UPDATE", "object": secret(data={}), "oldObject": DATA},
    "delete": {"operation": "DELETE", "object": None, "oldObject": BOTH_FIELDS},
    "no kind": {"object": nameless(BOTH_FIELDS)},
    "another kind": {"object": BOTH_FIELDS | {"kind": "ConfigMap"}},
    "another kind before": {"operation": "UPDATE", "object": nameless(DATA), "oldObject": nameless(TEXTS)},
    "kind alone": {"object": nameless(BOTH_FIELDS), "resource": CONFIG_MAPS},
    "resource alone": {"object": nameless(BOTH_FIELDS), "kind": CONFIG_MAP},
    "object alone": {"object": BOTH_FIELDS, "kind": CONFIG_MAP, "resource": CONFIG_MAPS},
    "requested kind alone": {
        "object": nameless(BOTH_FIELDS),
        "kind": CONFIG_MAP,
        "resource": CONFIG_MAPS,
        "requestKind": CORE_SECRET,
    },
    "requested resource alone": {
        "object": nameless(BOTH_FIELDS),
        "kind": CONFIG_MAP,
        "resource": CONFIG_MAPS,
        "requestResource": SECRETS,
    },
    "list": {"object": {"apiVersion": "v1", "kind": "List", "items": [DATA, TEXTS]}},
    "list of Secrets": {
        "object": {"apiVersion": "v1", "kind": "SecretList", "items": [nameless(DATA), nameless(TEXTS)]}
    },
    "within another": {"object": {"apiVersion": "v1", "kind": "Template", "spec": {"deep": BOTH_FIELDS}}},
}


def reviewed(form: str) -> JSONObject:
    fields: dict[str, Any] = {
        "kind": CORE_SECRET,
        "resource": SECRETS,
        "name": "one",
        "namespace": "default",
    } | FORMS[form]
    document: JSONObject = review_document(**fields)
    return document


def strings(value: JSON) -> Iterator[str]:
    """Every string of a value, what it is in base64, and what of."""
    if isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, str):
        yield value
        yield encoded(value)
        try:
            yield base64.b64decode(value.replace("\n", ""), validate=True).decode()
        except (binascii.Error, ValueError):
            return


def said(received: Received) -> list[str]:
    request = received.review["request"]
    values = [request.get("object"), request.get("oldObject")]
    return [*strings(values), *(json.dumps(value) for value in strings(values)), json.dumps(values)]


def added(received: Received) -> JSON:
    """A patch that puts a value into the Secret, and quotes what it sees."""
    review = received.review
    reviewed = review["request"].get("object")
    operations = []
    if isinstance(reviewed, dict) and isinstance(reviewed.get("data", {}), dict):
        path, value = (
            ("/data", {"new": encoded(canary("added"))})
            if "data" not in reviewed
            else (
                "/data/new",
                encoded(canary("added")),
            )
        )
        operations = [{"op": "add", "path": path, "value": value}]
    response: JSONObject = {"uid": review["request"]["uid"], "allowed": True, "warnings": said(received)}
    if operations:
        patch = base64.b64encode(json.dumps(operations).encode()).decode()
        response |= {"patchType": "JSONPatch", "patch": patch}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def quoting(received: Received) -> JSON:
    """A denial that quotes all it sees."""
    review, texts = received.review, said(received)
    response = {
        "uid": review["request"]["uid"],
        "allowed": False,
        "warnings": texts,
        "auditAnnotations": {f"k{number}": text for number, text in enumerate(texts)},
        "status": {
            "code": 403,
            "message": " ".join(texts),
            "reason": "Forbidden",
            "details": {"causes": [{"message": text, "field": f"data[{text}]"} for text in texts]},
        },
    }
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def configuration(server: WebhookServer, kind: str) -> JSONObject:
    rule = {"apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    client = {
        "url": f"{server.url}/{kind}",
        "caBundle": base64.b64encode(server.ca_bundle).decode(),
    }
    webhook = {
        "name": f"{kind.lower()}.example.com",
        "clientConfig": client,
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [webhook],
    }


@pytest.fixture(name="config", scope="module")
def _config(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    file = tmp_path_factory.mktemp("secrets") / "config.yaml"
    with serve({"/Mutating": answered(added), "/Validating": answered(quoting)}) as server:
        kinds = ("Mutating", "Validating")
        file.write_text("\n---\n".join(json.dumps(configuration(server, kind)) for kind in kinds), "utf-8")
        yield file


Decided: TypeAlias = "dict[tuple[str, bool], tuple[ReceivedReview, Decision]]"
"""By form, and whether the object was decoded and defaulted as by an API server."""


def decided(*config: Path) -> Decided:
    async def decide() -> Decided:
        engine = open_local(ChainSettings(config=config), ObjectStore(assume_namespaces=True))
        decisions = {}
        for form in FORMS:
            received = decode_review(encode(reviewed(form)), ANY_NAMESPACE)
            for validates in (True, False):
                review = msgspec.structs.replace(received.review, object_validation=validates)
                decision = await engine.decide(review, BOTH, Deadline.after(60), explain=True)
                decisions[form, validates] = received, decision
        await engine.close()
        return decisions

    return asyncio.run(decide())


@pytest.fixture(name="quoted", scope="module")
def _quoted(config: Path) -> Decided:
    return decided(config)


@pytest.fixture(name="unquoted", scope="module")
def _unquoted() -> Decided:
    return decided()


def leaks(text: str) -> list[str]:
    """The pieces of a text that hold a canary, plain or in base64, wherever that begins."""
    forms = [CANARY, *(encoded(" " * shift + CANARY)[4 : -4 * 2] for shift in range(3))]
    return [text[max(text.index(form) - 80, 0) :][:200] for form in forms if form in text]


def test_every_form_is_found_where_nothing_hides_it() -> None:
    for form in FORMS:
        assert leaks(json.dumps(reviewed(form)).replace("\\n", "")), form


@pytest.mark.parametrize("validates", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_recordings_decision_logs_and_pages_have_no_secret(
    quoted: Decided, form: str, *, validates: bool
) -> None:
    received, decision = quoted[form, validates]
    assert decision.status is not None
    line = LineWriter(b"k" * 32, 1 << 20).write(RecordedDecision(0.0, "/admit", BOTH, received, decision), "")
    assert leaks(line.decode()) == []
    seen = Observation("/admit", {"type": "http", "client": ("127.0.0.1", 1), "state": {}})
    seen.received, seen.decision = received, decision
    seen.answered(200, b"")
    entry = EntryWriter(b"k" * 32, b"r" * 32, 1 << 20).members(seen, "")
    assert leaks(json.dumps(entry, ensure_ascii=False)) == []
    live = LiveDecisions()
    live.append(line)
    assert leaks(repr(show(live.decision(1)))) == []


WITH_VALUES = frozenset({"object", "patch", "before", "after"})
"""Members of a decision document with values of the object, which whoever asks for the document has sent."""


def without_values(document: JSON) -> JSON:
    if isinstance(document, list):
        return [without_values(item) for item in document]
    if isinstance(document, dict):
        return {name: without_values(item) for name, item in document.items() if name not in WITH_VALUES}
    return document


@pytest.mark.parametrize("form", FORMS)
def test_our_own_words_have_no_secret(unquoted: Decided, form: str) -> None:
    _, decision = unquoted[form, True]
    document = to_document(decision)
    document["blame"] = blame_document(blame_of(decision, reviewed(form)["request"]["object"]), decision)
    assert leaks(json.dumps(without_values(document), ensure_ascii=False)) == []


REPORTS = ("text", "table", "junit", "sarif", "github", "policyreport", "openreports")


def test_reports_have_no_secret(config: Path, tmp_path: Path, pratique: Program) -> None:
    files = [tmp_path / f"{form.replace(' ', '-')}.json" for form in FORMS]
    for form, file in zip(FORMS, files, strict=True):
        file.write_text(json.dumps(reviewed(form)), "utf-8")
    outputs = [word for name in REPORTS for word in ("-o", f"{name}={tmp_path / name}")]
    done = pratique("review", "-vv", "--blame", "--config", config, *outputs, *files)
    assert done.returncode == 1, done.stderr
    assert leaks(done.stdout + done.stderr) == []
    for name in REPORTS:
        text = (tmp_path / name).read_text("utf-8")
        assert (
            all(file.name in text for file in files) or "eport" in name
        )  # reports of policies name no files
        assert leaks(text) == []
