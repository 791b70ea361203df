"""Counting: what a cluster's objects use of each quota, and which charged objects are among them."""

from __future__ import annotations

import dataclasses
import logging
from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.tracebacks import described

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject
    from pratique.ledgers.protocols import Charge, Usage, UsageOf

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Count:
    """What a cluster says of one account."""

    namespace: str
    name: str
    uid: str
    used: Usage | None
    """What its objects use; None where the quota is gone."""


def count(cluster: Cluster, accounts: Iterable[tuple[str, str, str]], usage_of: UsageOf) -> list[Count]:
    """Count what is used of each account. One that cannot be counted is left out, and told of."""
    counts = []
    for namespace, name, uid in accounts:
        quota = cluster.get("", "resourcequotas", name, namespace)
        if quota is None or _metadata(quota, "uid") != uid:
            counts.append(Count(namespace, name, uid, None))
            continue
        try:
            counts.append(Count(namespace, name, uid, usage_of(quota, cluster)))
        except Exception as error:  # noqa: BLE001 - one quota, or one object in it, must not stop the others
            quoted = f"{namespace}/{name}"
            _log.error("a quota was not reconciled", extra={"quota": quoted, "error": described(error)})
    return counts


def has_arrived(cluster: Cluster, charge: Charge) -> bool:
    """Tell whether a cluster holds an object as it was charged, so that it is counted among the others.

    In doubt it has not: what is counted twice for a while refuses a little too much; what is not counted at all lets
    too much through.
    """
    found = cluster.get(charge.group, charge.resource, charge.name, charge.namespace) if charge.name else None
    if found is None:
        return False
    uid = _metadata(found, "uid")
    if charge.uid and uid and uid != charge.uid:
        return False  # its predecessor of the same name
    if charge.old_resource_version is None:
        return True
    return _is_later(_metadata(found, "resourceVersion"), charge.old_resource_version)


def was_removed(cluster: Cluster, charge: Charge) -> bool:
    """Tell whether an object that a cluster held is in it no longer, or another one has its name."""
    found = cluster.get(charge.group, charge.resource, charge.name, charge.namespace)
    return found is None or _metadata(found, "uid") not in {"", charge.uid}


def _is_later(version: str, than: str) -> bool:
    """Resource versions are decimal numbers that grow; Kubernetes promises it since 1.35."""
    if not (version.isascii() and version.isdecimal() and than.isascii() and than.isdecimal()):
        return False
    return (len(version), version) > (len(than), than)


def _metadata(document: JSONObject, field: str) -> str:
    value = member(document, "metadata", field)
    return value if isinstance(value, str) else ""
