"""Running controllers: hosts run mutating controllers one after another, and validating controllers concurrently.

A failure, hang or crash affects only the controller's own outcome. Answers are evaluated as the API server would:
patches are applied and decoded as the object's type, denials become Statuses, and everything unusable is a failure.
Hosts know no transport, so that services and offline runs share them.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, assert_never, cast

import msgspec

from pratique.admission.controllers import FailurePolicy, Handler, Phase
from pratique.admission.late_reviews import LEAST_SECONDS, OUT_OF_TIME, LateReviews
from pratique.admission.namespace_provisioning import with_provisioned_namespace
from pratique.admission.results import (
    ALLOWED,
    Allow,
    Allowed,
    Denied,
    Deny,
    Failed,
    FailureKind,
    Outcome,
    OutcomeDecision,
    OutcomeStatus,
    Patch,
    Patched,
    PolicyOutcome,
)
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import RefusalError, ReviewError
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.statuses import Status
from pratique.cluster import schemas
from pratique.cluster.authorization import UnansweredError, continue_evaluation
from pratique.cluster.conversion import ConversionWebhooks
from pratique.cluster.go_decoding import TypedDecodingError
from pratique.cluster.store import Cluster
from pratique.cluster.typed_decoding import decode_changed, type_fault
from pratique.hosting.catalogue import HostedController
from pratique.hosting.selection import RequestSelection, Verdict
from pratique.processes.review_threads import threads_for, work_beside_loop
from pratique.processes.thread_pool import ControllerThreads
from pratique.telemetry.logs import describe_error, place_in_policy
from pratique.telemetry.metrics import CallbackMetric, DurationHistogram

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

EvaluatedAnswer: TypeAlias = tuple[OutcomeDecision, Document]

MAX_OPERATIONS = 1_000
"""The most operations in a policy's own patch. Ten changes to each of a hundred containers need as many, and applying
them takes 10 ms. Operations computed from a changed object need no limit: there are as many as there are changes."""

_PLAIN_OPERATIONS = frozenset({"add", "remove", "replace"})


def evaluate_answer(
    answer: object, review: Review, phase: Phase, *, may_patch: bool = False
) -> EvaluatedAnswer:
    """Return the decision that an answer means for the review, and the object after it.

    With ``may_patch``, a validating handler may change the object.

    An unusable answer is a failure of its controller. So is any exception: it means that the answer is not JSON.
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
    """Decode the changed object as the API server does: a value of the wrong type denies the request."""
    before = review.object_document
    if not isinstance(decision, Patched):
        return decision, changed
    try:
        decoded = decode_changed(review.kind, before.data, changed, decision.operations)
    except TypedDecodingError as error:
        return Denied(statuses.internal_error(str(error))), before
    if decoded is changed:
        return decision, changed
    # Decoding dropped fields that the kind does not have.
    operations = tuple(diff(before.data, decoded.data))
    return (Patched(operations), decoded) if operations else (ALLOWED, before)


def _error(text: str) -> Failed:
    return Failed(FailureKind.ERROR, text)


def _refusal(answer: Deny, review: Review) -> Status:
    if answer.status is None:
        return statuses.admission_forbidden(review, answer.message)
    # A code below 400 becomes 400: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
    return msgspec.structs.replace(answer.status, status="Failure", code=max(answer.status.code, 400))


def _evaluate_patch(answer: Patch, document: Document) -> EvaluatedAnswer:
    if answer.operations is None:
        return _diff_new_object(answer.new_object, document)
    if answer.new_object is not None:
        # Edits bring both, so there is nothing to compute.
        return Patched(answer.operations), Document.from_data(answer.new_object)
    return _apply_operations(answer.operations, document)


def _diff_new_object(new_object: JSON, document: Document) -> EvaluatedAnswer:
    """Compute the operations that lead to a changed object."""
    if new_object is document.data:
        return _error("answered with the reviewed object itself: patch() takes a changed copy"), document
    operations = tuple(diff(document.data, new_object))
    return (Patched(operations), Document.from_data(new_object)) if operations else (ALLOWED, document)


