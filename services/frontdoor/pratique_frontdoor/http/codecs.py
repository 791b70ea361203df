"""Decodes AdmissionReviews, and encodes decisions as AdmissionReviews."""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ReviewError
from pratique.apimachinery.json_reading import LARGE_BYTES, JsonLimitError, parse_checked
from pratique.apimachinery.json_values import MIN_PROVED_BYTES, Document, JSONObject, TextChecks, encode
from pratique.apimachinery.kinds import (  # msgspec reads the types of fields
    GroupVersionKind,
    GroupVersionResource,
)
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.store import Cluster
from pratique.processes.large_text_process import MemberSelection, MemberStripper, slice_pieces
from pratique.processes.review_threads import estimate_values
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.webhooks.answers import answer_annotations

VERSIONS = ("admission.k8s.io/v1", "admission.k8s.io/v1beta1")
"""The supported AdmissionReview versions; each review is answered in its own version."""

_NULL = msgspec.Raw(b"null")


class _UserInfo(msgspec.Struct, frozen=True):
    username: str | None = None
    uid: str | None = None
    groups: tuple[str, ...] | None = None
    extra: dict[str, tuple[str, ...]] | None = None


class _ReceivedRequest(msgspec.Struct, frozen=True, rename="camel"):
    kind: GroupVersionKind
    resource: GroupVersionResource
    operation: Operation
    uid: str = ""
    sub_resource: str | None = None
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str | None = None
    name: str | None = None
    namespace: str | None = None
    user_info: _UserInfo | None = None
    object: msgspec.Raw = _NULL
    old_object: msgspec.Raw = _NULL
    dry_run: bool | None = None
    options: msgspec.Raw = _NULL


class _ReceivedAdmissionReview(msgspec.Struct, frozen=True, rename="camel"):
    api_version: Literal["admission.k8s.io/v1", "admission.k8s.io/v1beta1"]
    kind: Literal["AdmissionReview"]
    request: _ReceivedRequest | None = None


_decoder = msgspec.json.Decoder(prepared(_ReceivedAdmissionReview))

_OBJECTS = MemberSelection("request", ("object", "oldObject", "options"))

MAX_TYPE_LENGTH = 1024
"""Characters of a group, a version, a kind, a resource or a subresource: four times the longest that can be. What
matches a kind of request is remembered, and whoever sends reviews could fill the memory with kinds that nobody has."""

_REUSED_BYTES = 16 * 1024
"""Up to this size, the parsed body is kept: most reviews are smaller. The worst case takes thirty times as much
memory, and a thousand reviews can be in flight."""


class ReceivedReview(msgspec.Struct, frozen=True):
    """A review, and the version of its answer."""

    api_version: str
    """``admission.k8s.io/v1`` or ``admission.k8s.io/v1beta1``."""
    review: Review
    """The review."""


def decode_review(body: bytes, cluster: Cluster, checks: TextChecks | None = None) -> ReceivedReview:
    """Decode an AdmissionReview. Its objects stay bytes, and are parsed already where that is cheap.

    Decode a long one in a thread, and a very long one with :func:`decode_large_review`.
    ``checks`` prove to other services that its objects were checked here.

    Raises:
        ReviewError: the body is not JSON or exceeds its limits, is not an AdmissionReview, or has no request or uid.
            The message names the wrong field and never repeats the body.
    """
    return _review_from(lambda: _decode_body(body), cluster, checks, estimate_values(body))


def decode_large_review(
    pieces: Sequence[bytes],
    cluster: Cluster,
    cut_out: MemberStripper,
    checks: TextChecks | None = None,
) -> ReceivedReview:
    """Decode a body that came in pieces, and that ``cut_out`` checks and cuts.

    Raises:
        ReviewError: as :func:`decode_review`.
        Exception: what else ``cut_out`` raises.
    """
    return _review_from(lambda: _decode_cut_body(pieces, cut_out), cluster, checks, estimate_values(*pieces))


