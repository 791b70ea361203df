"""What a front door has checked, and whether a service believes it."""

from __future__ import annotations

import asyncio
import hashlib
import inspect
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Call, Review
from pratique.admission.v1.validator_service_pb2 import ValidateRequest
from pratique.apimachinery import json_reading
from pratique.apimachinery.errors import ConfigurationError, ReviewError
from pratique.apimachinery.json_reading import MAX_LEVELS, MAX_VALUES, parse_checked
from pratique.apimachinery.json_values import MIN_PROVED_BYTES, Document, encode
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.cluster.store import ANY_NAMESPACE
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES, LargeTextReader
from pratique.rpc.check_digests import RULES, CheckDigests
from pratique.rpc.handlers import IncomingRequest
from pratique.rpc.messages import read_request, validate_request
from support.services.reviews import review_of

KEYED = CheckDigests(b"k" * 32)
PLAIN = CheckDigests()
FILLING = b'"x":"' + b"x" * MIN_PROVED_BYTES + b'"'
UNCHECKED = b'{"a":1,"a":2,' + FILLING + b"}"
"""JSON that the check refuses, so that a service that accepts it has not checked it."""
CALLS = [Call("C")]


def request(digest: bytes = b"", raw: bytes = UNCHECKED) -> ValidateRequest:
    message = validate_request(review_of(raw), CALLS, "inputs")
    message.review.checks.object = digest
    return message


def read(message: ValidateRequest, digests: CheckDigests | None) -> Review:
    incoming = IncomingRequest(message, message.ByteSize())
    return asyncio.run(read_request(incoming, ANY_NAMESPACE, LargeTextReader(), digests))[0]


@pytest.mark.parametrize("digests", [KEYED, PLAIN])
@pytest.mark.parametrize("size", [MIN_PROVED_BYTES, SEPARATE_PROCESS_BYTES + 1])
def test_what_the_caller_proves_to_have_checked_is_not_checked_again(
    digests: CheckDigests, size: int
) -> None:
    raw = b'{"a":1,"a":2,"x":"' + b"x" * size + b'"}'
    assert read(request(digests.digest(raw), raw), digests).object_document.raw == raw


