"""Encode requests, responses, reviews and outcomes as protobuf messages, and decode them."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias, assert_never

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import (
    ALLOWED,
    Allowed,
    Denied,
    Failed,
    FailureKind,
    Outcome,
    OutcomeDecision,
    OutcomeStatus,
    Patched,
    PolicyOutcome,
)
from pratique.admission.reviews import Call, Review
from pratique.admission.v1 import mutator_service_pb2, outcome_pb2, review_pb2, validator_service_pb2
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import BadAnswerError, ReviewError
from pratique.apimachinery.json_reading import JsonLimitError, read_document
from pratique.apimachinery.json_values import Document, JSONObject, encode
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patches import PatchDecodeError, decode_patch
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails
from pratique.cluster.store import Cluster
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES, LargeTextReader
from pratique.processes.review_threads import estimate_values, work_on_text
from pratique.rpc.check_digests import OBJECT_LEVELS, OBJECT_RULES, CheckDigests
from pratique.rpc.wire_format import FEW_FIELDS_BYTES, check_fields

if TYPE_CHECKING:
    from pratique.rpc.handlers import IncomingRequest


ChainRequest: TypeAlias = mutator_service_pb2.MutateRequest | validator_service_pb2.ValidateRequest

ReadDocument: TypeAlias = Callable[[bytes], Document]
"""Reads JSON text into a document; raises what :func:`pratique.apimachinery.json_reading.read_document` raises."""


def write_status(message: outcome_pb2.Status, status: Status) -> None:
    """Write a denial's Status into a message."""
    message.code = status.code
    message.reason = status.reason
    message.message = status.message
    if status.details is not None:
        _write_details(message.details, status.details)


def _write_details(message: outcome_pb2.StatusDetails, details: StatusDetails) -> None:
    message.SetInParent()
    message.name = details.name
    message.group = details.group
    message.kind = details.kind
    message.uid = details.uid
    message.retry_after_seconds = details.retry_after_seconds
    for cause in details.causes:
        message.causes.add(reason=cause.reason, message=cause.message, field=cause.field)


def read_status(message: outcome_pb2.Status) -> Status:
    """Read a denial's Status; a code below 400 becomes 400."""
    # k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
    code = max(message.code, 400)
    details = _read_details(message.details) if message.HasField("details") else None
    return statuses.failure(code, message.reason, message.message, details)


def _read_details(message: outcome_pb2.StatusDetails) -> StatusDetails:
    return StatusDetails(
        name=message.name,
        group=message.group,
        kind=message.kind,
        uid=message.uid,
        causes=tuple(StatusCause(cause.reason, cause.message, cause.field) for cause in message.causes),
        retry_after_seconds=max(message.retry_after_seconds, 0),
    )


_OPERATION_TO_NUMBER = {
    Operation.CREATE: review_pb2.OPERATION_CREATE,
    Operation.UPDATE: review_pb2.OPERATION_UPDATE,
    Operation.DELETE: review_pb2.OPERATION_DELETE,
    Operation.CONNECT: review_pb2.OPERATION_CONNECT,
}
_OPERATION_FROM_NUMBER = {number: operation for operation, number in _OPERATION_TO_NUMBER.items()}


def write_review(message: review_pb2.Review, review: Review) -> None:
    """Write a review into a message, which can be a field of another: assigning it later would copy the objects.

    Its documents may be unchecked.
    """
    message.uid = review.uid
    message.operation = _OPERATION_TO_NUMBER[review.operation]
    message.sub_resource = review.subresource
    message.request_sub_resource = review.request_subresource
    message.name = review.name
    message.namespace = review.namespace
    message.object = review.object_document.unchecked_raw
    message.old_object = review.old_object_document.unchecked_raw
    message.options = review.options_document.unchecked_raw
    message.dry_run = review.dry_run
    _write_kind(message.kind, review.kind)
    _write_resource(message.resource, review.resource)
    if review.request_kind is not None:
        _write_kind(message.request_kind, review.request_kind)
    if review.request_resource is not None:
        _write_resource(message.request_resource, review.request_resource)
    _write_user(message.user_info, review.user)


_DOCUMENT_FIELDS = ("object", "old_object", "options")