def _apply_operations(operations: tuple[JSONObject, ...], document: Document) -> EvaluatedAnswer:
    """Apply a policy's own operations."""
    if len(operations) > MAX_OPERATIONS:
        return _error(f"answered with a patch of more than {MAX_OPERATIONS} operations"), document
    try:
        changed = patch_document(document, operations)
    except PatchError:
        # The error's text quotes keys of the object, so it is left out.
        return _error("answered with a patch that does not fit the object"), document
    if changed == document:
        return ALLOWED, document
    if any(operation.get("op") not in _PLAIN_OPERATIONS for operation in operations):
        # A few bytes of copy or test operations can become megabytes, or fail, wherever they are applied next.
        operations = tuple(diff(document.data, changed.data))
    return Patched(operations), changed


_log = logging.getLogger(__name__)


class RunResult(NamedTuple):
    """The outcome of running a handler, and the object after it."""

    outcome: Outcome
    document: Document


class RemoteFailureError(Exception):
    """Raised by a handler that runs in another process: it failed there and was logged there."""

    def __init__(self, failed: Failed, *, deadly: bool = False) -> None:
        """Fail with the remote handler's failure; ``deadly`` if the process died of the review."""
        super().__init__(failed.message)
        self.failed = failed
        self.deadly = deadly


