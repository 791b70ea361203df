"""What an admission controller is: a name, the requests it wants, and a handler for each phase."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import re
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import msgspec

from pratique.admission.results import Answer
from pratique.admission.reviews import Deadline, Review
from pratique.admission.rules import EVERYTHING, Rule
from pratique.apimachinery.json_values import JSON
from pratique.cluster.store import Cluster

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from pratique.configuration.loading import Configurations

Handler: TypeAlias = Callable[[Review], Answer | Awaitable[Answer]]
"""One half of a controller: it is given the review and answers. It may be ``async``."""


class Phase(enum.StrEnum):
    """The two halves of admission, in their order."""

    MUTATE = "mutate"
    VALIDATE = "validate"


MUTATE = frozenset({Phase.MUTATE})
VALIDATE = frozenset({Phase.VALIDATE})
BOTH = frozenset({Phase.MUTATE, Phase.VALIDATE})


class NoSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of a controller that has none."""


async def _close_nothing() -> None:
    """Close a controller that holds nothing open."""


async def _ignore_admitted(review: Review) -> None:
    """Let a controller be that is not concerned with what became of a review."""
    del review


def _use_no_configurations(configurations: Configurations) -> Handler | None:
    """Let a controller be that is not concerned with configurations."""
    del configurations
    return None


async def _run_nothing(cluster: Cluster) -> None:
    """Let a controller be that has nothing to do beside reviews."""
    del cluster


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Handlers:
    """A configured controller: what it runs in each phase, and how it lets go of what it holds."""

    mutate: Handler | None = None
    """Runs in the mutating phase; it may refuse there too. None: it has no such half."""
    validate: Handler | None = None
    """Runs in the validating phase. None: it has no such half."""
    close: Callable[[], Awaitable[None]] = _close_nothing
    """Called once when the service stops, or when another configuration takes over."""
    use_configurations: Callable[[Configurations], Handler | None] = _use_no_configurations
    """Given what ``--config`` holds, before the first review and whenever it changes. Raises ConfigurationError where
    it cannot be used; then what was used before stays. It may return a half that goes on with these configurations
    after others have come: reviews that began with them are decided by it."""
    run_in_background: Callable[[Cluster], Coroutine[Any, Any, None]] = _run_nothing
    """Runs beside the reviews of a service, given what it looks things up in, and is cancelled before ``close``. It
    may end by itself. In an offline run it is not called: there is no time there."""
    on_admitted: Callable[[Review], Awaitable[None]] = _ignore_admitted
    """Told in an offline run of each request that was admitted and done, with the object as it was stored. A service
    never calls it: whether an API server does what was admitted shows in its state alone."""
    collectors: tuple[Collector, ...] = ()
    """What it counts, for the metrics of the service that runs it. Labels are of what is configured, never of what is
    reviewed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Controller:
    """An admission controller, before it is configured.

    Where one callable is all there is to it, :func:`pratique.validator` or :func:`pratique.mutator` makes one.

    Each file in ``pratique.controllers`` defines one as ``CONTROLLER``; a package of somebody else's names its own
    by entry points in the group ``pratique.controllers``.
    """

    name: str
    """As in ``--enable-admission-plugins``, for example ``LimitRanger``."""
    summary: str
    """What it does, in one sentence."""
    phases: frozenset[Phase]
    """The phases in which it runs."""
    rules: tuple[Rule, ...] = (EVERYTHING,)
    """The requests that it wants to see: those that match any of them."""
    build: Callable[..., Handlers]
    """Makes the halves from its settings (an instance of ``settings``), and from an
    :data:`pratique.backends.OpenBackend` where it ``needs_backend``. Raises ConfigurationError on bad ones."""
    settings: type[msgspec.Struct] = NoSettings
    """The type of its configuration: the inline block or file of an AdmissionConfiguration."""
    default: bool = False
    """On without being asked for."""
    looks_up: tuple[str, ...] = ()
    """The resources that it looks up in the cluster, for example ``namespaces``."""
    needs_backend: bool = False
    """True for one whose answers come from a server of somebody else's, which it is given the means to reach."""
    deprecated_in: str | None = None
    """The Kubernetes release that deprecated it, for example ``1.13``; None where none did."""
    removed_in: str | None = None
    """The Kubernetes release that removed it, for example ``1.21``; None where it still exists."""
    replaced_by: str | None = None
    """What took its place."""
    location_settings: tuple[str, ...] = ()
    """Settings, by their names as they are written, that say where something is and not what is decided: a file, a URL.
    Services of one chain may differ in them."""
    hosted: bool = True
    """False for those that the front door itself runs, such as MutatingAdmissionWebhook."""
    skip_reason: Callable[[JSON, Review], str] | None = None
    """Tells at once, from its configuration as data and a review that its rules match, why it would have nothing to do
    with it; empty where it may have. Then no call is made, so it must look at nothing that a call brings."""
    charges: bool = False
    """True for one that changes something because of a review, as ResourceQuota does: it validates last and alone,
    when everything else has let the request through."""
    may_patch: bool = False
    """True for one whose validating half may change the object, as two of Kubernetes' do: what it changes is stored
    if the request is let through, and nobody looks at it again."""
    wants_deadline: bool = False
    """True for one that seldom waits, and then wants to know how long it may: ``Review.deadline`` is there for it."""
    denies_in_mutate: bool = False
    """True for one whose mutating half is there to refuse, with no validating half behind it: what reaches it by a
    webhook that fails open gets past it."""
    trusted: bool = False
    """True for Pratique's own, which never block: they run on the event loop. Others that are not ``async`` run in
    a thread, so that one that hangs costs its own outcome and nothing else."""


