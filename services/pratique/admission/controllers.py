"""Admission controllers: a name, rules that select requests, and a handler for each phase."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, overload

import msgspec

from pratique.admission.results import Answer
from pratique.admission.reviews import Deadline, Review
from pratique.admission.rules import EVERYTHING, Rule
from pratique.apimachinery.json_values import JSON
from pratique.cluster.store import Cluster

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

R_co = TypeVar("R_co", bound=Answer | Awaitable[Answer], covariant=True)

Handler: TypeAlias = Callable[[Review], Answer | Awaitable[Answer]]
"""Runs a controller in one phase: takes the review and returns an answer. It can be ``async``."""


class Phase(enum.StrEnum):
    """The phases of admission, in order."""

    MUTATE = "mutate"
    VALIDATE = "validate"


MUTATE = frozenset({Phase.MUTATE})
VALIDATE = frozenset({Phase.VALIDATE})
BOTH = frozenset({Phase.MUTATE, Phase.VALIDATE})


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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
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

    @property
    def tracks_admitted(self) -> bool:
        """Whether :attr:`on_admitted` does anything."""
        return self.on_admitted is not _ignore_admitted


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
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
    commits_quota: bool = False
    """Whether it records something for each admitted review, as ResourceQuota does.

    It then validates last and alone, after everything else has allowed the request."""
    may_patch: bool = False
    """Whether its validating handler may change the object, as in two of Kubernetes' controllers.

    The changed object is stored if the request is allowed; no other controller sees it."""
    timeout_seconds: float | None = None
    """Its time limit in seconds, unless the AdmissionConfiguration has another; None means that of the review. A
    controller that takes longer has failed, which denies the request."""
    wants_deadline: bool = False
    """Whether it needs ``Review.deadline`` although it is not ``async``, because it can occasionally wait."""
    denies_in_mutate: bool = False
    """Whether it denies in the mutating phase only, with no validating handler behind it.

    If the API server calls Pratique's mutating phase as a webhook that fails open, requests can bypass it."""
    trusted: bool = False
    """True for Pratique's own controllers, which never block and therefore run on the event loop.

    Other controllers that are not ``async`` run in a thread, so that one that hangs affects only its own outcome."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CallableController(Controller, Generic[R_co]):
    """A controller that :func:`validator` or :func:`mutator` made from a callable, and that can be called as that."""

    __wrapped__: Callable[[Review], R_co]
    """The callable, by the name under which :mod:`inspect` looks for it."""

    def __call__(self, review: Review) -> R_co:
        """Return the callable's own answer to a review, whatever the rules select; without the engine around it."""
        return self.__wrapped__(review)


class ReviewCallable(Protocol[R_co]):
    """An object that can be called with a review."""

    def __call__(self, review: Review, /) -> R_co:
        """Return the answer."""


class ControllerDecorator(Protocol):
    """Makes a controller from a callable, or from a class whose instances are callable."""

    @overload
    def __call__(self, policy: type[ReviewCallable[R_co]], /) -> CallableController[R_co]: ...

    @overload
    def __call__(self, policy: Callable[[Review], R_co], /) -> CallableController[R_co]: ...


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def validator(
    name: str, *rules: Rule, summary: str = "", default: bool = False, timeout_seconds: float | None = None
) -> ControllerDecorator:
    """Create a validating controller from a callable, which can be ``async``.

    The controller can be called as the callable itself. A class is instantiated without arguments.

    Args:
        name: The name in ``--enable-admission-plugins``.
        rules: Select its requests; a request matches if any rule does. Without rules it gets every request.
        summary: What it does, in one sentence. Empty means the first line of the callable's docstring.
        default: Whether it is enabled by default.
        timeout_seconds: Its time limit, more than 0 and at most 30; None means that of the review.

    Raises:
        ValueError: the name cannot be used in a flag, a rule is not a Rule, or the time limit is out of range.
    """
    return _controller_decorator(
        name, rules, Phase.VALIDATE, summary, default=default, timeout_seconds=timeout_seconds
    )


def mutator(
    name: str, *rules: Rule, summary: str = "", default: bool = False, timeout_seconds: float | None = None
) -> ControllerDecorator:
    """Create a mutating controller from a callable, which can be ``async`` and can also deny.

    The controller can be called as the callable itself. A class is instantiated without arguments.
    The controller is called again if a later webhook or policy changed the object, so it must answer ``allow()`` to
    its own result.

    Args:
        name: The name in ``--enable-admission-plugins``.
        rules: Select its requests; a request matches if any rule does. Without rules it gets every request.
        summary: What it does, in one sentence. Empty means the first line of the callable's docstring.
        default: Whether it is enabled by default.
        timeout_seconds: Its time limit, more than 0 and at most 30; None means that of the review.

    Raises:
        ValueError: the name cannot be used in a flag, a rule is not a Rule, or the time limit is out of range.
    """
    return _controller_decorator(
        name, rules, Phase.MUTATE, summary, default=default, timeout_seconds=timeout_seconds
    )


def _controller_decorator(
    name: str,
    rules: tuple[Rule, ...],
    phase: Phase,
    summary: str,
    *,
    default: bool,
    timeout_seconds: float | None,
) -> ControllerDecorator:
    # str() because of ``@validator`` without parentheses, which passes the callable as the name.
    if not _NAME.fullmatch(str(name)):
        raise ValueError(f'a controller needs a name of letters and digits, such as "RequireTeam": {name!r}')
    if not all(isinstance(rule, Rule) for rule in rules):
        raise ValueError(f'{name}: rules are written as rule("pods")')
    if timeout_seconds is not None and not 0 < timeout_seconds <= MAX_TIMEOUT_SECONDS:
        raise ValueError(f"{name}: timeout_seconds must be more than 0 and at most {MAX_TIMEOUT_SECONDS:g}")

    def make(policy: Any) -> CallableController[Any]:
        handler = policy() if isinstance(policy, type) else policy
        if not callable(handler) or isinstance(handler, Controller):
            kind = type(handler).__name__
            raise TypeError(f"{name}: a policy is a callable that takes a review, not an instance of {kind}")
        mutating = phase is Phase.MUTATE
        handlers = Handlers(mutate=handler) if mutating else Handlers(validate=handler)

        def build(_: NoSettings) -> Handlers:
            return handlers

        return CallableController(
            __wrapped__=handler,
            name=name,
            summary=summary or (inspect.getdoc(policy) or name).partition("\n")[0],
            phases=MUTATE if mutating else VALIDATE,
            rules=rules or (EVERYTHING,),
            build=build,
            default=default,
            timeout_seconds=timeout_seconds,
        )

    return make


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
