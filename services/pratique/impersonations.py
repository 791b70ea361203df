"""Impersonations: the user whom an API server takes a request for when all that is given is a name.

Source: ``k8s.io/apiserver/pkg/endpoints/filters/impersonation`` (what groups are added) and
``pkg/authentication/serviceaccount/util.go`` (which names are ServiceAccounts').
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pratique.reviews import UserInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

_ANONYMOUS = "system:anonymous"
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"
_SERVICE_ACCOUNT = re.compile(
    r"system:serviceaccount:([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?):[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?"
)


def impersonated(name: str, groups: Sequence[str] = ()) -> UserInfo:
    """Say who asks, as ``kubectl --as NAME --as-group GROUP`` does.

    Whoever is not anonymous is in ``system:authenticated`` as well, and a ServiceAccount without groups in those
    of its namespace.
    """
    account = _SERVICE_ACCOUNT.fullmatch(name)
    given = tuple(groups)
    if account is not None and not given:
        given = ("system:serviceaccounts", f"system:serviceaccounts:{account[1]}")
    if name == _ANONYMOUS:
        added = () if _UNAUTHENTICATED in given else (_UNAUTHENTICATED,)
    else:
        added = () if {_AUTHENTICATED, _UNAUTHENTICATED} & set(given) else (_AUTHENTICATED,)
    return UserInfo(username=name, groups=(*given, *added))
