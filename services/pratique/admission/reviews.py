"""Reviews as controllers see them, the user who made the request, and the calls and deadlines of controllers."""

from __future__ import annotations

import dataclasses
import enum
import operator
import re
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pratique.apimachinery.json_values import JSON, NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.authorization import Authorizer, RbacAuthorizer
from pratique.cluster.store import ANY_NAMESPACE, Cluster

if TYPE_CHECKING:
    from typing import Self


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One controller that is to see a review."""

    name: str
    """The controller's name, or a webhook's."""
    timeout_seconds: float | None = None
    """How long it may take; None means as long as the deadline allows."""
    may_patch: bool = False
    """Whether its answer may change the object though it validates."""
    again: tuple[str, ...] | None = None
    """In the second round of the mutating phase, the keys of those of its members that are to run again; None in the
    first."""
    explain: bool = False
    """Tell of members, too, that have nothing to do with the review."""

    @property
    def is_plain(self) -> bool:
        """True where a controller need not be told more than the review."""
        return self.again is None and not self.explain


@dataclasses.dataclass(frozen=True, slots=True)
class Deadline:
    """The moment by which an answer must be there, on this process's monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """The moment ``seconds`` from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_seconds(self) -> float:
        """What is left, 0 where it has passed."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """True where nothing is left."""
        return time.monotonic() >= self.at

    def sooner(self, seconds: float | None) -> Deadline:
        """This deadline, or ``seconds`` from now where that comes first."""
        if seconds is None:
            return self
        return Deadline(min(self.at, time.monotonic() + seconds))


class QuotaMode(enum.Enum):
    """What is charged for a request that is admitted."""

    COMMIT = enum.auto()
    """All that it uses."""
    CHECK = enum.auto()
    """Nothing, as it is not going to be: what charges finds out whether it could."""
    COUNTED = enum.auto()
    """Nothing, as it is part of what is counted already: what charges has no say."""


_DEFAULT_AUTHORIZER = RbacAuthorizer(ANY_NAMESPACE)
NOBODY = UserInfo()
"""A user without name and groups."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """What is asked of the API server, and all that a controller may know about it.

    A review is a value. ``object`` and ``old_object`` are parsed JSON, parsed on first use and not to be changed
    in place; the ``*_document`` fields hold the same as bytes or data.
    """

    uid: str
    """Identifies the review."""
    operation: Operation
    """What is to be done."""
    kind: GroupVersionKind
    """The object's type."""
    resource: GroupVersionResource
    """The object's collection."""
    subresource: str = ""
    """For example ``status``; empty for the resource itself."""
    request_kind: GroupVersionKind | None = None
    """The type in the original request, where the object was converted; None means ``kind``."""
    request_resource: GroupVersionResource | None = None
    """The collection in the original request; None means ``resource``."""
    request_subresource: str = ""
    """The subresource in the original request."""
    name: str = ""
    """The object's name; empty where it is still to be generated."""
    namespace: str = ""
    """The object's namespace; empty for cluster-scoped objects."""
    user: UserInfo = NOBODY
    """Who asks."""
    object_document: Document = NULL
    """The object, null for DELETE."""
    old_object_document: Document = NULL
    """The object as stored, null for CREATE."""
    options_document: Document = NULL
    """The options of the operation, such as ``CreateOptions``."""
    dry_run: bool = False
    """Nothing will be stored; nothing may be changed because of this review."""
    cluster: Cluster = ANY_NAMESPACE
    """What the controller may look up."""
    authorizer: Authorizer = _DEFAULT_AUTHORIZER
    """Whom the controller may ask who may do what: the roles of :attr:`cluster`, unless it is somebody else's."""
    deadline: Deadline | None = None
    """When the half at hand, if it is ``async``, is ended and has failed; None where nothing ends it. What waits for
    others and has an answer of its own for when they do not come has to give it before."""
    again: tuple[str, ...] | None = None
    """For a controller with members of its own: the keys of those that are to run in the second round of the mutating
    phase; None in the first round."""
    explain: bool = False
    """For such a controller: tell of members, too, that have nothing to do with the review, or nothing to say."""
    charging: QuotaMode = QuotaMode.COMMIT
    """What is charged for it. Unlike ``dry_run`` it shows nowhere, and it stays within the process."""
    digest: str = ""
    """Of what it is to be decided by, where others have a part in deciding it and have to agree
    (:mod:`pratique.digests`); empty where nobody has to."""
    is_retry: bool = False
    """The same was asked before, of a service that broke off and may have carried it out. What charges looks first."""

    def __post_init__(self) -> None:
        """See that the roles asked are those of the cluster, whichever of the two was given."""
        asked = self.authorizer
        if isinstance(asked, RbacAuthorizer) and asked.cluster is not self.cluster:
            object.__setattr__(self, "authorizer", RbacAuthorizer(self.cluster))

    @property
    def object(self) -> JSON:
        """The object as parsed JSON; None on DELETE."""
        return self.object_document.data

    @property
    def old_object(self) -> JSON:
        """The stored object as parsed JSON; None on CREATE."""
        return self.old_object_document.data

    @property
    def options(self) -> JSON:
        """The options of the operation as parsed JSON; None where there are none."""
        return self.options_document.data

    def with_object(self, document: Document) -> Self:
        """The same review of another object."""
        # As ``dataclasses.replace`` does it, in a third of its time: this is done after each mutation.
        other = object.__new__(type(self))
        for put, value in zip(_SETTERS, _GET_VALUES(self), strict=True):
            put(other, value)
        _SET_OBJECT_DOCUMENT(other, document)
        return other

    def concerns(self, group: str, resource: str, subresource: str = "") -> bool:
        """True where the review is of that resource, in whatever version."""
        return (
            self.resource.resource == resource
            and self.resource.group == group
            and self.subresource == subresource
        )


_FIELD_NAMES = tuple(field.name for field in dataclasses.fields(Review))
_GET_VALUES = operator.attrgetter(*_FIELD_NAMES)
_SETTERS = tuple(vars(Review)[name].__set__ for name in _FIELD_NAMES)
_SET_OBJECT_DOCUMENT = vars(Review)["object_document"].__set__


_ANONYMOUS = "system:anonymous"
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"
_SERVICE_ACCOUNT = re.compile(
    r"system:serviceaccount:([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?):[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?"
)


def impersonated_user(name: str, groups: Sequence[str] = ()) -> UserInfo:
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
