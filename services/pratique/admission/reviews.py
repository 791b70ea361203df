"""Reviews as controllers see them, the user who made the request, and the calls and deadlines of controllers."""

from __future__ import annotations

import enum
import time
from collections.abc import Sequence
from typing import Self

import msgspec

from pratique.apimachinery.json_values import JSON, NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.authorization import Authorizer, RbacAuthorizer, authorizer_of
from pratique.cluster.conversion import ConversionWebhooks
from pratique.cluster.store import ANY_NAMESPACE, Cluster


class Deadline(msgspec.Struct, frozen=True):
    """A point in time on this process's monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """Return the deadline ``seconds`` from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_seconds(self) -> float:
        """The seconds left; 0 once the deadline has passed."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return time.monotonic() >= self.at

    def sooner(self, seconds: float | None) -> Deadline:
        """Return this deadline, or the one ``seconds`` from now if that is sooner."""
        if seconds is None:
            return self
        return Deadline(min(self.at, time.monotonic() + seconds))


class QuotaMode(enum.Enum):
    """How controllers that commit quota treat an admitted review."""

    COMMIT = enum.auto()
    """Check the quota and record the usage."""
    CHECK = enum.auto()
    """Check the quota, but record nothing: the request will not be carried out."""
    COUNTED = enum.auto()
    """Neither check nor record: the usage is already counted."""


_DEFAULT_AUTHORIZER = RbacAuthorizer(ANY_NAMESPACE)
NOBODY = UserInfo()
"""A user without name and groups."""


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """One request to the API server, with everything that a controller may know about it.

    A review is a value. ``object`` and ``old_object`` are JSON, parsed on first use; do not change them in place. The
    ``*_document`` fields hold the same objects as bytes or data.
    """

    uid: str
    """Identifies the review."""
    operation: Operation
    kind: GroupVersionKind
    """The object's kind."""
    resource: GroupVersionResource
    """The object's resource."""
    subresource: str = ""
    """For example ``status``; empty for the resource itself."""
    request_kind: GroupVersionKind | None = None
    """The kind in the original request, if the object was converted; None means ``kind``."""
    request_resource: GroupVersionResource | None = None
    """The resource in the original request; None means ``resource``."""
    request_subresource: str = ""
    """The subresource in the original request."""
    name: str = ""
    """The object's name; empty if the API server has yet to generate it."""
    namespace: str = ""
    """The object's namespace; empty for cluster-scoped objects."""
    user: UserInfo = NOBODY
    """The user who made the request."""
    object_document: Document = NULL
    """The object; null for DELETE."""
    old_object_document: Document = NULL
    """The stored object; null for CREATE."""
    options_document: Document = NULL
    """The options of the operation, such as ``CreateOptions``."""
    dry_run: bool = False
    """Whether nothing will be stored. A dry run must have no side effects."""
    cluster: Cluster = ANY_NAMESPACE
    """The objects that the controller can look up."""
    authorizer: Authorizer = _DEFAULT_AUTHORIZER
    """Answers what users may do: from the roles in :attr:`cluster` or by asking its API server, unless another
    authorizer is given."""
    conversion_webhooks: ConversionWebhooks | None = None
    """Asks the webhooks that convert custom resources; None asks none, which is an error of the conversion. It stays in
    this process."""
    deadline: Deadline | None = None
    """When the running handler is cancelled and counts as failed, if it is ``async``; None means never.

    A handler that waits for another server, and has its own answer for a timeout, must answer before the deadline."""
    only: tuple[str, ...] | None = None
    """For a controller with policies: the keys of the policies to run in the second round of the mutating phase; None
    in the first round."""
    span: tuple[int, int] | None = None
    """For a controller with policies: which of them to evaluate in the validating phase, from the first number up to,
    but not including, the second (:mod:`pratique.policies.policy_spans`); None means all."""
    explain: bool = False
    """For a controller with policies: also report policies that do not apply to the review or simply allow it."""
    quota_mode: QuotaMode = QuotaMode.COMMIT
    """Whether quota is checked and committed. Unlike ``dry_run``, it never leaves the process."""
    digest: str = ""
    """The digest of the inputs to decide by, if several services must agree on them
    (:mod:`pratique.configuration.input_digests`); empty otherwise."""
    object_validation: bool = False
    """Whether the chain decodes, defaults and validates the object as an API server does. It stays in this process."""
    made_of: JSON = None
    """A stored object that this one shares parts with. The shared parts are decoded and have their defaults, so object
    validation does not do that again; None if there is no such object. It stays in this process."""
    received_values: int = 0
    """About how many values the objects had when this process received them, which bounds the work on them
    (:mod:`pratique.processes.review_threads`); 0 if they were made here, where nobody else waits. It stays in this
    process."""
    is_retry: bool = False
    """Whether the same call was sent before to a service that may have carried it out. A controller that commits quota
    then checks whether it already has."""

    def __post_init__(self) -> None:
        """Make the authorizer that of this review's cluster, unless another one than that for RBAC was given."""
        authorizer = self.authorizer
        if isinstance(authorizer, RbacAuthorizer) and authorizer.cluster is not self.cluster:
            found = authorizer_of(self.cluster)  # type: ignore[arg-type]  # clusters are compared by identity
            chosen = found if isinstance(found, RbacAuthorizer) else found.authorizer()
            msgspec.structs.force_setattr(self, "authorizer", chosen)

    @property
    def object(self) -> JSON:
        """The object as JSON; None for DELETE."""
        return self.object_document.data

    @property
    def old_object(self) -> JSON:
        """The stored object as JSON; None for CREATE."""
        return self.old_object_document.data

    @property
    def options(self) -> JSON:
        """The options of the operation as JSON; None if there are none."""
        return self.options_document.data

    @property
    def documents(self) -> tuple[Document, Document, Document]:
        """The object, the stored object, and the options."""
        return self.object_document, self.old_object_document, self.options_document

    @property
    def is_unchecked(self) -> bool:
        """Whether the check of a document was deferred, and nobody has done it yet."""
        # Asked several times for each review: a generator would cost more than the answers.
        return (
            self.object_document.is_unchecked
            or self.old_object_document.is_unchecked
            or self.options_document.is_unchecked
        )

    def check(self) -> None:
        """Do the deferred checks that nobody has done yet; call it in a thread if there are any.

        Raises:
            ReviewError: a document is not allowed.
        """
        for document in self.documents:
            document.check()

    def with_object(self, document: Document) -> Self:
        """Return the same review with another object."""
        if document is self.object_document:
            return self
        return msgspec.structs.replace(self, object_document=document)

    def with_quota_mode(self, mode: QuotaMode) -> Self:
        """Return the same review with another quota mode."""
        if mode is self.quota_mode:
            return self
        return msgspec.structs.replace(self, quota_mode=mode)

    def with_conversion_webhooks(self, webhooks: ConversionWebhooks | None) -> Self:
        """Return the same review with another way to ask conversion webhooks."""
        if webhooks is self.conversion_webhooks:
            return self
        return msgspec.structs.replace(self, conversion_webhooks=webhooks)

    def with_parts_of(self, stored: JSON) -> Self:
        """Return the same review of an object that shares parts with a stored one (:attr:`made_of`)."""
        return self if stored is self.made_of else msgspec.structs.replace(self, made_of=stored)

    def concerns(self, group: str, resource: str, subresource: str = "") -> bool:
        """Tell whether the review is of that resource, in any version."""
        return (
            self.resource.resource == resource
            and self.resource.group == group
            and self.subresource == subresource
        )