def _write_checks(message: review_pb2.Review, review: Review) -> None:
    if review.is_unchecked:
        message.checks.wanted_rules = OBJECT_RULES
    for field, document in zip(_DOCUMENT_FIELDS, review.documents, strict=True):
        if digest := document.check_digest:
            setattr(message.checks, field, digest)


def _write_kind(message: review_pb2.GroupVersionKind, kind: GroupVersionKind) -> None:
    message.SetInParent()  # even an empty one is present
    message.group = kind.group
    message.version = kind.version
    message.kind = kind.kind


def _write_resource(message: review_pb2.GroupVersionResource, resource: GroupVersionResource) -> None:
    message.SetInParent()
    message.group = resource.group
    message.version = resource.version
    message.resource = resource.resource


def _write_user(message: review_pb2.UserInfo, user: UserInfo) -> None:
    message.username = user.username
    message.uid = user.uid
    message.groups.extend(user.groups)
    for key, values in user.extra.items():
        entry = message.extra[key]
        entry.values.extend(values)


NOTHING_CHECKED: Mapping[str, Document] = MappingProxyType({})


def checked_documents(message: review_pb2.Review, digests: CheckDigests) -> Mapping[str, Document]:
    """Return the documents that the caller proves to have checked, by field. Nothing is parsed."""
    found = {}
    for field in _DOCUMENT_FIELDS:
        if digest := getattr(message.checks, field):
            raw = getattr(message, field)
            if digests.proves(digest, raw):
                found[field] = Document.from_raw(raw)
    return found


def review_from_message(
    message: review_pb2.Review,
    cluster: Cluster,
    read: ReadDocument = read_document,
    digest: str = "",
    checked: Mapping[str, Document] = NOTHING_CHECKED,
) -> Review:
    """Decode a review; its controllers look up objects in ``cluster``.

    ``digest`` is that of the inputs to decide by. ``read`` reads the documents, except those that the caller has proved
    to have ``checked``, by field.

    Raises:
        ReviewError: a field is missing or invalid. The text names the field, never its content.
    """
    operation = _OPERATION_FROM_NUMBER.get(message.operation)
    if operation is None:
        names = ", ".join(f"OPERATION_{operation}" for operation in Operation)
        raise ReviewError(f"review.operation must be one of {names}")
    _require_field(bool(message.uid), "uid")
    _require_field(message.HasField("kind"), "kind")
    _require_field(message.HasField("resource"), "resource")
    object_document = checked.get("object") or _read_document_field(message, "object", read)
    old_object_document = checked.get("old_object") or _read_document_field(message, "old_object", read)
    options_document = checked.get("options") or _read_document_field(message, "options", read)
    return Review(
        uid=message.uid,
        operation=operation,
        kind=_read_kind(message.kind),
        resource=_read_resource(message.resource),
        subresource=message.sub_resource,
        request_kind=_read_kind(message.request_kind) if message.HasField("request_kind") else None,
        request_resource=(
            _read_resource(message.request_resource) if message.HasField("request_resource") else None
        ),
        request_subresource=message.request_sub_resource,
        name=message.name,
        namespace=message.namespace,
        user=_read_user(message.user_info),
        object_document=object_document,
        old_object_document=old_object_document,
        options_document=options_document,
        dry_run=message.dry_run,
        cluster=cluster,
        digest=digest,
        received_values=estimate_values(object_document.raw, old_object_document.raw, options_document.raw),
    )


def _require_field(present: bool, field: str) -> None:  # noqa: FBT001 - the calls read as sentences
    if not present:
        raise ReviewError(f"review.{field} is missing")