class HandlerRunner(msgspec.Struct, frozen=True):
    """Runs one handler of a controller."""

    name: str
    phase: Phase
    handler: Handler
    threads: ControllerThreads | None
    """Where it may block; None runs it on the event loop."""
    late_reviews: LateReviews
    """The reviews that it took too long for, or that ended its process."""
    immediate: bool
    """Whether it never waits for anything, so that no task is worth its cost."""
    may_patch: bool = False
    """Whether it may change the object in the validating phase."""
    wants_deadline: bool = False
    """Whether it needs the deadline although it seldom waits."""
    trusted: bool = False
    """Whether it is one of Pratique's own, which only get objects of Kubernetes' types."""
    selection: RequestSelection | None = None
    """Which requests it gets; None if its rules alone say that."""
    fails_open: bool = False
    """Whether a request continues where the handler fails or takes too long."""
    tells_places: bool = False
    """Whether a failure names file and line of the policy, which only whoever runs the policy should see."""

    async def run(
        self,
        review: Review,
        call: Call,
        deadline: Deadline | None = None,
        beside_loop: ControllerThreads | None = None,
    ) -> RunResult:
        """Run the handler on a review that it is to get, within the call's time limit and the deadline.

        Args:
            review: The review.
            call: Which policies to run, and for how long.
            deadline: When nobody waits any longer.
            beside_loop: Where a handler runs that would else run on the event loop, and is ended when its time is up;
                None if there is little to do.

        Raises:
            ReviewError: the reviewed object is not JSON.
        """
        if self.selection is not None:
            verdict = await self.selection.decide(review, None if deadline is None else deadline.at)
            if verdict:
                return RunResult(self._not_called(verdict), review.object_document)
        result = await self._run_handler(
            review, call, deadline, beside_loop if self.threads is None else None
        )
        if self.fails_open and isinstance(result.outcome.decision, Failed):
            return RunResult(self._opened(result.outcome, result.outcome.decision), review.object_document)
        return result

    def _not_called(self, verdict: Verdict) -> Outcome:
        if isinstance(verdict, Status):
            return Outcome(controller=self.name, decision=Denied(verdict))
        skipped = PolicyOutcome(name=self.name, status=OutcomeStatus.SKIPPED, reason=verdict)
        return Outcome(controller=self.name, decision=ALLOWED, policy_outcomes=(skipped,))

    def _opened(self, outcome: Outcome, failed: Failed) -> Outcome:
        """Let the request continue, and say so where people and audits look."""
        where = {"controller": self.name, "phase": self.phase.value, "reason": failed.message}
        _log.warning("a controller failed, and its failure policy is Ignore", extra=where)
        part = PolicyOutcome(
            name=self.name,
            status=OutcomeStatus.FAILED_OPEN,
            reason=failed.message,
            duration_seconds=outcome.duration_seconds,
        )
        return Outcome(
            controller=self.name,
            decision=ALLOWED,
            audit_annotations={"failed-open": failed.message},
            duration_seconds=outcome.duration_seconds,
            policy_outcomes=(part,),
        )

    async def _run_handler(
        self, review: Review, call: Call, deadline: Deadline | None, beside_loop: ControllerThreads | None
    ) -> RunResult:
        began = time.perf_counter()
        seconds = _seconds_allowed(call, deadline)
        try:
            refusal = self._refusal(review)
            answer: object = refusal
            if refusal is None:
                answer = await self._call_handler(self._prepare(review, call, seconds), seconds, beside_loop)
            if isinstance(answer, UnansweredError):
                answer = await self._call_again(review, call, answer, seconds, beside_loop)
            if beside_loop is None or isinstance(answer, _SHORT_ANSWER_TYPES):
                decision, document = self._evaluate(answer, review)
            else:
                left = None if seconds is None else began + seconds - time.perf_counter()
                decision, document = await self._evaluate_beside_loop(answer, review, left, beside_loop)
            if refusal is None:
                self._remember(review, answer, time.perf_counter() - began)
        except TimeoutError:
            if (took := time.perf_counter() - began) >= LEAST_SECONDS:
                self.late_reviews.fail(review, took)
            answer, document, decision = None, review.object_document, OUT_OF_TIME
        messages = answer if isinstance(answer, _ANSWER_TYPES) else _EMPTY_ANSWER
        outcome = Outcome(
            controller=self.name,
            decision=decision,
            warnings=messages.warnings,
            audit_annotations=messages.audit_annotations,
            duration_seconds=time.perf_counter() - began,
            policy_outcomes=messages.policy_outcomes,
            span=call.span,
            document=document if self.trusted and _operations_made_document(answer, decision) else None,
        )
        return RunResult(outcome, document)

    def _refusal(self, review: Review) -> RemoteFailureError | None:
        """Take no time for a review that took all of it twice, and no process for one that ended two."""
        failed = self.late_reviews.refuse(review) if self.late_reviews.remembered else None
        return None if failed is None else RemoteFailureError(failed)

    def _remember(self, review: Review, answer: object, took_seconds: float) -> None:
        if isinstance(answer, RemoteFailureError) and answer.deadly:
            self.late_reviews.fail(review, took_seconds, answer.failed)
        elif self.late_reviews.remembered:
            self.late_reviews.answer(review)

    async def _call_again(
        self,
        review: Review,
        call: Call,
        unanswered: UnansweredError,
        seconds: float | None,
        beside_loop: ControllerThreads | None,
    ) -> object:
        """Call the handler again, once an authorizer has asked the API server, until it has nothing more to ask."""
        deadline = None if seconds is None else Deadline.after(seconds)

        async def call_handler() -> object:
            left = None if deadline is None else deadline.remaining_seconds
            answer = await self._call_handler(self._prepare(review, call, left), left, beside_loop)
            if isinstance(answer, UnansweredError):
                raise answer
            return answer

        until = None if deadline is None else deadline.at
        return await continue_evaluation(call_handler, unanswered, until)

    def _prepare(self, review: Review, call: Call, seconds: float | None) -> Review:
        """Add the deadline, for a handler that may wait, and the policies to run or explain."""
        if seconds is not None and (self.wants_deadline or not self.immediate):
            review = msgspec.structs.replace(review, deadline=Deadline.after(seconds))
        if call.is_plain:
            return review
        return msgspec.structs.replace(review, only=call.only, span=call.span, explain=call.explain)

    async def _call_handler(
        self, review: Review, seconds: float | None, beside_loop: ControllerThreads | None
    ) -> object:
        """Return the handler's answer, or the exception that it raised as a value."""
        answer: object
        if self.threads is not None:
            answer = await _wait_at_most(seconds, self.threads.submit(self.handler, review))
        elif beside_loop is not None and self.immediate:
            answer = await _wait_at_most(seconds, beside_loop.submit_interruptible(self.handler, review))
        else:
            try:
                answer = self.handler(review)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # noqa: BLE001 - a policy that calls sys.exit() must not end its service
                answer = error
        if not isinstance(answer, _ANSWER_TYPES) and inspect.isawaitable(answer):
            answer = await _wait_at_most(seconds, asyncio.ensure_future(_await_or_return_error(answer)))
        return answer

    def _evaluate(self, answer: object, review: Review) -> EvaluatedAnswer:
        if not isinstance(answer, BaseException):
            try:
                return evaluate_answer(answer, review, self.phase, may_patch=self.may_patch)
            except Exception as error:  # noqa: BLE001 - a malformed answer affects only its own outcome
                answer = error
        return self._failure(answer, review), review.object_document

    async def _evaluate_beside_loop(
        self, answer: object, review: Review, seconds: float | None, threads: ControllerThreads
    ) -> EvaluatedAnswer:
        """Evaluate a patch or an error, for which the object is read again, within the time that is left."""
        future = threads.submit_interruptible(functools.partial(self._evaluate, answer), review)
        evaluated = await _wait_at_most(seconds, future)
        if isinstance(evaluated, BaseException):
            raise evaluated
        return cast("EvaluatedAnswer", evaluated)

    def _failure(self, error: BaseException, review: Review) -> OutcomeDecision:
        if isinstance(error, RemoteFailureError):
            return error.failed
        if isinstance(error, RefusalError):
            return Denied(error.status)
        _check_documents_readable(review)
        if self.trusted and (fault := type_fault(review)):
            return Denied(statuses.bad_request(fault))
        where = {"controller": self.name, "phase": self.phase.value, "uid": review.uid}
        _log.error("a controller failed", extra=where | {"error": describe_error(error)})
        place = place_in_policy(error) if self.tells_places and not self.trusted else ""
        return Failed(FailureKind.ERROR, f"raised {type(error).__name__}" + (f" in {place}" if place else ""))