def _review_from(
    receive: Callable[[], _DecodedBody], cluster: Cluster, checks: TextChecks | None, values: int
) -> ReceivedReview:
    with _refusals():
        received = receive()
    return _received_review(received, cluster, checks, values)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn what is raised for a bad body into a ReviewError with the words for the caller."""
    try:
        yield
    except JsonLimitError as error:
        raise ReviewError(f"the body {error}") from None
    except msgspec.ValidationError as error:
        raise ReviewError(
            f"not an AdmissionReview that can be answered: {_describe_error(str(error))}"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ReviewError(f"the body is not JSON: {_position_only(error)}") from None


def _received_review(
    received: _DecodedBody, cluster: Cluster, checks: TextChecks | None, values: int
) -> ReceivedReview:
    request = received.envelope.request
    if request is None:
        raise ReviewError("the AdmissionReview has no request")
    if not request.uid:
        raise ReviewError("the AdmissionReview's request has no uid")
    _check_names(request)
    return ReceivedReview(received.envelope.api_version, _review(request, received, cluster, checks, values))


class _ReviewMembers(msgspec.Struct, frozen=True):
    request: dict[str, msgspec.Raw]


_members_decoder = msgspec.json.Decoder(prepared(_ReviewMembers))
_members_encoder = msgspec.json.Encoder()
_LONG_OBJECTS = ("object", "oldObject")
_MAX_MEMBERS = 64
"""Four times the members of a request."""
_SPACES = b" \t\r\n"


class DeferredBodyCheck:
    """The check of a body whose long objects have not been checked. It keeps no copy of them."""

    __slots__ = ("_head", "_members", "_tail", "passed")

    def __init__(self, head: bytes, members: dict[str, msgspec.Raw], tail: bytes) -> None:
        """Check nothing yet. The body is the compact JSON of ``members`` between ``head`` and ``tail``."""
        self._head, self._members, self._tail = head, members, tail
        self.passed = False

    def run(self) -> None:
        """Check the whole body, and refuse it with the words for a body that is checked before all else.

        Raises:
            ReviewError: it is not JSON or exceeds its limits.
        """
        with _refusals():
            parse_checked(b"".join((self._head, _members_encoder.encode(self._members), self._tail)))
        self.passed = True


def decode_deferring(
    body: bytes, cluster: Cluster, checks: TextChecks | None = None
) -> ReceivedReview | None:
    """Decode an AdmissionReview, but leave the check of its long objects to the services that parse them.

    Returns None if it must be checked here: it has no long object, or it is not written as an API server writes it,
    without spaces around the members of the request, and with the request last. Takes a fifth of the time of
    :func:`decode_review`.
    """
    try:
        received = _decode_deferring(body)
        if received is None:
            return None
        return _received_review(received, cluster, checks, estimate_values(body))
    except (JsonLimitError, ReviewError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # the whole check finds the error, and has the words for it


def _decode_deferring(body: bytes) -> _DecodedBody | None:
    if not body.isascii():
        str(body, "utf-8")
    members = _members_decoder.decode(body).request
    long = {name: bytes(members[name]) for name in _LONG_OBJECTS if _is_long(members.get(name, _NULL))}
    # A body that ends with these members as they are encoded has none of them twice: it would be longer. As their
    # quotes are balanced, and the body ends outside strings, so does what precedes them.
    written = _members_encoder.encode(members)
    end = len(body.rstrip(_SPACES)) - 1
    if not long or len(members) > _MAX_MEMBERS or not body.endswith(written, 0, end):
        return None
    head, tail = body[: end - len(written)], body[end:]
    remainder = b"".join((head, _members_encoder.encode(members | dict.fromkeys(long, _NULL)), tail))
    if len(remainder) > _REUSED_BYTES:
        return None
    parse_checked(remainder)
    kept = {name: msgspec.Raw(long[name]) if name in long else raw.copy() for name, raw in members.items()}
    return _DecodedBody(_decoder.decode(remainder), {}, long, DeferredBodyCheck(head, kept, tail))


def _is_long(raw: msgspec.Raw) -> bool:
    return memoryview(raw).nbytes >= MIN_PROVED_BYTES


class _DecodedBody(NamedTuple):
    """A checked and decoded body."""

    envelope: _ReceivedAdmissionReview
    parsed: JSONObject
    """The request as parsed for the check; empty if it is not kept."""
    taken_out: Mapping[str, bytes]
    """The raw members of the request that were cut out of the envelope, by name."""
    deferred: DeferredBodyCheck | None = None
    """The check of these members; None if they were checked."""


def _decode_body(body: bytes) -> _DecodedBody:
    data = parse_checked(body)
    envelope = _decoder.decode(body)
    if len(body) > _REUSED_BYTES or data is msgspec.UNSET or envelope.request is None:
        return _DecodedBody(envelope, {}, {})
    return _DecodedBody(envelope, data["request"], {})


def _decode_cut_body(pieces: Sequence[bytes], cut_out: MemberStripper) -> _DecodedBody:
    remainder = cut_out(pieces, _OBJECTS)
    if remainder is None:
        return _DecodedBody(_decoder.decode(b"".join(pieces)), {}, {})
    taken_out = {name: slice_pieces(pieces, begin, end) for name, (begin, end) in remainder.spans.items()}
    return _DecodedBody(_decoder.decode(remainder.text), {}, taken_out)


_CHOICES = {
    "$.apiVersion": "`admission.k8s.io/v1` or `admission.k8s.io/v1beta1`",
    "$.kind": "`AdmissionReview`",
    "$.request.operation": "`CREATE`, `UPDATE`, `DELETE` or `CONNECT`",
}
"""The allowed values of fields with few of them; the decoder's own message would repeat the invalid value."""