def _read_document_field(message: review_pb2.Review, field: str, read: ReadDocument) -> Document:
    try:
        return read(getattr(message, field))
    except JsonLimitError as error:
        raise ReviewError(f"review.{field} {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ReviewError(f"review.{field} is not JSON") from None


def _read_kind(message: review_pb2.GroupVersionKind) -> GroupVersionKind:
    return GroupVersionKind(message.group, message.version, message.kind)


def _read_resource(message: review_pb2.GroupVersionResource) -> GroupVersionResource:
    return GroupVersionResource(message.group, message.version, message.resource)


def _read_user(message: review_pb2.UserInfo) -> UserInfo:
    extra = {key: tuple(entry.values) for key, entry in message.extra.items()} if message.extra else {}
    return UserInfo(message.username, message.uid, tuple(message.groups), extra)


def bad_answer(text: str) -> BadAnswerError:
    """Return the error for an answer that breaks the contract, in the words of ``mutating/dispatcher.go``."""
    return BadAnswerError(f"received invalid webhook response: {text}")


def read_operations(patch: bytes) -> tuple[JSONObject, ...]:
    """Decode a JSON Patch.

    Raises:
        BadAnswerError: it is not a JSON Patch.
    """
    try:
        return tuple(decode_patch(patch))
    except PatchDecodeError as error:
        raise BadAnswerError(f"received undecodable patch in webhook response: {error}") from None


_STATUS_TO_NUMBER = {
    OutcomeStatus.ALLOWED: outcome_pb2.Part.ENDING_ALLOWED,
    OutcomeStatus.MUTATED: outcome_pb2.Part.ENDING_MUTATED,
    OutcomeStatus.UNCHANGED: outcome_pb2.Part.ENDING_UNCHANGED,
    OutcomeStatus.DENIED: outcome_pb2.Part.ENDING_DENIED,
    OutcomeStatus.WARNED: outcome_pb2.Part.ENDING_WARNED,
    OutcomeStatus.SKIPPED: outcome_pb2.Part.ENDING_SKIPPED,
    OutcomeStatus.FAILED: outcome_pb2.Part.ENDING_FAILED,
    OutcomeStatus.FAILED_OPEN: outcome_pb2.Part.ENDING_FAILED_OPEN,
}
_STATUS_FROM_NUMBER = {number: status for status, number in _STATUS_TO_NUMBER.items()}


def policy_outcome_to_message(outcome: PolicyOutcome) -> outcome_pb2.Part:
    """Encode a policy's outcome."""
    message = outcome_pb2.Part(
        name=outcome.name,
        configuration=outcome.configuration,
        ending=_STATUS_TO_NUMBER[outcome.status],
        reason=outcome.reason,
        key=outcome.key,
        reinvocable=outcome.reinvocable,
        applied=outcome.applied,
        duration_micros=round(outcome.duration_seconds * 1_000_000),
    )
    if outcome.operations:
        message.patch = encode(outcome.operations)
    for denial in outcome.denials:
        write_status(message.denials.add(), denial)
    return message


def policy_outcome_from_message(message: outcome_pb2.Part) -> PolicyOutcome:
    """Decode a policy's outcome.

    Raises:
        BadAnswerError: it has no name or status, or its patch is not a JSON Patch.
    """
    status = _STATUS_FROM_NUMBER.get(message.ending)
    if status is None or not message.name:
        raise bad_answer("a part of the outcome does not say what it is or how it ended")
    return PolicyOutcome(
        name=message.name,
        configuration=message.configuration,
        status=status,
        reason=message.reason,
        denials=tuple(map(read_status, message.denials)),
        operations=read_operations(message.patch) if message.patch else (),
        key=message.key,
        reinvocable=message.reinvocable,
        applied=message.applied,
        duration_seconds=message.duration_micros / 1_000_000,
    )


_FAILURE_KIND_TO_NUMBER = {
    FailureKind.ERROR: outcome_pb2.Failed.KIND_ERROR,
    FailureKind.TIMEOUT: outcome_pb2.Failed.KIND_TIMEOUT,
    FailureKind.UNKNOWN_CONTROLLER: outcome_pb2.Failed.KIND_UNKNOWN_CONTROLLER,
}
_FAILURE_KIND_FROM_NUMBER = {number: kind for kind, number in _FAILURE_KIND_TO_NUMBER.items()}


def outcome_to_message(outcome: Outcome) -> outcome_pb2.Outcome:
    """Encode an outcome.

    Raises:
        Exception: the controller's answer cannot be encoded: a text that is not a str or not UTF-8, a number out of
            range, a patch that is not JSON or contains itself.
    """
    message = outcome_pb2.Outcome(
        controller=outcome.controller,
        warnings=outcome.warnings,
        audit_annotations=outcome.audit_annotations,
        duration_micros=round(outcome.duration_seconds * 1_000_000),
    )
    if outcome.policy_outcomes:
        message.parts.extend(policy_outcome_to_message(policy) for policy in outcome.policy_outcomes)
    if outcome.span is not None:
        message.span.first, message.span.end = outcome.span
    _write_decision(message, outcome.decision)
    return message


def _write_decision(message: outcome_pb2.Outcome, decision: OutcomeDecision) -> None:
    match decision:
        case Allowed():
            message.allowed.SetInParent()
        case Patched(operations):
            message.patched.patch = encode(operations)
        case Denied(status):
            write_status(message.denied.status, status)
        case Failed(kind, text):
            message.failed.kind = _FAILURE_KIND_TO_NUMBER[kind]
            message.failed.message = text
        case _:
            assert_never(decision)


def outcome_from_message(
    message: outcome_pb2.Outcome, call: Call, phase: Phase, endpoint: str = ""
) -> Outcome:
    """Decode the outcome of a call, which ``endpoint`` answered.

    Raises:
        BadAnswerError: it is for another controller or other policies, has no decision, or patches although it may
            not.
    """
    if message.controller != call.name:
        name = statuses.go_quoted(call.name)
        raise bad_answer(f"expected the outcome of {name}, got that of another controller")
    span = (message.span.first, message.span.end) if message.HasField("span") else None
    if span not in {None, call.span}:
        raise bad_answer("other policies were evaluated than those of the call")
    return Outcome(
        controller=call.name,
        decision=_read_decision(message, may_patch=phase is Phase.MUTATE or call.may_patch),
        warnings=tuple(warning for warning in message.warnings if warning),
        audit_annotations=dict(message.audit_annotations),
        duration_seconds=message.duration_micros / 1_000_000,
        policy_outcomes=tuple(map(policy_outcome_from_message, message.parts)),
        endpoint=endpoint,
        span=span,
    )


def _read_decision(message: outcome_pb2.Outcome, *, may_patch: bool) -> OutcomeDecision:
    match message.WhichOneof("decision"):
        case "allowed":
            return ALLOWED
        case "patched" if not may_patch:
            raise bad_answer("a validator may not patch")
        case "patched":
            return Patched(read_operations(message.patched.patch))
        case "denied":
            return Denied(read_status(message.denied.status))
        case "failed":
            failed = message.failed
            return Failed(_FAILURE_KIND_FROM_NUMBER.get(failed.kind, FailureKind.ERROR), failed.message)
        case None:
            raise bad_answer("the outcome holds no decision")


_log = logging.getLogger(__name__)


def mutate_request(
    review: Review, calls: Sequence[Call], digest: str = ""
) -> mutator_service_pb2.MutateRequest:
    """Encode a call to a mutator, which runs controllers one after another, by the inputs with a digest."""
    request = mutator_service_pb2.MutateRequest(digest=digest)
    _write_request(request, review, calls)
    return request


def validate_request(
    review: Review, calls: Sequence[Call], digest: str = ""
) -> validator_service_pb2.ValidateRequest:
    """Encode a call to a validator, which runs controllers concurrently, by the inputs with a digest."""
    request = validator_service_pb2.ValidateRequest(digest=digest)
    _write_request(request, review, calls)
    return request


def _write_request(request: ChainRequest, review: Review, calls: Sequence[Call]) -> None:
    request.controllers.extend(_call_to_message(call) for call in calls)
    write_review(request.review, review)
    if request.digest:
        # A service of this suite; no other can verify the proofs, or says what it has checked.
        _write_checks(request.review, review)
    else:
        review.check()


def _call_to_message(call: Call) -> review_pb2.ControllerCall:
    message = review_pb2.ControllerCall(name=call.name)
    if call.timeout_seconds is not None:
        # Rounded up and never 0, which would mean no limit.
        message.timeout_millis = max(1, math.ceil(call.timeout_seconds * 1000))
    if not call.is_plain:
        message.explain = call.explain
        if call.only is not None:
            message.again.SetInParent()
            message.again.keys.extend(call.only)
        if call.span is not None:
            message.span.first, message.span.end = call.span
    return message


async def read_request(
    request: IncomingRequest[mutator_service_pb2.MutateRequest]
    | IncomingRequest[validator_service_pb2.ValidateRequest],
    cluster: Cluster,
    reader: LargeTextReader,
    digests: CheckDigests | None = None,
) -> tuple[Review, list[Call], str]:
    """Decode a request: in a thread if it is long, in ``reader``'s process if it is very long.

    What its caller has checked does not count, because it need not be read. Without ``digests`` no caller is believed
    to have checked anything.

    Returns:
        The review, the calls, and the rules by which the caller wanted the documents to be checked, if they were.

    Raises:
        ReviewError: as :func:`review_and_calls`.
        ReaderProcessError: the reader process failed.
    """
    message, size = request
    checked = NOTHING_CHECKED
    if digests is not None and message.review.HasField("checks"):
        checked = await work_on_text(size, checked_documents, message.review, digests)
        size -= sum(len(document.raw) for document in checked.values())
    if size > SEPARATE_PROCESS_BYTES:
        return *await reader.run(review_and_calls, message, cluster, reader.read_document, checked), ""
    rules = message.review.checks.wanted_rules if message.review.HasField("checks") else ""
    rules, read = (rules, _read_object) if rules == OBJECT_RULES else ("", read_document)
    return *await work_on_text(size, review_and_calls, message, cluster, read, checked), rules


def _read_object(raw: bytes) -> Document:
    return read_document(raw, OBJECT_LEVELS)


def review_and_calls(
    request: ChainRequest,
    cluster: Cluster,
    read: ReadDocument = read_document,
    checked: Mapping[str, Document] = NOTHING_CHECKED,
) -> tuple[Review, list[Call]]:
    """Decode a request, reading its documents with ``read``, except those that its caller has ``checked``.

    Raises:
        ReviewError: the request breaks the contract. The text names the field, never its content.
    """
    if not request.HasField("review"):
        raise ReviewError("review is missing")
    if not request.controllers:
        raise ReviewError("controllers is empty: name at least one controller to run")
    return (
        review_from_message(request.review, cluster, read, request.digest, checked),
        [_call_from_message(message) for message in request.controllers],
    )


def _call_from_message(message: review_pb2.ControllerCall) -> Call:
    millis = message.timeout_millis
    if millis < 0:
        raise ReviewError("controllers.timeout_millis must be 0, which means no limit of its own, or more")
    only = tuple(message.again.keys) if message.HasField("again") else None
    span = (message.span.first, message.span.end) if message.HasField("span") else None
    if span is not None and span[0] > span[1]:
        raise ReviewError("controllers.span.end must not be below controllers.span.first")
    return Call(
        message.name, millis / 1000 if millis else None, only=only, explain=message.explain, span=span
    )


def mutate_response(
    outcomes: Iterable[Outcome], uid: str = "", digest: str = "", checked_rules: str = ""
) -> mutator_service_pb2.MutateResponse:
    """Encode the outcomes of mutating controllers.

    Args:
        outcomes: The outcomes.
        uid: The uid of the review.
        digest: The digest of the inputs.
        checked_rules: The rules by which the documents were checked for the caller.
    """
    steps = []
    for outcome in outcomes:
        steps.append(_sendable_message(outcome))
        if steps[-1].HasField("denied") or steps[-1].HasField("failed"):
            break  # later outcomes build on a patch that cannot be sent
    return mutator_service_pb2.MutateResponse(
        steps=steps, uid=uid, digest=digest, checked_rules=checked_rules
    )


def validate_response(
    outcomes: Iterable[Outcome], uid: str = "", digest: str = "", checked_rules: str = ""
) -> validator_service_pb2.ValidateResponse:
    """Encode the outcomes of validating controllers; the arguments are those of :func:`mutate_response`."""
    verdicts = [_sendable_message(outcome) for outcome in outcomes]
    return validator_service_pb2.ValidateResponse(
        verdicts=verdicts, uid=uid, digest=digest, checked_rules=checked_rules
    )


def _sendable_message(outcome: Outcome) -> outcome_pb2.Outcome:
    """Encode an outcome; if that is impossible, encode a failure of its controller instead."""
    try:
        return outcome_to_message(outcome)
    except Exception as error:  # noqa: BLE001 - protobuf, msgspec and Python raise different errors
        where = {"controller": outcome.controller, "error": type(error).__name__}
        _log.error("an answer cannot be sent", extra=where)
        failed = Failed(FailureKind.ERROR, "answered with values that cannot be sent")
        return outcome_to_message(Outcome(controller=outcome.controller, decision=failed))


def outcomes_from_mutate(
    response: mutator_service_pb2.MutateResponse, calls: Sequence[Call], endpoint: str = ""
) -> list[Outcome]:
    """Decode a mutator's response: one outcome for each call, up to the first that is denied or failed.

    ``endpoint`` is the replica that answered.

    Raises:
        BadAnswerError: the answer breaks the contract.
    """
    steps = response.steps
    if len(steps) > len(calls):
        raise bad_answer(f"{len(steps)} steps for {len(calls)} controllers")
    outcomes = [
        outcome_from_message(message, call, Phase.MUTATE, endpoint)
        for message, call in zip(steps, calls, strict=False)
    ]
    ends = [isinstance(outcome.decision, Denied | Failed) for outcome in outcomes]
    if True in ends[:-1]:
        raise bad_answer("steps go on after one that is denied or failed")
    if len(steps) < len(calls) and not (ends and ends[-1]):
        raise bad_answer(f"{len(steps)} steps for {len(calls)} controllers, and none is denied or failed")
    return outcomes


def outcomes_from_validate(
    response: validator_service_pb2.ValidateResponse, calls: Sequence[Call], endpoint: str = ""
) -> list[Outcome]:
    """Decode a validator's response: one outcome for each call, in their order.

    ``endpoint`` is the replica that answered.

    Raises:
        BadAnswerError: the answer breaks the contract.
    """
    verdicts = response.verdicts
    if len(verdicts) != len(calls):
        raise bad_answer(f"{len(verdicts)} verdicts for {len(calls)} controllers")
    return [
        outcome_from_message(message, call, Phase.VALIDATE, endpoint)
        for message, call in zip(verdicts, calls, strict=True)
    ]


def check_answered_review(
    response: mutator_service_pb2.MutateResponse | validator_service_pb2.ValidateResponse,
    uid: str,
    *,
    ours: bool,
) -> None:
    """Check that a response is to the review with a uid.

    Services of this suite say so; others that were made before there was a field for it, say nothing.

    Raises:
        BadAnswerError: it is to another review.
    """
    if response.uid != uid and (ours or response.uid):
        raise bad_answer("the answer is to another review" if response.uid else "the answer names no review")


def record_checks(
    response: mutator_service_pb2.MutateResponse | validator_service_pb2.ValidateResponse, review: Review
) -> None:
    """Record that a service of this suite has checked the unchecked documents of a review, if it says so."""
    if response.checked_rules == OBJECT_RULES:
        for document in review.documents:
            document.checked_elsewhere()


def write_call(review: Review, call: Call) -> bytes:
    """Encode a call to a worker process, for either phase."""
    written: bytes = validate_request(review, [call], review.digest).SerializeToString()
    return written


class IncomingCall:
    """A call to a worker process."""

    def __init__(self, raw: bytes) -> None:
        """Decode the message, but not yet the review."""
        self._request = validator_service_pb2.ValidateRequest.FromString(raw)
        self.digest: str = self._request.digest
        """The digest of the inputs to decide by."""

    @property
    def seconds(self) -> float | None:
        """The time limit in seconds; None if there is none."""
        millis = self._request.controllers[0].timeout_millis if self._request.controllers else 0
        return millis / 1000 if millis > 0 else None

    def read(self, cluster: Cluster) -> tuple[Review, Call]:
        """Decode the review and the call; the controller looks up objects in ``cluster``.

        Raises:
            ReviewError: the review cannot be read.
        """
        review, [call] = review_and_calls(self._request, cluster)
        return review, call


def write_outcome(outcome: Outcome) -> bytes:
    """Encode a worker's answer; if that is impossible, encode a failure of the controller instead."""
    written: bytes = validate_response([outcome]).SerializeToString()
    return written


def read_outcome(raw: bytes, call: Call) -> Outcome:
    """Decode a worker's answer, which can have a patch only if the call ``may_patch``.

    Raises:
        BadAnswerError: it breaks the contract.
    """
    if len(raw) > FEW_FIELDS_BYTES:
        check_fields(raw, validator_service_pb2.ValidateResponse)
    response = validator_service_pb2.ValidateResponse.FromString(raw)
    [outcome] = outcomes_from_validate(response, [call])
    return outcome
