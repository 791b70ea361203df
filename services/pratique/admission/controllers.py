"""Admission controllers: a name, rules that select requests, and a handler for each phase."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import msgspec

from pratique.admission.results import Answer
from pratique.admission.reviews import Deadline, Review
from pratique.admission.rules import EVERYTHING, Rule
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.selectors import LabelSelector
from pratique.cluster.store import Cluster

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

Handler: TypeAlias = Callable[[Review], Answer | Awaitable[Answer]]
"""Runs a controller in one phase: takes the review and returns an answer. It can be ``async``."""


class Phase(enum.StrEnum):
    """The phases of admission, in order."""

    MUTATE = "mutate"
    VALIDATE = "validate"


MUTATE = frozenset({Phase.MUTATE})
VALIDATE = frozenset({Phase.VALIDATE})
BOTH = frozenset({Phase.MUTATE, Phase.VALIDATE})


class FailurePolicy(enum.StrEnum):
    """What happens to a request where a controller reaches no decision."""

    FAIL = "Fail"
    """It is denied."""
    IGNORE = "Ignore"
    """It continues, and the decision says that the controller failed open."""


MAX_TIMEOUT_SECONDS = 30.0
"""The longest time limit of a controller: the longest ``timeoutSeconds`` of a webhook."""


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a controller without settings."""


async def _close_nothing() -> None:
    """Do nothing: the controller has nothing to close."""


async def _ignore_admitted(review: Review) -> None:
    """Do nothing: the controller does not track admitted requests."""
    del review


def _use_no_configurations(configurations: object) -> Handler | None:
    """Do nothing: the controller uses no configurations."""
    del configurations
    return None


async def _run_nothing(cluster: Cluster) -> None:
    """Do nothing: the controller has no background work."""
    del cluster


class QuotaAmount(NamedTuple):
    """How much of one resource of a ResourceQuota is used, in units of the resource: cores, bytes, objects."""

    used: float
    hard: float | None = None
    """How much may be used; None if it is not known."""


def _use_no_quotas() -> Mapping[tuple[str, ...], QuotaAmount]:
    """Report none: the controller keeps no quotas."""
    return {}


class Handlers(msgspec.Struct, frozen=True, kw_only=True):
    """A configured controller: its handler for each phase, and its hooks."""

    mutate: Handler | None = None
    """Runs in the mutating phase, where it can also deny. None if the controller does not mutate."""
    validate: Handler | None = None
    """Runs in the validating phase. None if the controller does not validate."""
    close: Callable[[], Awaitable[None]] = _close_nothing
    """Called once, when the service or offline run ends."""
    use_configurations: Callable[[Any], Handler | None] = _use_no_configurations
    """Called with the :class:`pratique.configuration.loading.Configurations` of ``--config``, before the first review
    and after every change.

    It raises ConfigurationError if it cannot use them; the previous configurations then stay in use. It can return a
    handler that is bound to these configurations: reviews that began with them are decided by it, even after the next
    change."""
    run_in_background: Callable[[Cluster], Coroutine[Any, Any, None]] = _run_nothing
    """Runs beside the reviews of a service, with the cluster that the controller looks objects up in.

    It is cancelled before ``close`` and can end on its own. Offline runs do not call it: no time passes there."""
    on_admitted: Callable[[Review], Awaitable[None]] = _ignore_admitted
    """Called in an offline run for each admitted request, with the object as it was stored.

    A service never calls it, because only the API server's state shows whether it stored an admitted object."""
    collectors: tuple[Collector, ...] = ()
    """The controller's own metrics, for the service that runs it. Label values must come from the configuration, never
    from reviewed objects."""
    quota_usage: Callable[[], Mapping[tuple[str, ...], QuotaAmount]] = _use_no_quotas
    """Returns how much of each quota is used: by namespace, name of the ResourceQuota, and resource."""

    @property
    def tracks_admitted(self) -> bool:
        """Whether :attr:`on_admitted` does anything."""
        return self.on_admitted is not _ignore_admitted