@pytest.mark.parametrize(
    "size", [MIN_PROVED_BYTES, SEPARATE_PROCESS_BYTES // 2 + 1, SEPARATE_PROCESS_BYTES + 1]
)
@pytest.mark.parametrize(
    ("made_by", "verified_by"),
    [(None, KEYED), (None, PLAIN), (PLAIN, KEYED), (KEYED, PLAIN), (KEYED, None), (PLAIN, None)],
)
@pytest.mark.parametrize("other_key", [False, True])
def test_without_a_valid_proof_a_service_checks_by_itself(
    made_by: CheckDigests | None, verified_by: CheckDigests | None, size: int, *, other_key: bool
) -> None:
    if other_key and made_by is not None:
        made_by = CheckDigests(b"o" * 32)
    raw = b'{"a":1,"a":2,"x":"' + b"x" * size + b'"}'
    message = request(b"" if made_by is None else made_by.digest(raw), raw)
    with pytest.raises(ReviewError, match="holds a member twice"):
        read(message, verified_by)


def test_the_proof_of_one_document_proves_no_other() -> None:
    message = validate_request(review_of(), CALLS, "inputs")
    message.review.object, message.review.old_object = b"{" + FILLING + b"}", UNCHECKED
    message.review.checks.object = message.review.checks.old_object = KEYED.digest(message.review.object)
    with pytest.raises(ReviewError, match="old_object holds a member twice"):
        read(message, KEYED)


@given(st.binary(max_size=64), st.integers(0, 63), st.integers(1, 255), st.sampled_from([KEYED, PLAIN]))
def test_a_digest_proves_the_very_bytes(raw: bytes, place: int, change: int, digests: CheckDigests) -> None:
    digest = digests.digest(raw)
    changed = bytes(byte ^ change if at == place else byte for at, byte in enumerate(raw))
    assert digests.proves(digest, raw)
    assert digests.proves(digest, changed) == (changed == raw)
    assert not digests.proves(digest[:-1], raw)
    assert not digests.proves(b"", raw)


def test_the_proofs_of_other_rules_prove_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = KEYED.digest(UNCHECKED)
    monkeypatch.setattr("pratique.rpc.check_digests.RULES", RULES + b" and more")
    assert not KEYED.proves(digest, UNCHECKED)


CHECKS = (
    "parse_checked",
    "decode_if_certain",
    "check_members",
    "_check_member_names",
    "_check_integer",
    "_check_float",
    "_refuse_constant",
    "_check_structure",
    "structural_characters",
    "_outside_strings",
    "count_values",
    "exceeds_depth",
    "_depth",
)
"""The functions that decide what the check accepts."""


def test_a_change_of_the_check_changes_the_name_of_its_rules() -> None:
    checks = [getattr(json_reading, name) for name in CHECKS]
    source = hashlib.sha256("".join(map(inspect.getsource, checks)).encode()).hexdigest()[:16]
    # If the check now accepts other texts, raise CHECK_REVISION. Then, or if it does not, put the new hash here.
    assert (source, RULES) == ("34c2fdd2f411448f", b"pratique JSON 1: 200 levels, 600000 values")


def document(raw: bytes) -> Document:
    return Document.from_raw(raw).checked_by(KEYED)


def test_a_checked_document_is_sent_with_its_proof() -> None:
    raw = b"{" + FILLING + b"}"
    sent = validate_request(review_with(document(raw)), CALLS, "inputs")
    assert KEYED.proves(sent.review.checks.object, raw)
    assert not sent.review.checks.old_object


def test_services_of_others_get_no_proofs() -> None:
    sent = validate_request(review_with(document(b"{" + FILLING + b"}")), CALLS)
    assert not sent.review.HasField("checks")


def test_short_documents_have_no_proofs() -> None:
    sent = validate_request(review_with(document(b"{}")), CALLS, "inputs")
    assert not sent.review.HasField("checks")


def test_documents_that_nobody_checked_have_no_proofs() -> None:
    sent = validate_request(review_with(Document.from_raw(b"{" + FILLING + b"}")), CALLS, "inputs")
    assert not sent.review.HasField("checks")


def review_with(object_document: Document) -> Review:
    return review_of(b"{}").with_object(object_document)


def patched(value: object) -> Document:
    operation = {"op": "add", "path": "/added", "value": value}
    return patch_document(document(b"{" + FILLING + b"}"), [operation])


def test_a_patched_document_is_proved_as_well() -> None:
    changed = patched([1, {"b": None}])
    assert KEYED.proves(changed.check_digest, changed.raw)


def nested(levels: int) -> list[object]:
    value: list[object] = []
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", [nested(MAX_LEVELS), [0] * (MAX_VALUES + 1), {"\0": 1}, "x" * SEPARATE_PROCESS_BYTES]
)
def test_a_document_that_a_patch_takes_beyond_the_limits_has_no_proof(value: object) -> None:
    assert patched(value).check_digest == b""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner, max_size=5),
    max_leaves=10,
)


@given(JSON)
def test_what_is_proved_of_an_encoded_text_passes_the_check(value: object) -> None:
    raw = encode({"filling": "x" * MIN_PROVED_BYTES, "value": value})
    if KEYED.of_encoded(raw):
        parse_checked(raw)


@given(JSON, st.integers(0, MAX_LEVELS - 2))
def test_what_is_proved_of_a_patched_text_passes_the_check(value: object, levels: int) -> None:
    deep = document(b'{"a":%s,%s}' % (encode(nested(levels + 1)), FILLING))
    operations = [
        {"op": "add", "path": path + "0/" * levels + "-", "value": value} for path in ("/a/", "/a/")
    ]
    try:
        changed = patch_document(deep, operations)
    except PatchError:
        return
    if changed.check_digest:
        parse_checked(changed.raw)


def test_no_text_that_is_looked_at_here_is_long_enough_for_too_many_values() -> None:
    assert SEPARATE_PROCESS_BYTES // 2 < MAX_VALUES


def test_the_key_or_authenticated_connections_are_what_is_believed(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32 + b"\n")
    assert CheckDigests.of(key, authenticated=False) == KEYED
    assert CheckDigests.of(key, authenticated=True) == KEYED
    assert CheckDigests.of(None, authenticated=True) == PLAIN
    assert CheckDigests.of(None, authenticated=False) is None


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 31)
    with pytest.raises(ConfigurationError, match="--checks-key-file"):
        CheckDigests.of(key, authenticated=True)


def test_a_key_is_not_shown() -> None:
    assert "kkk" not in repr(KEYED)
