"""What an admission controller is: a name, the requests it wants, and one callable for each phase."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from pratique.answers import Answer
from pratique.reviews import Review
from pratique.rules import EVERYTHING, Rule

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from pratique.clusters import Cluster
    from pratique.configurations.all_configurations import Configurations
    from pratique.json_values import JSON

Half: TypeAlias = Callable[[Review], Answer | Awaitable[Answer]]
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


async def _nothing_to_close() -> None:
    """Close a controller that holds nothing open."""


async def _nothing_to_conclude(review: Review) -> None:
    """Let a controller be that is not concerned with what became of a review."""
    del review


def _nothing_to_use(configurations: Configurations) -> Half | None:
    """Let a controller be that is not concerned with configurations."""
    del configurations
    return None


async def _nothing_to_follow(cluster: Cluster) -> None:
    """Let a controller be that has nothing to do beside reviews."""
    del cluster


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Halves:
    """A configured controller: what it runs in each phase, and how it lets go of what it holds."""

    mutate: Half | None = None
    """Runs in the mutating phase; it may refuse there too. None: it has no such half."""
    validate: Half | None = None
    """Runs in the validating phase. None: it has no such half."""
    close: Callable[[], Awaitable[None]] = _nothing_to_close
    """Called once when the service stops, or when another configuration takes over."""
    use: Callable[[Configurations], Half | None] = _nothing_to_use
    """Given what ``--config`` holds, before the first review and whenever it changes. Raises ConfigurationError where
    it cannot be used; then what was used before stays. It may return a half that goes on with these configurations
    after others have come: reviews that began with them are decided by it."""
    follow: Callable[[Cluster], Coroutine[Any, Any, None]] = _nothing_to_follow
    """Runs beside the reviews of a service, given what it looks things up in, and is cancelled before ``close``. It
    may end by itself. In an offline run it is not called: there is no time there."""
    conclude: Callable[[Review], Awaitable[None]] = _nothing_to_conclude
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
    build: Callable[..., Halves]
    """Makes the halves from its settings (an instance of ``settings``), and from an
    :data:`pratique.backends.OpenBackend` where it ``asks_backend``. Raises ConfigurationError on bad ones."""
    settings: type[msgspec.Struct] = NoSettings
    """The type of its configuration: the inline block or file of an AdmissionConfiguration."""
    default: bool = False
    """On without being asked for."""
    looks_up: tuple[str, ...] = ()
    """The resources that it looks up in the cluster, for example ``namespaces``."""
    asks_backend: bool = False
    """True for one whose answers come from a server of somebody else's, which it is given the means to reach."""
    deprecated_in: str | None = None
    """The Kubernetes release that deprecated it, for example ``1.13``; None where none did."""
    removed_in: str | None = None
    """The Kubernetes release that removed it, for example ``1.21``; None where it still exists."""
    replaced_by: str | None = None
    """What took its place."""
    places: tuple[str, ...] = ()
    """Settings, by their names as they are written, that say where something is and not what is decided: a file, a URL.
    Services of one chain may differ in them."""
    hosted: bool = True
    """False for those that the front door itself runs, such as MutatingAdmissionWebhook."""
    unconcerned: Callable[[JSON, Review], str] | None = None
    """Tells at once, from its configuration as data and a review that its rules match, why it would have nothing to do
    with it; empty where it may have. Then no call is made, so it must look at nothing that a call brings."""
    charges: bool = False
    """True for one that changes something because of a review, as ResourceQuota does: it validates last and alone,
    when everything else has let the request through."""
    amends: bool = False
    """True for one whose validating half may change the object, as two of Kubernetes' do: what it changes is stored
    if the request is let through, and nobody looks at it again."""
    timed: bool = False
    """True for one that seldom waits, and then wants to know how long it may: ``Review.deadline`` is there for it."""
    guards: bool = False
    """True for one whose mutating half is there to refuse, with no validating half behind it: what reaches it by a
    webhook that fails open gets past it."""
    trusted: bool = False
    """True for Pratique's own, which never block: they run on the event loop. Others that are not ``async`` run in
    a thread, so that one that hangs costs its own outcome and nothing else."""
