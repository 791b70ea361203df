"""Running one controller, so that whatever it does costs its own outcome and nothing else."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import inspect
import logging
import time
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import msgspec

from pratique.admission.controllers import Controller, Handler, Phase
from pratique.admission.namespace_provisioning import with_provisioned_namespace
from pratique.admission.results import (
    ALLOWED,
    Allow,
    Denied,
    Deny,
    Failed,
    FailureKind,
    Outcome,
    OutcomeDecision,
    Patch,
    Patched,
)
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import RefusalError, ReviewError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.statuses import Status
from pratique.cluster.store import Cluster
from pratique.cluster.typed_decoding import TypedDecodingError, decode_changed
from pratique.hosting.catalogue import HostedController
from pratique.processes.thread_pool import ControllerThreads, call_and_catch
from pratique.telemetry.logs import describe_error

if TYPE_CHECKING:
    from typing import Self


EvaluatedAnswer: TypeAlias = "tuple[OutcomeDecision, Document]"

MAX_OPERATIONS = 1_000
"""Of a patch that a policy writes itself. A Pod of a hundred containers with ten changes to each has as many; applying
them takes 10 ms. What is worked out from a changed object needs no limit: it has as many as there are changes."""

_PLAIN_OPERATIONS = frozenset({"add", "remove", "replace"})


def evaluate_answer(
    answer: object, review: Review, phase: Phase, *, may_patch: bool = False
) -> EvaluatedAnswer:
    """Decide what ``answer`` means for the review: the decision, and the object as it leaves it.

    ``may_patch`` lets a validating half change the object.

    An answer that cannot be used is a failure of its controller. Whatever this raises comes from an answer
    that holds no JSON, and is the same.
    """
    document = review.object_document
    match answer:
        case Allow():
            return ALLOWED, document
        case Deny():
            return Denied(_refusal(answer, review)), document
        case Patch() if phase is Phase.VALIDATE and not may_patch:
            return _error("answered with a patch, which a validating controller may not"), document
        case Patch() if document.is_null:
            return _error("answered with a patch where there is no object to change"), document
        case Patch():
            return _check_types(*_evaluate_patch(answer, document), review)
        case _:
            kind = type(answer).__name__
            return _error(f"answered with {kind} in place of allow(), deny(), patch() or warn()"), document


def _check_types(decision: OutcomeDecision, changed: Document, review: Review) -> EvaluatedAnswer:
    """Read the changed object as the API server would: what is of another type refuses the request."""
    before = review.object_document
    if not isinstance(decision, Patched):
        return decision, changed
    try:
        decoded = decode_changed(review.kind, before.data, changed)
    except TypedDecodingError as error:
        return Denied(statuses.internal_error(str(error))), before
    if decoded is changed:
        return decision, changed
    # Fields were dropped that the kind does not have.
    operations = tuple(diff(before.data, decoded.data))
    return (Patched(operations), decoded) if operations else (ALLOWED, before)


def _error(text: str) -> Failed:
    return Failed(FailureKind.ERROR, text)


def _refusal(answer: Deny, review: Review) -> Status:
    if answer.status is None:
        return statuses.admission_forbidden(review, answer.message)
    # Below 400 is read as 400: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
    return msgspec.structs.replace(answer.status, status="Failure", code=max(answer.status.code, 400))


def _evaluate_patch(answer: Patch, document: Document) -> EvaluatedAnswer:
    if answer.operations is None:
        return _diff_new_object(answer.new_object, document)
    if answer.new_object is not None:
        # Recorded edits bring both, and there is nothing to work out.
        return Patched(answer.operations), Document.from_data(answer.new_object)
    return _apply_operations(answer.operations, document)


def _diff_new_object(new_object: JSON, document: Document) -> EvaluatedAnswer:
    """Work out what a changed object changes."""
    if new_object is document.data:
        return _error("answered with the reviewed object itself: patch() takes a changed copy"), document
    operations = tuple(diff(document.data, new_object))
    return (Patched(operations), Document.from_data(new_object)) if operations else (ALLOWED, document)


def _apply_operations(operations: tuple[JSONObject, ...], document: Document) -> EvaluatedAnswer:
    """Apply what a policy wrote itself."""
    if len(operations) > MAX_OPERATIONS:
        return _error(f"answered with a patch of more than {MAX_OPERATIONS} operations"), document
    try:
        changed = patch_document(document, operations)
    except PatchError:
        # Its text quotes keys of the object.
        return _error("answered with a patch that does not fit the object"), document
    if changed == document:
        return ALLOWED, document
    if any(operation.get("op") not in _PLAIN_OPERATIONS for operation in operations):
        # What copies or tests is a few bytes that can become megabytes, or fail, wherever it is applied next.
        operations = tuple(diff(document.data, changed.data))
    return Patched(operations), changed


_log = logging.getLogger(__name__)


class RunResult(NamedTuple):
    """What came of running a half: its outcome, and the object as it left it."""

    outcome: Outcome
    document: Document


class RemoteFailureError(Exception):
    """Raised by a half that has another process run it: it failed there, and its failure is told there."""

    def __init__(self, failed: Failed) -> None:
        """Fail as it did there."""
        super().__init__(failed.message)
        self.failed = failed


@dataclasses.dataclass(frozen=True, slots=True)
class HandlerRunner:
    """One half of a controller, ready to be run."""

    name: str
    phase: Phase
    handler: Handler
    lane: ControllerThreads | None
    """Where it may block; None runs it on the event loop."""
    immediate: bool
    """True where it never waits for anything, so that no task is worth its cost."""
    may_patch: bool = False
    """Whether it may change the object though it validates."""
    wants_deadline: bool = False
    """Whether it wants to know how long it has though it seldom waits."""
    trusted: bool = False
    """Whether it is one of Kubernetes' own, which only see objects that are of Kubernetes' types."""

    async def run(self, review: Review, call: Call, deadline: Deadline | None = None) -> RunResult:
        """Ask the half about a review, for as long as the call and the deadline allow.

        Raises:
            ReviewError: the reviewed object is not JSON.
        """
        began = time.perf_counter()
        seconds = _seconds_allowed(call, deadline)
        try:
            answer = await self._ask(self._told(review, call, seconds), seconds)
            decision, document = self._conclude(answer, review)
        except TimeoutError:
            answer, document = None, review.object_document
            decision = Failed(FailureKind.TIMEOUT, "context deadline exceeded")
        said = answer if isinstance(answer, _ANSWER_TYPES) else _EMPTY_ANSWER
        outcome = Outcome(
            controller=self.name,
            decision=decision,
            warnings=said.warnings,
            audit_annotations=said.audit_annotations,
            duration_seconds=time.perf_counter() - began,
            policy_outcomes=said.policy_outcomes,
            document=document if self.trusted and _operations_made_document(answer, decision) else None,
        )
        return RunResult(outcome, document)

    def _told(self, review: Review, call: Call, seconds: float | None) -> Review:
        """Tell a half that may take a while how long it has, and one with members which of them are asked."""
        if seconds is not None and (self.wants_deadline or not self.immediate):
            review = dataclasses.replace(review, deadline=Deadline.after(seconds))
        return review if call.is_plain else dataclasses.replace(review, only=call.only, explain=call.explain)

    async def _ask(self, review: Review, seconds: float | None) -> object:
        """Have the half's answer, or the error that it raised as a value."""
        answer: object
        if self.lane is None:
            answer = call_and_catch(self.handler, review)
        else:
            answer = await _wait_at_most(seconds, self.lane.submit(self.handler, review))
        if not isinstance(answer, _ANSWER_TYPES) and inspect.isawaitable(answer):
            answer = await _wait_at_most(seconds, asyncio.ensure_future(_await_or_return_error(answer)))
        return answer

    def _conclude(self, answer: object, review: Review) -> tuple[OutcomeDecision, Document]:
        if not isinstance(answer, BaseException):
            try:
                return evaluate_answer(answer, review, self.phase, may_patch=self.may_patch)
            except Exception as error:  # noqa: BLE001 - an answer of whatever shape costs its own outcome alone
                answer = error
        return self._failure(answer, review), review.object_document

    def _failure(self, error: BaseException, review: Review) -> OutcomeDecision:
        if isinstance(error, RemoteFailureError):
            return error.failed
        if isinstance(error, RefusalError):
            return Denied(error.status)
        _check_documents_readable(review)
        if self.trusted and (fault := _type_fault(review)):
            return Denied(statuses.bad_request(fault))
        where = {"controller": self.name, "phase": self.phase.value, "uid": review.uid}
        _log.error("a controller failed", extra=where | {"error": describe_error(error)})
        return Failed(FailureKind.ERROR, f"raised {type(error).__name__}")


