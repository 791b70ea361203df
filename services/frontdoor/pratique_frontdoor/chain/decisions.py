"""The chain: its phases in order, the context of a review on its way through them, and the decision with its steps.

An outage means that a service gave no usable answer, so nobody decided about the review. It is not a decision: it
leaves the front door as HTTP 503 or 504, and the caller's own ``failurePolicy`` decides
(``docs/adr/0021-an-outage-is-the-callers-to-decide.md``).

Sources: ``k8s.io/apiserver/pkg/admission/reinvocation.go`` for the second round of mutation, and
``k8s.io/apiserver/pkg/warning`` with ``pkg/endpoints/filters/warning.go`` for the limits on warnings.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, Self

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.matching import MatchContext
from pratique.admission.namespace_provisioning import with_provisioned_namespace
from pratique.admission.results import OutcomeStatus  # msgspec reads the types of fields
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff, diff_through, identical
from pratique.apimachinery.errors import CallError, PratiqueError
from pratique.apimachinery.json_values import JSON, NULL, Document, JSONObject, sorted_text
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, StatusCause, StatusDetails
from pratique.cluster.api_resources import built_in_resources
from pratique.configuration.mutation_allow_lists import ViolationAction  # msgspec reads the types of fields
from pratique.pods.pod_spec import APP_ARMOR_ANNOTATION, has_app_armor_annotation
from pratique.processes.review_threads import threads_for, work_beside_loop, work_on_review
from pratique.registry.strategies.preparation import prepare_for_validation

OBJECT_VALIDATION = "ObjectValidation"
"""The controller of the steps around the mutating phase: no admission controller, but named like one."""


class Shadow(msgspec.Struct, frozen=True, kw_only=True):
    """What a step in shadow would have done."""

    rollout: str
    """The name of the PolicyRollout."""
    outcome: OutcomeStatus
    """The result that it would have had."""
    patch: tuple[JSONObject, ...] = ()
    """The JSON Patch operations that it would have applied."""

    @property
    def differs(self) -> bool:
        """Whether anything would have been different without the shadow."""
        return self.outcome not in (OutcomeStatus.ALLOWED, OutcomeStatus.UNCHANGED)


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """That a step changed fields which a MutationAllowList does not allow."""

    allow_list: str
    """The name of the MutationAllowList."""
    action: ViolationAction
    """What happened to the change."""


class Step(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """One thing that happened to a review, equal only to itself.

    A review has about a dozen, so they are cheap structs.
    """

    controller: str
    """The admission controller, for example ``LimitRanger`` or ``MutatingAdmissionWebhook``."""
    phase: Phase
    """The phase in which it ran."""
    name: str
    """The webhook, policy or controller."""
    configuration: str = ""
    """The webhook configuration or policy binding; empty for controllers."""
    round: int = 0
    """0, or 1 in the second round."""
    outcome: OutcomeStatus
    """The result."""
    reason: str = ""
    """Why it was skipped, denied or failed."""
    code: int = 0
    """The HTTP code of the denial or failure, as metrics count it; 0 without one."""
    patch: tuple[JSONObject, ...] = ()
    """The JSON Patch operations that it applied."""
    duration_seconds: float = 0.0
    """The duration."""
    timeout_seconds: float | None = None
    """Its own time limit; None means that of the review."""
    endpoint: str = ""
    """The endpoint that ran it."""
    ended_at: int = msgspec.field(default_factory=time.perf_counter_ns)
    """When it ended, by ``time.perf_counter_ns``; 0 if it never ran, as reviews may share such a step."""
    unmet: tuple[int, ...] = ()
    """Indexes of a policy's validations that were false, from 0; known only if the policy ran in this process."""
    shadow: Shadow | None = None
    """What it would have done, if it is in shadow; None if it is enforced."""
    violation: Violation | None = None
    """What it changed that is not allowed; None if all is."""


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The decision of the chain about one review."""

    uid: str
    """The uid of the review."""
    allowed: bool
    """Whether the request is allowed."""
    status: Status | None = None
    """Why the request is denied; None if it is allowed."""
    object_document: Document = NULL
    """The object after the chain; null on DELETE."""
    patch: tuple[JSONObject, ...] = ()
    """JSON Patch operations from the object received to that one."""
    warnings: tuple[str, ...] = ()
    """Warnings for the user."""
    audit_annotations: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Entries for the audit log."""
    steps: tuple[Step, ...] = ()
    """The steps, in order."""
    phase_seconds: Mapping[Phase, float] = msgspec.field(default_factory=dict)
    """The duration of each phase that ran, as metrics count it."""
    expanded: tuple[Decision, ...] = ()
    """Decisions on the Pods that a reviewed workload would create."""

    def __repr__(self) -> str:
        """What was decided and why, as a failing test shows it; nothing of the object, which may hold secrets."""
        if self.status is not None:
            return f"<Decision: denied, {self.status.code} {self.status.reason}: {self.status.message}>"
        changes = f", changes: {len(self.patch)}" if self.patch else ""
        warnings = f", warnings: {'; '.join(self.warnings)}" if self.warnings else ""
        return f"<Decision: allowed{changes}{warnings}>"

    @property
    def message(self) -> str:
        """The message of the denial; empty if the request is allowed."""
        return self.status.message if self.status else ""

    @property
    def object(self) -> JSON:
        """The object after the chain as JSON; None on DELETE."""
        return self.object_document.data

    @property
    def is_as_validated(self) -> bool:
        """Whether the object was validated, so that it has its defaults, and nothing has changed it since."""
        for step in reversed(self.steps):
            if step.controller == OBJECT_VALIDATION:
                return step.phase is Phase.VALIDATE and step.outcome in _VALIDATED
            if step.patch:
                return False
        return False


