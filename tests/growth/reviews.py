"""Everything that is done to a review, piece by piece, each with the CPU time that it took."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec

from growth.measuring import Clock
from pratique.admission.controllers import BOTH, Phase
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.json_values import JSON, Document, JSONObject, encode
from pratique.apimachinery.kinds import ResourceType
from pratique.cluster.files import load_cluster
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.running import handler_runners
from pratique.registry import object_validation
from pratique.registry.object_validation import ObjectRefusedError
from pratique_frontdoor.blame.changes import blame_document, blame_of
from pratique_frontdoor.chain.decision_documents import encode_decision, to_document
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.console.playground import DecidedReview
from pratique_frontdoor.console.presentation import show
from pratique_frontdoor.decision_logs.entries import EntryWriter, Observation
from pratique_frontdoor.engines.local import LocalEngine, LocalSources
from pratique_frontdoor.http.codecs import ReceivedReview, decode_review, encode_answer
from pratique_frontdoor.recording.recorders import LineWriter, RecordedDecision

DATA = Path(__file__).parents[1] / "data" / "growth"
_UNRUN = frozenset({"ImagePolicyWebhook"})
"""It needs a server."""
_DENYING = frozenset({"AlwaysDeny", "SecurityContextDeny", "DenyServiceExternalIPs", "PodSecurityPolicy"})
"""They would end most chains early, and are run by themselves."""
_FOREVER = 3_600.0
_NO_LIMIT = 2**40


def _settings(without: frozenset[str]) -> ChainSettings:
    names = [one.name for one in load_catalogue() if one.hosted and one.name not in without]
    return ChainSettings(
        config=(DATA / "policies.yaml",),
        admission_control=tuple(names),
        admission_control_config_file=DATA / "settings.yaml",
    )


class ReviewPieces:
    """What a chain with every controller does to reviews, in a cluster that makes controllers look."""

    def __init__(self) -> None:
        self.cluster: ObjectStore = load_cluster((DATA / "cluster.yaml",))
        every = LocalSources.read(_settings(_UNRUN))
        self._hosted = every.chain.configure(every.chain.selected)
        for hosted in self._hosted:
            hosted.handlers.use_configurations(every.configurations)
        self._engine = LocalEngine(_settings(_UNRUN | _DENYING), self.cluster)

    async def close(self) -> None:
        await self._engine.close()
        for hosted in self._hosted:
            await hosted.handlers.close()

    async def run(self, body: bytes, clock: Clock) -> None:
        """Do everything to the review in a body."""
        with clock("decode_review"):
            received = decode_review(body, self.cluster)
            _ = received.review.object, received.review.old_object
        review = received.review
        received_object: Review | None = None
        with clock("object validation: receive"), contextlib.suppress(ObjectRefusedError):
            object_validation.owner_warnings(review)
            received_object = object_validation.receive(review)
        await self._run_controllers(received_object or review, clock)
        if received_object is not None:
            with clock("object validation: store"), contextlib.suppress(ObjectRefusedError):
                object_validation.store(received_object, 0.0)
        # what was made in this process is validated in this thread, where a profile sees it
        asked = received.review.with_object(Document.from_data(received.review.object))
        for is_validated in (False, True):
            asked = msgspec.structs.replace(
                asked,
                object_validation=is_validated,
                old_object_document=Document.from_data(asked.old_object),
            )
            with clock("chain"):
                decision = await self._engine.decide(asked, BOTH, Deadline.after(_FOREVER), explain=True)
            write(received, decision, clock)

    async def _run_controllers(self, review: Review, clock: Clock) -> None:
        for phase in Phase:
            for name, runner in handler_runners(self._hosted, phase).items():
                with clock(f"{name} ({phase})"):
                    await runner.run(review, Call(name))


def write(received: ReceivedReview, decision: Decision, clock: Clock) -> None:
    """Write and show a decision in every form."""
    before = received.review.object_document.data
    with clock("encode_answer"):
        encode_answer(decision, received.api_version)
    with clock("encode_decision"):
        encode_decision(decision)
    with clock("to_document"):
        encode(to_document(decision))
    with clock("blame"):
        encode(blame_document(blame_of(decision, before), decision))
    with clock("recording"):
        entry = RecordedDecision(0.0, "/admit", BOTH, received, decision)
        LineWriter(b"key", _NO_LIMIT).write(entry, "digest")
    with clock("decision log"):
        observation = Observation("/admit", {}, received=received, decision=decision, code=200)
        EntryWriter(b"key", b"key", _NO_LIMIT).members(observation, "digest")
    with clock("console"):
        show(DecidedReview("review", received.review, decision))


def review_body(document: JSONObject, resource: ResourceType, *, old: JSON = None, **request: JSON) -> bytes:
    """The AdmissionReview of a CREATE, or of an UPDATE of ``old``."""
    metadata = document["metadata"]
    if resource.namespaced:
        document = {**document, "metadata": {**metadata, "namespace": "shop"}}
        old = None if old is None else {**old, "metadata": {**old["metadata"], "namespace": "shop"}}
    fields: JSONObject = {
        "uid": "1",
        "kind": resource.kind,
        "resource": resource.resource,
        "subResource": resource.subresource,
        "name": metadata["name"],
        "namespace": "shop" if resource.namespaced else "",
        "operation": "CREATE" if old is None else "UPDATE",
        "userInfo": {"username": "alice", "groups": ["builders", "system:authenticated"]},
        "object": document,
        "oldObject": old,
        "options": {
            "apiVersion": "meta.k8s.io/v1",
            "kind": "CreateOptions" if old is None else "UpdateOptions",
        },
        **request,
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": fields}
    return msgspec.json.encode(review)