_ANSWER_TYPES = (Allow, Patch, Deny)
_EMPTY_ANSWER = Allow()


def _operations_made_document(answer: object, decision: OutcomeDecision) -> bool:
    """Tell whether the object came of the very operations that were decided, members in the same order too."""
    return (
        isinstance(answer, Patch)
        and isinstance(decision, Patched)
        and decision.operations is answer.operations
    )


def _seconds_allowed(call: Call, deadline: Deadline | None) -> float | None:
    if deadline is None:
        return call.timeout_seconds
    remaining = deadline.remaining_seconds
    return remaining if call.timeout_seconds is None else min(remaining, call.timeout_seconds)


async def _wait_at_most(seconds: float | None, future: asyncio.Future[Any]) -> object:
    """Wait for a future that never raises. Where it takes too long it is cancelled and not waited for."""
    try:
        await asyncio.wait((future,), timeout=seconds)
    finally:
        if not future.done():
            future.cancel()
    if future.cancelled() or not future.done():
        raise TimeoutError
    return future.result()


async def _await_or_return_error(answer: Awaitable[object]) -> object:
    """Await an answer; an error becomes a value, because SystemExit in a task would end the event loop."""
    try:
        return await answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - likewise for everything else that a policy raises
        return error


def _check_documents_readable(review: Review) -> None:
    """Tell a controller's own fault from a document that nobody could have read."""
    documents = (review.object_document, review.old_object_document, review.options_document)
    for field, document in zip(("object", "old_object", "options"), documents, strict=True):
        try:
            _ = document.data
        except Exception:  # noqa: BLE001 - whatever the parser raises, its text may quote the document
            raise ReviewError(f"review.{field} is not JSON") from None