_NAME = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")


def validator(
    name: str, *rules: Rule, summary: str = "", default: bool = False
) -> Callable[[Handler], Controller]:
    """Make a validating controller of a callable, which may be ``async``.

    Args:
        name: As in ``--enable-admission-plugins``.
        rules: The requests that it wants to see: those that match any of them. None means every request.
        summary: What it does, in one sentence; the first line of the callable's docstring where it is empty.
        default: On without being asked for.

    Raises:
        ValueError: the name cannot be written in a flag, or a rule is no Rule.
    """
    return _controller_decorator(name, rules, Phase.VALIDATE, summary, default=default)


def mutator(
    name: str, *rules: Rule, summary: str = "", default: bool = False
) -> Callable[[Handler], Controller]:
    """Make a mutating controller of a callable, which may be ``async``. It may refuse, too.

    It is asked again when a later webhook or policy has changed the object, so its second answer to its own
    result has to be ``allow()``.

    Args:
        name: As in ``--enable-admission-plugins``.
        rules: The requests that it wants to see: those that match any of them. None means every request.
        summary: What it does, in one sentence; the first line of the callable's docstring where it is empty.
        default: On without being asked for.

    Raises:
        ValueError: the name cannot be written in a flag, or a rule is no Rule.
    """
    return _controller_decorator(name, rules, Phase.MUTATE, summary, default=default)


def _controller_decorator(
    name: str, rules: tuple[Rule, ...], phase: Phase, summary: str, *, default: bool
) -> Callable[[Handler], Controller]:
    # str() because of ``@validator`` without parentheses, which passes the callable as the name.
    if not _NAME.fullmatch(str(name)):
        raise ValueError(f'a controller needs a name of letters and digits, such as "RequireTeam": {name!r}')
    if not all(isinstance(rule, Rule) for rule in rules):
        raise ValueError(f'{name}: rules are written as rule("pods")')

    def make(handler: Handler) -> Controller:
        mutating = phase is Phase.MUTATE
        handlers = Handlers(mutate=handler) if mutating else Handlers(validate=handler)

        def build(_: NoSettings) -> Handlers:
            return handlers

        return Controller(
            name=name,
            summary=summary or (inspect.getdoc(handler) or name).partition("\n")[0],
            phases=MUTATE if mutating else VALIDATE,
            rules=rules or (EVERYTHING,),
            build=build,
            default=default,
        )

    return make


class Backend(Protocol):
    """A server that is asked by POST, in JSON."""

    async def ask(self, body: bytes, deadline: Deadline) -> bytes:
        """Ask once, and have the body of the answer, which may be anything.

        Raises:
            CallError: no answer came that says something; the text is that of Kubernetes' client.
        """

    async def close(self) -> None:
        """Let go of connections. No questions may follow."""


OpenBackend: TypeAlias = Callable[[Path], Backend]
"""Makes ready to ask the server that a kubeconfig file names; connects to nothing yet.

It raises :class:`pratique.errors.ConfigurationError`: the file cannot be used.
"""
