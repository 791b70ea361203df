"""Quotas for tests of ledgers: accounts, what is charged, and decisions that count."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.cluster.store import Cluster
from pratique.controllers.quota.ledger import Account, Charge, Decide, Ledger, Usage
from support.pods import pod


def amounts(**texts: str) -> Usage:
    """Usage, written as in a quota's status."""
    return {name: Quantity.parse(text) for name, text in texts.items()}


def account(name: str = "quota", *, uid: str = "1", pods: str = "0") -> Account:
    """A quota in the namespace ``shop`` that begins with so many Pods."""
    return Account(namespace="shop", name=name, uid=uid, initial_usage=lambda: amounts(pods=pods))


def charge(name: str = "web", **fields: Any) -> Charge:
    """A charge for a Pod in the namespace ``shop``."""
    return Charge(
        **({"group": "", "resource": "pods", "namespace": "shop", "name": name, "uid": ""} | fields)
    )


def plus(pods: str = "1") -> Callable[[Sequence[Usage]], Sequence[Usage]]:
    """Let every account have that many Pods more."""
    return lambda usages: [{"pods": used["pods"] + Quantity.parse(pods)} for used in usages]


def up_to(hard: int) -> Decide:
    """Let every account have one Pod more, as long as that is not more than ``hard``."""

    def decide(usages: Sequence[Usage]) -> Sequence[Usage]:
        after = plus()(usages)
        if any(each["pods"].compare(Quantity(hard)) > 0 for each in after):
            raise RefusalError(statuses.plain_error("exceeded quota"))
        return after

    return decide


async def admitted(
    ledger: Ledger, accounts: Sequence[Account], names: Iterable[str], decide: Decide, *, uids: bool = False
) -> list[str]:
    """Ask for all names at once, and give those that were charged; with ``uids``, that of each is ``uid-`` its name."""

    async def ask(name: str) -> str | None:
        try:
            await ledger.charge(accounts, charge(name, uid=f"uid-{name}" if uids else ""), decide)
        except RefusalError:
            return None
        return name

    return [name for name in await asyncio.gather(*map(ask, names)) if name is not None]


async def pods_used(ledger: Ledger, *accounts: Account) -> list[str]:
    """How many Pods each account has."""
    return [str(usage["pods"]) for usage in await ledger.usage(accounts)]


def stored_pod(name: str, *, version: str = "", uid: str = "", size: int = 1) -> JSONObject:
    """A Pod in the namespace ``shop``. ``size`` is what it counts for."""
    metadata = {"uid": uid, "resourceVersion": version}
    written = {key: value for key, value in metadata.items() if value}
    return pod(name=name, metadata=written, priority=size)


def quota(name: str = "quota", *, uid: str = "1") -> JSONObject:
    """A ResourceQuota in the namespace ``shop``."""
    metadata = {"name": name, "namespace": "shop", "uid": uid}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata}


def sizes_of_pods(document: JSONObject, cluster: Cluster) -> Usage:
    """What Pods count for in a quota's namespace, all together."""
    pods = cluster.list("", "pods", str(member(document, "metadata", "namespace")))
    return {"pods": Quantity(sum(int(str(member(each, "spec", "priority"))) for each in pods))}


def asking(decide: Decide, before: Callable[[], object]) -> Decide:
    """Do something before each decision."""

    def decided(usages: Sequence[Usage]) -> Sequence[Usage | None]:
        before()
        return decide(usages)

    return decided