def _type_fault(review: Review) -> str:
    """Tell a controller's own fault from an object that no API server would have shown to it."""
    from pratique.cluster.typed_decoding import type_fault  # noqa: PLC0415 - schemas that nobody needs until something breaks

    return type_fault(review)


def handler_runners(hosted: Iterable[HostedController], phase: Phase) -> Mapping[str, HandlerRunner]:
    """Make every half of one phase ready to be run, by its controller's name."""
    made = {}
    for one in hosted:
        handler = one.handlers.mutate if phase is Phase.MUTATE else one.handlers.validate
        if handler is not None:
            made[one.controller.name] = _make_runner(one.controller, phase, handler)
    return made


class ControllerHost:
    """Hosts one half of controllers, in whichever room. It knows no transport, so that offline runs share it."""

    def __init__(
        self, hosted: Sequence[HostedController], cluster: Cluster, phase: Phase, *, provisions: bool = False
    ) -> None:
        """Host what of ``hosted`` runs in a phase and looks things up in ``cluster``.

        With ``provisions`` their chain makes the namespaces that are missing.
        """
        self.hosted = tuple(hosted)
        """The controllers, in chain order."""
        self.cluster = cluster
        """What they look things up in."""
        self.runners = handler_runners(hosted, phase)
        """What runs each, by name."""
        self._provisions = provisions

    def in_cluster(self, review: Review) -> Review:
        """The review as it is in this host's cluster."""
        if review.cluster is not self.cluster:
            review = dataclasses.replace(review, cluster=self.cluster)
        return with_provisioned_namespace(review) if self._provisions else review

    def with_inputs(self, cluster: Cluster, handlers: Mapping[str, Handler]) -> Self:
        """Host the same with another cluster, and with those halves of theirs, by name, that are given.

        What runs them is shared: threads, and what they count.
        """
        other = copy.copy(self)
        other.cluster = cluster
        other.runners = {
            name: dataclasses.replace(one, handler=handlers[name]) if name in handlers else one
            for name, one in self.runners.items()
        }
        return other


def _make_runner(controller: Controller, phase: Phase, handler: Handler) -> HandlerRunner:
    coroutine = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
    lane = None if controller.trusted or coroutine else ControllerThreads(controller.name)
    immediate = controller.trusted and not coroutine
    return HandlerRunner(
        controller.name,
        phase,
        handler,
        lane,
        immediate,
        controller.may_patch,
        controller.wants_deadline,
        controller.trusted,
    )


def unknown_controller_outcome(call: Call) -> Outcome:
    """The outcome of a controller that is not hosted."""
    return Outcome(
        controller=call.name,
        decision=Failed(FailureKind.UNKNOWN_CONTROLLER, "this service hosts no controller of that name"),
    )