def _describe_error(text: str) -> str:
    for field, choices in _CHOICES.items():
        if text.endswith(f"at `{field}`") and text.startswith("Invalid enum value"):
            return f"Expected {choices} - at `{field}`"
    return text


def _position_only(error: Exception) -> str:
    # The message of UnicodeDecodeError contains bytes of the body; its reason and position do not.
    if isinstance(error, UnicodeDecodeError):
        return f"invalid UTF-8 at byte {error.start}"
    return str(error)


def _check_names(request: _ReceivedRequest) -> None:
    # No object can have such a name, and a log or a database might truncate the text at the NUL.
    for field, text in (("name", request.name), ("namespace", request.namespace)):
        if text is not None and "\0" in text:
            raise ReviewError(f"not an AdmissionReview that can be answered: a NUL - at `$.request.{field}`")
    types = (request.kind, request.resource, request.request_kind, request.request_resource)
    texts = [text for type_ in types if type_ is not None for text in msgspec.structs.astuple(type_)]
    if any(
        len(text or "") > MAX_TYPE_LENGTH
        for text in (*texts, request.sub_resource, request.request_sub_resource)
    ):
        where = "in the kind, the resource or the subresource"
        raise ReviewError(
            f"not an AdmissionReview that can be answered: more than {MAX_TYPE_LENGTH} characters {where}"
        )


def _review(
    request: _ReceivedRequest,
    received: _DecodedBody,
    cluster: Cluster,
    checks: TextChecks | None,
    values: int,
) -> Review:
    return Review(
        uid=request.uid,
        operation=request.operation,
        kind=request.kind,
        resource=request.resource,
        subresource=request.sub_resource or "",
        request_kind=request.request_kind,
        request_resource=request.request_resource,
        request_subresource=request.request_sub_resource or "",
        name=request.name or "",
        namespace=request.namespace or "",
        user=_user(request.user_info),
        object_document=_document("object", request.object, received, checks),
        old_object_document=_document("oldObject", request.old_object, received, checks),
        options_document=_document("options", request.options, received, checks),
        dry_run=bool(request.dry_run),
        cluster=cluster,
        received_values=values,
    )


def _document(field: str, raw: msgspec.Raw, received: _DecodedBody, checks: TextChecks | None) -> Document:
    content = received.taken_out.get(field) or bytes(raw)
    if not content.startswith((b"{", b"null")):
        raise ReviewError(
            f"not an AdmissionReview that can be answered: Expected `object | null` - at `$.request.{field}`"
        )
    data = received.parsed.get(field)
    document = Document.from_raw(content) if data is None else Document(content, data, parsed=True)
    document.checked_by(checks)
    if received.deferred is not None and field in received.taken_out:
        return document.defer(received.deferred)
    if len(content) > LARGE_BYTES:
        _ = document.check_digest  # now, because this runs in a thread, and sending does not
    return document


def _user(user: _UserInfo | None) -> UserInfo:
    if user is None:
        return UserInfo()
    return UserInfo(user.username or "", user.uid or "", user.groups or (), user.extra or {})


def encode_answer(decision: Decision, api_version: str, *, may_patch: bool = True) -> bytes:
    """Encode the AdmissionReview that answers a review, in the version of the review.

    Without ``may_patch``, as for a review that is only validated, it has no patch.
    """
    response: JSONObject = {"uid": decision.uid, "allowed": decision.allowed}
    if may_patch and decision.patch and decision.allowed:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(encode(decision.patch)).decode()
    if decision.status is not None:
        response["status"] = statuses.to_document(decision.status)
    if decision.audit_annotations:
        response["auditAnnotations"] = answer_annotations(decision.audit_annotations)
    if decision.warnings:
        response["warnings"] = decision.warnings
    return encode({"apiVersion": api_version, "kind": "AdmissionReview", "response": response})