_ANSWER_TYPES = (Allow, Patch, Deny)
_SHORT_ANSWER_TYPES = (Allow, Deny)
_EMPTY_ANSWER = Allow()


def _operations_made_document(answer: object, decision: OutcomeDecision) -> bool:
    """Tell whether the object resulted from exactly the decided operations, so that even members' order is the same."""
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
    """Wait for a future that never raises. If it takes too long, cancel it without waiting for that."""
    try:
        await asyncio.wait((future,), timeout=seconds)
    finally:
        if not future.done():
            future.cancel()
    if future.cancelled() or not future.done():
        raise TimeoutError
    return future.result()


async def _await_or_return_error(answer: Awaitable[object]) -> object:
    """Await an answer and return exceptions as values, because SystemExit in a task would end the event loop."""
    try:
        return await answer
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - as for everything else that a policy raises
        return error


def _check_documents_readable(review: Review) -> None:
    """Raise ReviewError if a document is not JSON, which is not the controller's fault."""
    for field, document in zip(("object", "old_object", "options"), review.documents, strict=True):
        try:
            _ = document.data
        except Exception:  # noqa: BLE001 - whatever the parser raises, its text may quote the document
            raise ReviewError(f"review.{field} is not JSON") from None


def handler_runners(
    hosted: Iterable[HostedController], phase: Phase, *, tells_places: bool = False
) -> dict[str, HandlerRunner]:
    """Return a runner for each handler of one phase, by its controller's name."""
    runners = {}
    for configured in hosted:
        handlers = configured.handlers
        handler = handlers.mutate if phase is Phase.MUTATE else handlers.validate
        if handler is not None:
            runner = _make_runner(configured, phase, handler)
            runners[configured.controller.name] = msgspec.structs.replace(runner, tells_places=tells_places)
    return runners


def _make_runner(configured: HostedController, phase: Phase, handler: Handler) -> HandlerRunner:
    controller = configured.controller
    coroutine = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)
    threads = None if controller.trusted or coroutine else ControllerThreads(controller.name)
    immediate = controller.trusted and not coroutine
    return HandlerRunner(
        controller.name,
        phase,
        handler,
        threads,
        LateReviews(controller.name),
        immediate,
        controller.may_patch,
        controller.wants_deadline,
        controller.trusted,
        configured.selection,
        controller.failure_policy is FailurePolicy.IGNORE,
    )


