"""What a ledger is: where the usage of ResourceQuotas is kept, and where a request is charged against them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pratique.quantities import Quantity

if TYPE_CHECKING:
    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject

Usage: TypeAlias = Mapping[str, Quantity]
"""Amounts by resource name, as in a ResourceQuota's ``status.used``: ``{"pods": 3, "requests.cpu": 500m}``."""

Key: TypeAlias = tuple[str, str, str]
"""An account's namespace, name and uid."""

Decide: TypeAlias = Callable[[Sequence[Usage]], Sequence[Usage | None]]
"""Given the usage of each account, gives the new one of each; None for those that stay as they are.

Raises RefusalError to refuse. It has no effects of its own and reads nothing that changes: it runs in a thread, and
it may be asked several times for one charge, because a refusal needs no lock and is tried without one first.
"""

UsageOf: TypeAlias = "Callable[[JSONObject, Cluster], Usage]"
"""What of a ResourceQuota is used, counted from a cluster's objects."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """One ResourceQuota."""

    namespace: str
    name: str
    uid: str
    """Its ``metadata.uid``, empty where it has none. Another uid is another quota: its usage starts anew."""
    start: Callable[[], Usage]
    """Gives the usage to begin with; asked only when the ledger does not know the account yet."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Charge:
    """What a charge is for, so that reconciliation can tell whether the object is there yet."""

    group: str
    resource: str
    namespace: str
    name: str
    uid: str
    """The object's ``metadata.uid``; empty where it is not known."""
    old_resource_version: str | None = None
    """None for a CREATE. For an UPDATE: the ``metadata.resourceVersion`` of the object as it was, empty where it had
    none. The object is there already, in a form that was charged before; the update is there once it has a later
    one."""
    request_uid: str = ""
    """The uid of the request that is charged for."""
    repeats: bool = False
    """True where the request may have been charged for already, by a service that died before it could answer. What is
    found charged for the same request and object is then not charged again."""


class Ledger(Protocol):
    """Where charges are kept. Several services may share what is behind it."""

    async def charge(self, accounts: Sequence[Account], charge: Charge, decide: Decide) -> None:
        """Charge accounts, all of them or none. Once this returns, the charge outlives this process.

        In one transaction that nobody else can charge these accounts in: ``decide`` is given the usage of each, in
        the order of ``accounts``, and what it answers is written.

        Raises:
            RefusalError: ``decide`` refused. Nothing is charged.
            CallError: storage could not be asked; the text says why. Nothing is to be let through; where the
                connection broke while the answer was on its way, the charge may be there until reconciliation.
        """

    async def usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        """The usage of each account, in their order, for dry runs. Nothing is written, no account begun.

        Raises:
            CallError: storage could not be asked; the text says why.
        """

    async def reconcile(self, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> bool:
        """Put every account's usage right: what the cluster's objects use, and what is charged but not there yet.

        Accounts whose quota is gone from the cluster go.

        Returns:
            False where nothing was due: another service did it less than ``period_seconds`` ago.

        Raises:
            CallError: storage could not be asked; the text says why.
        """

    async def accounts(self) -> Mapping[Key, Usage]:
        """The usage of every account that the ledger knows. Nothing is written, and no ledger begun.

        Raises:
            CallError: storage could not be asked; the text says why.
        """

    @property
    def seen(self) -> Mapping[Key, Usage]:
        """What :meth:`accounts` would have given when the ledger was last looked at to be put right."""

    async def close(self) -> None:
        """Let go of connections and threads."""