class Controller(msgspec.Struct, frozen=True, kw_only=True):
    """An admission controller, before it is configured.

    If it is a single callable, create it with :func:`pratique.validator` or :func:`pratique.mutator`.

    Each module in ``pratique.controllers`` defines one as ``CONTROLLER``. Other packages register theirs as entry
    points in the group ``pratique.controllers``.
    """

    name: str
    """The name in ``--enable-admission-plugins``, for example ``LimitRanger``."""
    summary: str
    """What it does, in one sentence."""
    phases: frozenset[Phase]
    """The phases in which it runs."""
    rules: tuple[Rule, ...] = (EVERYTHING,)
    """The rules that select its requests; a request matches if any rule does."""
    build: Callable[..., Handlers]
    """Creates the handlers from an instance of ``settings`` and, if ``needs_backend``, an :data:`OpenBackend`.

    Raises ConfigurationError if it cannot use the settings."""
    settings: type[msgspec.Struct] = NoSettings
    """The type of its configuration: the inline block or file of an AdmissionConfiguration."""
    default: bool = False
    """Whether it is enabled by default."""
    looks_up: tuple[str, ...] = ()
    """The resources that it looks up in the cluster, for example ``namespaces``."""
    may_look_up: tuple[str, ...] = ()
    """Resources that it looks up for some reviews only. Those of a live cluster are followed from then on."""
    needs_backend: bool = False
    """Whether its answers come from another server; ``build`` then gets the means to reach it."""
    deprecated_in: str | None = None
    """The Kubernetes release that deprecated it, for example ``1.13``; None if none did."""
    removed_in: str | None = None
    """The Kubernetes release that removed it, for example ``1.21``; None if it still exists."""
    replaced_by: str | None = None
    """Its successor, if there is one."""
    location_settings: tuple[str, ...] = ()
    """Settings, by their configured names, that are only locations, such as a file or URL.

    The services of one chain can have different values for them."""
    hosted: bool = True
    """False if the front door runs it itself, as it does MutatingAdmissionWebhook."""
    skip_reason: Callable[[JSON, Review], str] | None = None
    """Returns why the controller has nothing to do with a review that its rules match; empty if it may have.

    It gets the controller's configuration as JSON, and it saves the call to the service. So it must not use anything
    that only a call provides."""
    skip_looks_up: tuple[str, ...] = ()
    """The resources that ``skip_reason`` looks up; a front door follows them, too."""
    commits_quota: bool = False
    """Whether it records something for each admitted review, as ResourceQuota does.

    It then validates last and alone, after everything else has allowed the request."""
    asked_once: bool = False
    """Whether asking it twice about one review does more than asking it once: it counts reviews, or asks a server that
    does. Its calls are then made on a second replica only if the first gives no answer, never to save time."""
    may_patch: bool = False
    """Whether its validating handler may change the object, as in two of Kubernetes' controllers.

    The changed object is stored if the request is allowed; no other controller sees it."""
    timeout_seconds: float | None = None
    """Its time limit in seconds, unless the AdmissionConfiguration has another; None means that of the review. A
    controller that takes longer has failed."""
    namespace_selector: LabelSelector | None = None
    """The labels of the namespaces whose requests it gets, as in a webhook; None means all."""
    object_selector: LabelSelector | None = None
    """The labels of the objects, new or old, that it gets, as in a webhook; None means all."""
    match_conditions: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Expressions in CEL that must all be true of a request that it gets, as in a webhook, by their names."""
    failure_policy: FailurePolicy = FailurePolicy.FAIL
    """What happens to a request where it fails, takes too long, or where selectors or conditions cannot be decided."""
    before: tuple[str, ...] = ()
    """The names of controllers that run after it."""
    after: tuple[str, ...] = ()
    """The names of controllers that run before it."""
    wants_deadline: bool = False
    """Whether it needs ``Review.deadline`` although it is not ``async``, because it can occasionally wait."""
    denies_in_mutate: bool = False
    """Whether it denies in the mutating phase only, with no validating handler behind it.

    If the API server calls Pratique's mutating phase as a webhook that fails open, requests can bypass it."""
    trusted: bool = False
    """True for Pratique's own controllers, which never block and therefore run on the event loop.

    Other controllers that are not ``async`` run in a thread, so that one that hangs affects only its own outcome."""

    @property
    def selects_requests(self) -> bool:
        """Whether not only its rules decide which requests it gets."""
        return bool(self.namespace_selector or self.object_selector or self.match_conditions)


class Backend(Protocol):
    """A server that answers POST requests with JSON."""

    async def ask(self, body: bytes, deadline: Deadline) -> bytes:
        """Send one request and return the body of the response, which can be any bytes.

        Raises:
            CallError: there was no usable response; the text is that of Kubernetes' client.
        """

    async def close(self) -> None:
        """Close all connections. The backend cannot be used afterwards."""


OpenBackend: TypeAlias = Callable[[Path], Backend]
"""Prepares requests to the server that a kubeconfig file names, without connecting yet.

It raises :class:`pratique.ConfigurationError` if the file cannot be used.
"""