class ControllerHost:
    """Hosts the controllers' handlers for one phase."""

    def __init__(
        self,
        hosted: Sequence[HostedController],
        cluster: Cluster,
        phase: Phase,
        *,
        provisions: bool = False,
        tells_places: bool = False,
        conversion_webhooks: ConversionWebhooks | None = None,
    ) -> None:
        """Host the handlers of ``hosted`` for a phase.

        Args:
            hosted: The controllers, in chain order.
            cluster: The objects that they look up.
            phase: The phase to run.
            provisions: Whether the chain creates missing namespaces.
            tells_places: Whether the failure of a policy names its file and line.
            conversion_webhooks: Asks the webhooks that convert custom resources, for reviews that bring none who does.
        """
        self.hosted = tuple(hosted)
        """The controllers, in chain order."""
        self.cluster = cluster
        """The objects that they look up."""
        self.runners: Mapping[str, HandlerRunner] = handler_runners(hosted, phase, tells_places=tells_places)
        """The runner of each handler, by its controller's name."""
        self._provisions = provisions
        self._conversion_webhooks = conversion_webhooks

    def in_cluster(self, review: Review) -> Review:
        """Return the review with this host's cluster, and with who asks conversion webhooks."""
        asks = review.conversion_webhooks or self._conversion_webhooks
        if review.cluster is not self.cluster or review.conversion_webhooks is not asks:
            review = msgspec.structs.replace(review, cluster=self.cluster, conversion_webhooks=asks)
        return with_provisioned_namespace(review) if self._provisions else review

    async def prepare(self, review: Review) -> Review:
        """Return the review as :meth:`in_cluster` does, with a large object read where nobody waits for that.

        Raises:
            ReviewError: a document is not JSON.
        """
        review = self.in_cluster(review)
        if threads_for(review.received_values) is not None:
            await work_beside_loop(review.received_values, _check_documents_readable, review)
        return review

    def close_threads(self) -> None:
        """End the threads that its handlers have run in, those of handlers that still run excepted."""
        for runner in self.runners.values():
            if runner.threads is not None:
                runner.threads.close()

    def with_inputs(self, cluster: Cluster, handlers: Mapping[str, Handler]) -> Self:
        """Return a host with another cluster, and with other handlers for the controllers that ``handlers`` names.

        Both hosts share threads and metrics.
        """
        other = copy.copy(self)
        other.cluster = cluster
        other.runners = {
            name: msgspec.structs.replace(runner, handler=handlers[name]) if name in handlers else runner
            for name, runner in self.runners.items()
        }
        return other


class MutatorHost(ControllerHost):
    """Hosts mutating handlers."""

    def __init__(
        self,
        hosted: Sequence[HostedController],
        cluster: Cluster,
        *,
        provisions: bool = False,
        tells_places: bool = False,
        conversion_webhooks: ConversionWebhooks | None = None,
    ) -> None:
        """Host the mutating handlers of ``hosted``, as :class:`ControllerHost` does."""
        super().__init__(
            hosted,
            cluster,
            Phase.MUTATE,
            provisions=provisions,
            tells_places=tells_places,
            conversion_webhooks=conversion_webhooks,
        )
        if self.runners:
            schemas.load()  # checks mutated objects; loaded now so that the first review need not wait for it

    async def mutate(
        self, review: Review, calls: Sequence[Call], deadline: Deadline | None = None
    ) -> list[Outcome]:
        """Run controllers in the order of ``calls``, each on the object as the previous one left it.

        The list ends with the first outcome that is denied or failed. If a controller exceeds its call's time limit or
        the deadline, its outcome is failed.

        Raises:
            ReviewError: the reviewed object is not JSON.
        """
        review = await self.prepare(review)
        document = review.object_document
        outcomes: list[Outcome] = []
        spent = 0.0
        for call in calls:
            if document is not review.object_document:
                review = review.with_object(document)
            runner = self.runners.get(call.name)
            if runner is None:
                return [*outcomes, _unknown_controller(call)]
            result = await runner.run(review, call, deadline, threads_for(review.received_values, spent))
            spent += result.outcome.duration_seconds
            outcomes.append(result.outcome)
            if isinstance(result.outcome.decision, Denied | Failed):
                break
            document = result.document
        return outcomes


