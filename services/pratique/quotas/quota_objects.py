"""ResourceQuotas as they are stored: what they limit, and what they say is used of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.demands import read_list
from pratique.errors import InputError, RefusalError
from pratique.field_errors import FieldPath
from pratique.json_values import member
from pratique.quotas.scopes import scopes_of

if TYPE_CHECKING:
    from pratique.demands import ResourceList
    from pratique.json_values import JSONObject
    from pratique.quotas.scopes import ScopeRequirement


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One ResourceQuota."""

    namespace: str
    name: str
    uid: str
    """Empty where it has none."""
    hard: ResourceList
    """How much may be used at most: its ``status.hard``, or ``spec.hard`` where it has no status."""
    used: ResourceList | None
    """How much it says is used; None where it has no status, and the objects have to be counted."""
    scopes: tuple[ScopeRequirement, ...]
    """What an object must be of to be counted, all of it."""


def read_quota(document: JSONObject) -> Quota:
    """Read a ResourceQuota.

    In a cluster its status is what counts, because the quota controller has worked it out. One that nobody has worked
    anything out for says nothing there, and then its spec counts.

    Raises:
        InputError: an amount is no quantity; the text names quota and field.
    """
    status = member(document, "status")
    known = any(member(status, field) is not None for field in ("hard", "used"))
    return Quota(
        namespace=str(member(document, "metadata", "namespace") or ""),
        name=str(member(document, "metadata", "name") or ""),
        uid=str(member(document, "metadata", "uid") or ""),
        hard=_read(document, "status" if known else "spec", "hard"),
        used=_read(document, "status", "used") if known else None,
        scopes=scopes_of(document),
    )


def _read(document: JSONObject, *place: str) -> ResourceList:
    try:
        return read_list(member(document, *place), FieldPath(place))
    except RefusalError as error:
        namespace, name = (member(document, "metadata", field) for field in ("namespace", "name"))
        raise InputError(f"resourcequotas {namespace}/{name}: {error}") from None
