"""Codecs: reviews of an API server are decoded correctly, and it decodes the answers correctly."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.diff import diff
from pratique.apimachinery.json_values import Document, decode, encode
from pratique.apimachinery.patches import apply_patch, decode_patch
from pratique.cluster.store import ANY_NAMESPACE
from pratique.processes.large_texts import LargeTextReader
from pratique_frontdoor.chain.decision_documents import to_document
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.http.codecs import decode_large_review, decode_review, encode_answer
from pratique_frontdoor.webhooks.answers import read_answer
from pratique_frontdoor.webhooks.reviews import ReviewVersion, SentReview, build_review
from support.strategies.json_values import named_items, objects
from support.strategies.reviews import TEXTS, refusals, reviews, tuples

VERSIONS: st.SearchStrategy[ReviewVersion] = st.sampled_from(["v1", "v1beta1"])
UID = "705ab4f5-6393-11e8-b7cc-42010a800002"


@given(reviews(), VERSIONS)
def test_a_sent_review_decodes_to_itself(review: Review, version: ReviewVersion) -> None:
    named = msgspec.structs.replace(review, name="web", namespace="shop", cluster=ANY_NAMESPACE)
    sent = build_review(named, [version])
    received = decode_review(sent.body, ANY_NAMESPACE)
    assert received.api_version == f"admission.k8s.io/{version}"
    # what was asked for is said in full, even where it is what the review is of
    assert received.review == msgspec.structs.replace(
        named,
        uid=sent.uid,
        request_kind=named.request_kind or named.kind,
        request_resource=named.request_resource or named.resource,
        request_subresource=named.request_subresource if named.request_resource else named.subresource,
        received_values=received.review.received_values,
    )
    assert received.review.received_values > 0


READER = LargeTextReader()
"""One process for all."""


@given(reviews(), VERSIONS, st.integers(1, 300))
def test_a_large_review_decodes_like_a_small_one(review: Review, version: ReviewVersion, size: int) -> None:
    body = build_review(msgspec.structs.replace(review, name="web", namespace="shop"), [version]).body
    pieces = [body[begin : begin + size] for begin in range(0, len(body), size)]
    assert decode_large_review(pieces, ANY_NAMESPACE, READER.strip_members) == decode_review(
        body, ANY_NAMESPACE
    )


@given(objects() | named_items(), objects() | named_items(), tuples(TEXTS), VERSIONS)
def test_an_encoded_answer_decodes_to_the_decision(
    before: object, after: object, warnings: tuple[str, ...], version: ReviewVersion
) -> None:
    patch = tuple(diff(before, after))
    decision = Decision(uid=UID, allowed=True, patch=patch, warnings=warnings, audit_annotations={"a/b": "c"})
    body = encode_answer(decision, f"admission.k8s.io/{version}")
    answer = read_answer(body, SentReview(UID, version, b""), Phase.MUTATE)
    assert (answer.allowed, answer.warnings, dict(answer.audit_annotations)) == (True, warnings, {"a_b": "c"})
    patched = apply_patch(before, decode_patch(answer.patch) if answer.patch else [])
    assert encode(patched) == encode(decode(encode(patched)))
    assert Document.from_data(patched) == Document.from_data(after)


@given(refusals(), VERSIONS)
def test_an_encoded_denial_decodes_to_the_decision(status: object, version: ReviewVersion) -> None:
    decision = Decision(uid=UID, allowed=False, status=status)  # type: ignore[arg-type] # a Status
    body = encode_answer(decision, f"admission.k8s.io/{version}")
    answer = read_answer(body, SentReview(UID, version, b""), Phase.VALIDATE)
    assert not answer.allowed
    assert answer.status is not None
    denial = decision.status
    assert denial is not None
    assert (answer.status.code, answer.status.reason or "", answer.status.message or "") == (
        denial.code,
        denial.reason,
        denial.message,
    )


@given(objects() | named_items(), objects() | named_items(), tuples(TEXTS))
def test_a_decision_document_is_consistent(before: object, after: object, warnings: tuple[str, ...]) -> None:
    patch = tuple(diff(before, after))
    document = Document.from_data(after)
    decision = Decision(uid=UID, allowed=True, object_document=document, patch=patch, warnings=warnings)
    written = decode(encode(to_document(decision)))
    assert Document.from_data(apply_patch(before, written["patch"])) == Document.from_data(written["object"])
    assert tuple(written["warnings"]) == warnings
