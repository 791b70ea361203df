"""Samples: requests that are made in every cluster, and which webhooks would be called for them."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from pratique.json_values import Document
from pratique.kinds import GroupVersionKind, GroupVersionResource
from pratique.reviews import Operation, Review, UserInfo
from pratique.rules import compile_rules
from pratique.selectors import EVERYTHING, compile_selector, labels_of
from pratique.statuses import qualified_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject
    from pratique.practices.subjects import Hook, Subject
    from pratique.resources import Resources

_NAME = "sample"
_CONTROLLER_MANAGER = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sample:
    """One request of a part of the system."""

    group: str = ""
    version: str = "v1"
    resource: str
    subresource: str = ""
    kind: str
    operation: Operation = Operation.CREATE
    namespace: str = ""
    """Empty for what has no namespace."""
    user: UserInfo = _CONTROLLER_MANAGER
    annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __str__(self) -> str:
        named = qualified_resource(self.group, self.resource)
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.operation} of {named}{'/' * bool(self.subresource)}{self.subresource}{where}"

    @functools.cached_property
    def made(self) -> Review:
        """The same review every time, by which what becomes of it can be remembered."""
        return self.review()

    def versions(self, resources: Resources) -> Iterator[Sample]:
        """The request in each version, and by each name, by which today's API server takes it."""
        asked = GroupVersionResource(self.group, self.version, self.resource)
        for other in resources.equivalents(asked, self.subresource):
            known = resources.for_resource(other, self.subresource)
            if known is not None and known.served and known.removed_in is None:
                yield dataclasses.replace(self, group=other.group, version=other.version)

    def review(self) -> Review:
        """The request as webhooks are shown it."""
        document = Document.from_data(self._object())
        return Review(
            uid=_NAME,
            operation=self.operation,
            kind=GroupVersionKind(self.group, self.version, self.kind),
            resource=GroupVersionResource(self.group, self.version, self.resource),
            subresource=self.subresource,
            name=_NAME,
            namespace=self.namespace,
            user=self.user,
            object_document=document,
            old_object_document=Document.from_data(self._object() if self.operation == "UPDATE" else None),
        )

    def _object(self) -> JSONObject:
        return {
            "apiVersion": f"{self.group}/{self.version}".lstrip("/"),
            "kind": self.kind,
            "metadata": {
                "name": _NAME,
                "namespace": self.namespace,
                "annotations": dict(self.annotations),
            },
        }


def first_reached(hook: Hook, samples: Iterable[Sample], subject: Subject) -> Sample | None:
    """The first of the requests that a webhook would be called for; None where it is called for none.

    The chain itself decides that, with the controllers that are on in it. Whatever the match policy, somebody may
    ask for any version that an API server serves.
    """
    return next(
        (one for sample in samples for one in subject.versions(sample) if subject.is_reached(hook, one.made)),
        None,
    )


def first_named(hook: Hook, samples: Iterable[Sample], cluster: Cluster) -> Sample | None:
    """The first of the requests that fits a webhook, though admission may never hear of it."""
    return next((sample for sample in samples if _reaches(hook, sample, cluster)), None)


def _reaches(hook: Hook, sample: Sample, cluster: Cluster) -> bool:
    review, webhook = sample.review(), hook.webhook
    rules = compile_rules(webhook.rules)
    # Whatever the match policy, somebody may ask for any version of it.
    versions = cluster.resources.equivalents(review.resource, review.subresource)
    if not rules.first_wanted(review.operation, versions, review.subresource, review.namespace):
        return False
    spaces = compile_selector(webhook.namespace_selector or EVERYTHING)
    if review.namespace and not spaces.matches(
        labels_of(cluster.get("", "namespaces", review.namespace)) or {}
    ):
        return False
    objects = compile_selector(webhook.object_selector or EVERYTHING)
    return objects.matches_object(review.object, review.old_object) and _conditions_hold(hook, review)


def _conditions_hold(hook: Hook, review: Review) -> bool:
    """Whether no condition is false; one that cannot be told leaves it to the failure policy."""
    conditions = hook.webhook.match_conditions
    if not conditions:
        return True
    from pratique.cel.admission_variables import AdmissionVariables  # noqa: PLC0415 - brings CEL
    from pratique.cel.conditions import Condition, errors_of, evaluate_conditions, first_false  # noqa: PLC0415
    from pratique.cel.environments import MATCH_CONDITIONS  # noqa: PLC0415
    from pratique.cel.errors import OutOfBudgetError  # noqa: PLC0415
    from pratique.cel.expressions import compile_expression  # noqa: PLC0415

    compiled = [
        Condition(one.name, compile_expression(one.expression.strip(), MATCH_CONDITIONS, "bool"))
        for one in conditions
    ]
    try:
        found = evaluate_conditions(compiled, AdmissionVariables(review, review.authorizer))
    except OutOfBudgetError:
        return hook.fails_closed
    return first_false(found) is None and (hook.fails_closed or not errors_of(found))