_VALIDATED = frozenset({OutcomeStatus.ALLOWED, OutcomeStatus.MUTATED})


MAX_WARNINGS_LENGTH = 4096
"""Characters of all warnings together. Above this, every warning is truncated; once truncated warnings reach it, no
more are added."""

MAX_WARNING_LENGTH = 256
"""Characters to which each warning is then truncated."""

# Control characters, and surrogates, which stand for text that was not valid UTF-8.
_UNPRINTABLE = pattern(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def limited_warnings(
    texts: Iterable[str], *, total: int = MAX_WARNINGS_LENGTH, length: int = MAX_WARNING_LENGTH
) -> list[str]:
    """Return the warnings that the API server would show for ``texts``, which are in the order in which they arose.

    Empty and repeated warnings are dropped, and so are those that no HTTP header can hold.
    """
    recorded: dict[str, None] = {}
    shown: list[str] = []
    written, truncating = 0, False
    for text in texts:
        if not text or text in recorded or (truncating and written >= total):
            continue
        recorded[text] = None
        # Truncation comes before the check of the characters: it may remove the unprintable ones.
        short = text[:length] if truncating else text
        if _UNPRINTABLE.search(short):
            continue
        if truncating or written + len(short) <= total:
            shown.append(short)
            written += len(short)
        else:
            truncating = True
            shown = [cut for cut in (text[:length] for text in recorded) if not _UNPRINTABLE.search(cut)]
            written = sum(map(len, shown))
    return shown


_SERVICES = {Phase.MUTATE: "mutator", Phase.VALIDATE: "validator"}
_DISPLAY_NAMES = {Phase.MUTATE: "the mutator", Phase.VALIDATE: "the validators"}

TIMEOUT = "timeout"
"""The service was called and did not answer before the deadline of the review."""
LATE = "late"
"""The deadline of the review passed before the service could be called."""
MISMATCH = "mismatch"
"""The service runs with another configuration than the front door."""


class OutageError(PratiqueError):
    """No decision was made about a review, because a service gave no usable answer."""

    def __init__(self, phase: Phase, cause: str, text: str, *, timed_out: bool = False) -> None:
        """Name the service by its phase, the cause, and the message for the caller."""
        super().__init__(text)
        self.service = _SERVICES[phase]
        """``mutator`` or ``validator``, as metrics name them."""
        self.cause = cause
        """A fixed word for metrics: ``timeout``, ``late``, ``mismatch``, or the class of the error: ``unreachable``,
        ``bad_answer``, ``refused``."""
        self.status: Status = statuses.timeout(text) if timed_out else statuses.service_unavailable(text)
        """The Status of the response: 504 if time ran out, 503 otherwise."""

    @classmethod
    def timeout(cls, phase: Phase) -> Self:
        """Return the outage of a service that was too slow; the message is the same whichever timeout fired first."""
        return cls(phase, TIMEOUT, f"{_DISPLAY_NAMES[phase]} did not answer in time", timed_out=True)

    @classmethod
    def late(cls, phase: Phase) -> Self:
        """Return the outage of a service that there was no time left to call."""
        return cls(phase, LATE, f"no time was left to ask {_DISPLAY_NAMES[phase]}", timed_out=True)

    @classmethod
    def mismatch(cls, phase: Phase, controller: str) -> Self:
        """Return the outage of a service that lacks a controller of the front door's chain."""
        hosted = f"the admission controller {statuses.go_quoted(controller)}"
        return cls(phase, MISMATCH, f"{_DISPLAY_NAMES[phase]} cannot be asked: not configured with {hosted}")

    @classmethod
    def of(cls, phase: Phase, error: CallError) -> Self:
        """Return the outage of a call that failed as a whole for another reason than a timeout."""
        return cls(phase, _error_cause(error), f"{_DISPLAY_NAMES[phase]} cannot be asked: {error}")


def _error_cause(error: CallError) -> str:
    """Return the class of an error as one word: ``BadAnswerError`` is ``bad_answer``."""
    words = re.findall("[A-Z][a-z]+", type(error).__name__.removesuffix("Error"))
    return "_".join(words).lower() if type(error) is not CallError else "refused"


def combine_denials(denials: Sequence[Status], *, first_only: bool) -> Status:
    """Combine denials into the Status that the user reads.

    The first denial in chain order gives code, reason and message; ``details.causes`` has one entry for each denial. A
    single denial that has causes of its own stays as it is. ``denials`` is not empty.
    """
    first = denials[0]
    if first_only or (len(denials) == 1 and first.details is not None and first.details.causes):
        return first
    details = first.details or StatusDetails()
    causes = tuple(_cause_of_denial(denial) for denial in denials)
    return msgspec.structs.replace(first, details=msgspec.structs.replace(details, causes=causes))


def _cause_of_denial(denial: Status) -> StatusCause:
    own = denial.details.causes if denial.details is not None else ()
    field = own[0].field if own else ""
    return StatusCause(reason=denial.reason, message=denial.message, field=field)


class Record(msgspec.Struct):
    """What the steps of one or more stages did. Each validating stage fills its own; they are merged in chain order."""

    steps: list[Step] = msgspec.field(default_factory=list)
    """The steps, in the order in which they happened."""
    denials: list[Status] = msgspec.field(default_factory=list)
    """The denials, in chain order."""
    warnings: list[str] = msgspec.field(default_factory=list)
    """The warnings, in the order in which they came."""
    audit_annotations: dict[str, str] = msgspec.field(default_factory=dict)
    """The audit annotations, by full key."""

    pending_operations: list[JSONObject] = msgspec.field(default_factory=list)
    """JSON Patch operations of validating controllers, applied if the request is allowed."""

    outages: list[OutageError] = msgspec.field(default_factory=list)
    """Services that gave no usable answer. They matter only if no controller denied the request."""

    def deny(self, status: Status) -> None:
        """Add a denial."""
        self.denials.append(status)

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Add audit annotations; an existing key keeps its first value, as in the API server."""
        for key, value in annotations.items():
            self.audit_annotations.setdefault(key, value)

    def merge(self, others: Iterable[Record]) -> None:
        """Append the records of other stages, in the given order."""
        for other in others:
            self.steps += other.steps
            self.denials += other.denials
            self.warnings += other.warnings
            self.annotate(other.audit_annotations)
            self.pending_operations += other.pending_operations
            self.outages += other.outages

    def raise_outage_unless_denied(self) -> None:
        """Raise the first outage, unless a controller denied the request: a denial stands whatever else failed.

        Raises:
            OutageError: no controller denied the request, and one that might have could not be called.
        """
        if self.outages and not self.denials:
            raise self.outages[0]


class Reinvocation(msgspec.Struct):
    """Decides, for one review, which webhooks or policies run in the second round."""

    wanted: bool = False
    """Whether the mutating phase runs a second round."""
    last: Document | None = None
    """The object after the last round of webhooks."""
    previously_invoked: set[str] = msgspec.field(default_factory=set)
    """Webhooks with ``reinvocationPolicy: IfNeeded`` that run again if the object changes after them."""
    to_reinvoke: set[str] = msgspec.field(default_factory=set)
    """Webhooks that run in the second round."""

    def begin(self, document: Document, round_number: int) -> None:
        """Require the webhooks that ran before again, if the object has changed since their last round."""
        if round_number > 0 and (self.last is None or not identical(self.last.data, document.data)):
            self._require_previous()

    def skips(self, uid: str, round_number: int) -> bool:
        """Return whether a webhook does not run in this round."""
        return round_number > 0 and uid not in self.to_reinvoke

    def invoked(self, uid: str, *, changed: bool, if_needed: bool) -> None:
        """Record that a webhook ran. Its own change never causes its own reinvocation."""
        if changed:
            self.changed()
        if if_needed:
            self.previously_invoked.add(uid)

    def changed(self) -> None:
        """Record that the object changed: all earlier webhooks with ``IfNeeded`` run again."""
        self._require_previous()
        self.wanted = True

    def end(self, document: Document) -> None:
        """Remember the object at the end of a round."""
        self.last = document

    def _require_previous(self) -> None:
        self.to_reinvoke |= self.previously_invoked
        self.previously_invoked.clear()


class AdmissionContext(msgspec.Struct):
    """The state of one review on its way through the chain."""

    review: Review
    """The review with the current object."""
    deadline: Deadline
    """When the decision must be ready."""
    explain: bool = False
    """Whether to record a step for what does not match as well."""
    validated: Review | None = None
    """The review as validating stages see it; None if that is :attr:`review`."""
    round: int = 0
    """0, or 1 in the second round of the mutating stages."""
    record: Record = msgspec.field(default_factory=Record)
    """What has happened so far."""
    reinvocation: Reinvocation = msgspec.field(default_factory=Reinvocation)
    """Decides which webhooks run in the second round."""
    policy_reinvocation: Reinvocation = msgspec.field(default_factory=Reinvocation)
    """Decides the same for mutating policies."""
    patched: bool = False
    """Whether a webhook's patch has been applied, with or without effect."""

    _match_context: MatchContext | None = None
    _compared: tuple[Document, Document, Sequence[JSONObject]] | None = None
    """The last two objects that were compared, and the patch that makes one the other."""
    _first_compared: tuple[Document, Document, Sequence[JSONObject]] | None = None
    """The first two."""

    @property
    def values(self) -> int:
        """About how many values the review and the answers about it have; 0 of a review that was made here."""
        values, record = self.review.received_values, self.record
        return values and values + len(record.warnings) + len(record.audit_annotations)

    @property
    def match_context(self) -> MatchContext:
        """The review as selectors match it. Only webhooks need it, so it is created on first use."""
        if self._match_context is None:
            self._match_context = MatchContext(self.review)
        return self._match_context

    @property
    def wants_second_round(self) -> bool:
        """Whether the object changed after a webhook or policy that wants to see such changes."""
        return self.reinvocation.wanted or self.policy_reinvocation.wanted

    @property
    def has_unrounded_times(self) -> bool:
        """Whether an API server compares a time to the nanosecond with what a patch leaves of it.

        It has just set one in ``metadata.managedFields``. In JSON, through which objects of built-in kinds go when they
        are patched, times have whole seconds, so the first patch changes the object even if it has no other effect.
        """
        if self.patched or self.policy_reinvocation.wanted or self.review.object_document.is_null:
            return False
        known = built_in_resources().for_kind(self.review.kind) is not None
        return known and bool(_new_managed_fields(self.review))

    def add_values(self, count: int) -> None:
        """Count what others have added to the object, so that the work on a large one leaves the event loop."""
        values = self.review.received_values
        if values and threads_for(count) is not None:
            self.review = msgspec.structs.replace(self.review, received_values=values + count)
            self._match_context = None

    def change_object(self, document: Document) -> None:
        """Continue with another object."""
        if document is not self.review.object_document:
            self.review = self.review.with_object(document)
            self._match_context = None

    def continue_with(self, review: Review, patch: Sequence[JSONObject]) -> None:
        """Continue with the review as it is with another object, from which a patch tells it apart."""
        self._compared = self.review.object_document, review.object_document, patch
        self._first_compared = self._first_compared or self._compared
        self.review = review
        self._match_context = None

    def patch_since(self, received: Document) -> Sequence[JSONObject]:
        """What has become of the object since it was received."""
        final = self.review.object_document
        if final is received:
            return ()
        if self._compared is not None and self._compared[0] is received and self._compared[1] is final:
            return self._compared[2]
        if self._first_compared is not None and self._first_compared[0] is received:
            _, between, patch = self._first_compared
            if all(isinstance(document.data, dict) for document in (received, between, final)):
                return diff_through(received.data, between.data, patch, final.data)
        return diff(received.data, final.data)


_WRITER = ("manager", "operation", "apiVersion", "subresource", "time")


def _new_managed_fields(review: Review) -> list[JSON]:
    """The entries of ``metadata.managedFields`` whose time this request has set.

    Where it only took fields away, entries have changed and their times have not.
    """
    before = {_writer(entry) for entry in _managed_fields(review.old_object)}
    return [entry for entry in _managed_fields(review.object) if _writer(entry) not in before]


def _writer(entry: JSON) -> bytes:
    """The writer of an entry as a text: there may be many entries, so that they are looked up."""
    return sorted_text([entry.get(name) for name in _WRITER] if isinstance(entry, dict) else entry)


def _managed_fields(value: JSON) -> list[JSON]:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    return entries if isinstance(entries, list) else []


class MutatingStage(Protocol):
    """A stage of the mutating phase."""

    async def admit(self, context: AdmissionContext) -> bool:
        """Run on the current object; False if the request is denied, with the denial in the record."""


class ValidatingStage(Protocol):
    """A stage of the validating phase."""

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Run concurrently with other stages; the returned record holds the denials."""


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """The stages of the chain, in order. Immutable: another configuration is another chain."""

    mutating: tuple[MutatingStage, ...]
    """Run one after another; the first denial ends the phase."""
    validating: tuple[ValidatingStage, ...]
    """Run concurrently, and all are awaited; one after another with ``first_denial_only``."""
    charging: tuple[ValidatingStage, ...] = ()
    """Run one after another when all of those have allowed the request, because they charge quota for it."""
    first_denial_only: bool = False
    """Stop at the first denial in chain order, as the API server does: later stages are not called."""
    provisions: bool = False
    """Create missing namespaces."""
    shows_stored_objects: bool = True
    """Whether something validates that may read any field. If not, only Pods differ where they are about to be stored,
    by their AppArmor profiles."""

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the requested phases.

        Raises:
            OutageError: no controller denied the request, and a service gave no usable answer.
        """
        context = AdmissionContext(
            with_provisioned_namespace(review) if self.provisions else review, deadline, explain
        )
        seconds: dict[Phase, float] = {}
        objects = _object_stages(context, min(phases))
        if objects is not None:
            await objects.receive(context)
        for phase, run in ((Phase.MUTATE, self._mutate), (Phase.VALIDATE, self._validate)):
            if phase in phases and not context.record.denials:
                begun = time.monotonic()
                if phase is Phase.VALIDATE and objects is not None:
                    await objects.store(context)
                elif phase is Phase.VALIDATE and Phase.MUTATE in phases:
                    await self._show_stored_object(context)
                if not context.record.denials:
                    await run(context)
                if phase is Phase.MUTATE and objects is not None:
                    await objects.complete(context)
                seconds[phase] = time.monotonic() - begun
        return await work_on_review(context.values, self._decision, review, context, seconds)

    async def _mutate(self, context: AdmissionContext) -> None:
        # Never a third round: k8s.io/apiserver/pkg/admission/reinvocation.go.
        for context.round in (0, 1):
            for stage in self.mutating:
                if not await stage.admit(context):
                    return
            if not context.wants_second_round:
                return

    async def _validate(self, context: AdmissionContext) -> None:
        if self.first_denial_only:
            await _validate_until_denied(self.validating, context)
        else:
            context.record.merge(await _validate_concurrently(self.validating, context))
        context.record.raise_outage_unless_denied()
        if self.charging:
            await check_documents(context.review)
        for stage in self.charging:
            if context.record.denials:
                return
            context.record.merge([await _validate_stage(stage, context)])
            context.record.raise_outage_unless_denied()
        if context.record.pending_operations:
            await work_on_review(context.values, _apply_pending_operations, context)

    async def _show_stored_object(self, context: AdmissionContext) -> None:
        """Let validating controllers see the object as it is about to be stored, if no API server is in between."""
        review = context.review
        if not self.shows_stored_objects and not _gets_app_armor_fields(review):
            return
        await check_documents(review)
        context.validated = await work_on_review(
            review.received_values, prepare_for_validation, review, time.time()
        )

    def _decision(
        self, review: Review, context: AdmissionContext, seconds: Mapping[Phase, float]
    ) -> Decision:
        record = context.record
        return Decision(
            uid=review.uid,
            allowed=not record.denials,
            status=combine_denials(record.denials, first_only=self.first_denial_only)
            if record.denials
            else None,
            object_document=context.review.object_document,
            patch=tuple(context.patch_since(review.object_document)),
            warnings=tuple(limited_warnings(record.warnings)),
            audit_annotations=record.audit_annotations,
            steps=tuple(record.steps),
            phase_seconds=seconds,
        )


class ObjectStages(Protocol):
    """What an API server makes of the object of a review; a denial is in the record."""

    async def receive(self, context: AdmissionContext) -> None:
        """Decode the object and fill in its defaults."""

    async def complete(self, context: AdmissionContext) -> None:
        """Fill in the defaults of what mutations have added."""

    async def store(self, context: AdmissionContext) -> None:
        """Prepare and validate the object that is about to be stored."""


def _object_stages(context: AdmissionContext, first: Phase) -> ObjectStages | None:
    if not context.review.object_validation:
        return None
    from pratique_frontdoor.chain.object_validation import object_stages  # noqa: PLC0415 - most chains validate none

    return object_stages(context, first)


_APP_ARMOR_ANNOTATION = APP_ARMOR_ANNOTATION.encode()


def _gets_app_armor_fields(review: Review) -> bool:
    if review.operation is not Operation.CREATE or not review.concerns("", "pods"):
        return False
    text = review.object_document.unchecked_raw
    # The text tells without a parse, unless an escape may hide the name.
    may_have = _APP_ARMOR_ANNOTATION in text or b"\\" in text
    return may_have and has_app_armor_annotation(review.object)


def _apply_pending_operations(context: AdmissionContext) -> None:
    """Apply the patches of validating controllers, once nothing has denied the request."""
    record = context.record
    if record.denials:
        return
    try:
        amended = patch_document(context.review.object_document, record.pending_operations)
    except PatchError as error:
        record.deny(statuses.internal_error(str(error)))
    else:
        context.change_object(amended)


async def check_documents(review: Review) -> None:
    """Do the deferred checks of a review that no service has done, in a thread.

    Raises:
        ReviewError: a document is not allowed.
    """
    if review.is_unchecked:
        await work_beside_loop(review.received_values, review.check)


async def read_documents(review: Review) -> None:
    """Do the deferred checks as :func:`check_documents` does, and read large objects in a thread, too.

    Raises:
        ReviewError: a document is not allowed.
    """
    await check_documents(review)
    if threads_for(review.received_values) is not None:
        await work_beside_loop(review.received_values, lambda: (review.object, review.old_object))


async def _validate_until_denied(stages: Iterable[ValidatingStage], context: AdmissionContext) -> None:
    """Run stages one after another, and none after a denial: ``k8s.io/apiserver/pkg/admission/chain.go``.

    An outage does not end them: a later stage may deny the request.
    """
    for stage in stages:
        context.record.merge([await _validate_stage(stage, context)])
        if context.record.denials:
            return


async def _validate_concurrently(
    stages: Sequence[ValidatingStage], context: AdmissionContext
) -> list[Record]:
    if len(stages) == 1:
        # The usual case: a task would cost more than the stage itself.
        return [await _validate_stage(stages[0], context)]
    running = [asyncio.ensure_future(_validate_stage(stage, context)) for stage in stages]
    try:
        return await asyncio.gather(*running)
    except asyncio.CancelledError:
        # The deadline of the whole request has passed. What some stages have already returned counts: a denial, or an
        # outage.
        await asyncio.wait(running)
        finished = Record()
        finished.merge(task.result() for task in running if not task.cancelled() and task.exception() is None)
        if not context.deadline.passed:
            raise
        if not finished.denials:
            finished.raise_outage_unless_denied()
            raise
        return [finished]


async def _validate_stage(stage: ValidatingStage, context: AdmissionContext) -> Record:
    review = context.validated or context.review
    return await stage.validate(review, context.deadline, explain=context.explain)