class Call(msgspec.Struct, frozen=True):
    """A call to one controller, with its time limit."""

    name: str
    """The name of the controller or webhook."""
    timeout_seconds: float | None = None
    """The controller's time limit in seconds; None means the call's deadline."""
    may_patch: bool = False
    """Whether the answer may change the object in the validating phase."""
    commits_quota: bool = False
    """Whether the controller records something for each admitted review, so that the call must not run twice at a
    time."""
    asked_once: bool = False
    """Whether the call must not be made again only to save time, as :attr:`Controller.asked_once` says."""
    only: tuple[str, ...] | None = None
    """The keys of the policies to run in the second round of the mutating phase; None in the first round."""
    span: tuple[int, int] | None = None
    """The numbers of the policies to evaluate in the validating phase, as in :attr:`Review.span`; None means all."""
    explain: bool = False
    """Whether the outcome also reports policies that do not apply to the review or simply allow it."""

    @property
    def is_plain(self) -> bool:
        """Whether the controller needs nothing but the review."""
        return self.only is None and self.span is None and not self.explain


_ANONYMOUS = "system:anonymous"
_AUTHENTICATED = "system:authenticated"
_UNAUTHENTICATED = "system:unauthenticated"
_SERVICE_ACCOUNT = pattern(
    r"system:serviceaccount:([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?):[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?"
)


def impersonated_user(name: str, groups: Sequence[str] = ()) -> UserInfo:
    """Return the user that ``kubectl --as NAME --as-group GROUP`` impersonates.

    Every user except the anonymous one is also in ``system:authenticated``. A ServiceAccount without explicit groups
    is in the groups of its namespace.
    """
    account = _SERVICE_ACCOUNT.fullmatch(name)
    memberships = tuple(groups)
    if account is not None and not memberships:
        memberships = ("system:serviceaccounts", f"system:serviceaccounts:{account[1]}")
    if name == _ANONYMOUS:
        added = () if _UNAUTHENTICATED in memberships else (_UNAUTHENTICATED,)
    else:
        added = () if {_AUTHENTICATED, _UNAUTHENTICATED} & set(memberships) else (_AUTHENTICATED,)
    return UserInfo(username=name, groups=(*memberships, *added))