class ValidatorHost(ControllerHost):
    """Hosts validating handlers."""

    def __init__(
        self,
        hosted: Sequence[HostedController],
        cluster: Cluster,
        *,
        provisions: bool = False,
        tells_places: bool = False,
        conversion_webhooks: ConversionWebhooks | None = None,
    ) -> None:
        """Host the validating handlers of ``hosted``, as :class:`ControllerHost` does."""
        super().__init__(
            hosted,
            cluster,
            Phase.VALIDATE,
            provisions=provisions,
            tells_places=tells_places,
            conversion_webhooks=conversion_webhooks,
        )

    async def validate(
        self, review: Review, calls: Sequence[Call], deadline: Deadline | None = None
    ) -> list[Outcome]:
        """Run controllers concurrently on the same object; return one outcome for each call, in their order.

        If a controller exceeds its call's time limit or the deadline, its outcome is failed.

        Raises:
            ReviewError: the reviewed object is not JSON.
        """
        review = await self.prepare(review)
        if len(calls) == 1 or all(self._is_immediate(call) for call in calls):
            # The usual case: tasks would cost more than the controllers' own work.
            return await self._run_in_turn(review, calls, deadline)
        tasks = [asyncio.ensure_future(self._run(review, call, deadline)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    async def _run_in_turn(
        self, review: Review, calls: Sequence[Call], deadline: Deadline | None
    ) -> list[Outcome]:
        outcomes: list[Outcome] = []
        spent = 0.0
        for call in calls:
            outcomes.append(await self._run(review, call, deadline, spent))
            spent += outcomes[-1].duration_seconds
        return outcomes

    def _is_immediate(self, call: Call) -> bool:
        runner = self.runners.get(call.name)
        return runner is None or runner.immediate

    async def _run(
        self, review: Review, call: Call, deadline: Deadline | None, spent_seconds: float = 0.0
    ) -> Outcome:
        runner = self.runners.get(call.name)
        if runner is None:
            return _unknown_controller(call)
        beside_loop = threads_for(review.received_values, spent_seconds)
        return (await runner.run(review, call, deadline, beside_loop)).outcome


def _unknown_controller(call: Call) -> Outcome:
    return Outcome(
        controller=call.name,
        decision=Failed(FailureKind.UNKNOWN_CONTROLLER, "this service hosts no controller of that name"),
    )


_CONTROLLER_BUCKETS = (0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 30.0)
"""In seconds. The fastest built-in controllers take 5 microseconds, and no call lasts longer than 30 s."""


class HasThreads(Protocol):
    """A hosted controller, as far as metrics need it."""

    @property
    def threads(self) -> ControllerThreads | None:
        """Where it runs; None on the event loop."""


class ControllerMetrics:
    """Durations and threads of the controllers that a service hosts."""

    def __init__(self, phase: Phase, controllers: Mapping[str, HasThreads]) -> None:
        """Start at zero, for the hosted controllers by name."""
        self._phase = phase.value
        self._controllers = controllers
        self._seconds = DurationHistogram(
            "pratique_controller_duration_seconds",
            "Time that controllers took, by name, phase and outcome.",
            _CONTROLLER_BUCKETS,
            ("name", "phase", "outcome"),
        )

    def observe(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of one call."""
        for outcome in outcomes:
            # Callers can invent any name that is not hosted, and each would be another series.
            name = outcome.controller if outcome.controller in self._controllers else "unknown"
            self._seconds.observe(outcome.duration_seconds, name, self._phase, _outcome_label(outcome))

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, for a registry."""
        yield from self._seconds.collect()
        gauges: list[tuple[str, str, Callable[[ControllerThreads], int]]] = [
            ("threads", "Threads that run a controller, or wait for work.", lambda threads: threads.threads),
            (
                "queued_calls",
                "Calls of a controller that wait for a thread.",
                lambda threads: threads.waiting,
            ),
            (
                "stuck_threads",
                "Threads of a controller that go on though nobody waits for them any longer.",
                lambda threads: threads.abandoned,
            ),
        ]
        for name, documentation, read in gauges:
            yield from CallbackMetric(
                f"pratique_controller_{name}", documentation, functools.partial(self._by_name, read), "name"
            ).collect()

    def _by_name(self, read: Callable[[ControllerThreads], int]) -> dict[tuple[str, ...], float]:
        return {
            (name,): read(controller.threads)
            for name, controller in self._controllers.items()
            if controller.threads is not None
        }


def _outcome_label(outcome: Outcome) -> str:
    if len(outcome.policy_outcomes) == 1 and outcome.policy_outcomes[0].name == outcome.controller:
        # Selectors or conditions kept the controller out, or it failed open.
        return outcome.policy_outcomes[0].status.value
    decision = outcome.decision
    match decision:
        case Allowed():
            return "allowed"
        case Patched():
            return "mutated"
        case Denied():
            return "denied"
        case Failed(kind):
            return "timeout" if kind is FailureKind.TIMEOUT else "failed"
        case _:
            assert_never(decision)
