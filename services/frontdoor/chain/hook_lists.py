"""Hook lists: all webhooks of one kind, in the order in which the API server calls them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, TypeAlias

from pratique.targets import Asked
from pratique.virtual_resources import VIRTUAL_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from frontdoor.chain.hooks import Hook
    from pratique.resources import Resources
    from pratique.reviews import Review
    from pratique.targets import Target

Candidate: TypeAlias = "tuple[Hook, Target | None]"
"""A webhook, and what its rules make of a review: None where they do not want it."""

_EXCLUDED_GROUP = "admissionregistration.k8s.io"
_EXCLUDED_KINDS = frozenset(
    {
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
    }
)
"""Sent to none but static webhooks, so that a broken one can be repaired.

Source: ``IsExemptAdmissionConfigurationResource`` in ``…/plugin/webhook/predicates/rules/rules.go``.
"""

_REMEMBERED = 256
"""Kinds of requests whose candidates are remembered: the four operations on 64 collections and subresources.

More would take memory that a list of a thousand webhooks for everything fills: 64 bytes for each of them.
"""


class HookList:
    """Webhooks in calling order, indexed by what their rules say of a request.

    Rules look at little: operation, collection, and whether there is a namespace. So they are held against each
    such combination once, and a review costs nothing for the webhooks that do not want what it asks.
    """

    def __init__(self, hooks: Iterable[Hook]) -> None:
        """Hold ``hooks``, which are in calling order."""
        self._hooks: tuple[Hook, ...] = tuple(hooks)
        self._static = tuple(hook for hook in self._hooks if hook.is_static)
        self._wanting = functools.lru_cache(_REMEMBERED)(self._find_wanting)

    def __iter__(self) -> Iterator[Hook]:
        """Every webhook, in calling order."""
        return iter(self._hooks)

    def __len__(self) -> int:
        """How many webhooks there are."""
        return len(self._hooks)

    def candidates(self, review: Review, *, every: bool = False) -> Sequence[Candidate]:
        """The webhooks whose rules match, in calling order; with ``every``, the others, too."""
        if not self._hooks:
            return ()
        asked, resources = Asked.of(review), review.cluster.resources
        return self._look_at(asked, resources) if every else self._wanting(asked, resources)

    def _find_wanting(self, asked: Asked, resources: Resources) -> tuple[Candidate, ...]:
        return tuple(candidate for candidate in self._look_at(asked, resources) if candidate[1] is not None)

    def _look_at(self, asked: Asked, resources: Resources) -> list[Candidate]:
        return [(hook, hook.matcher.target(asked, resources)) for hook in self._callable(asked)]

    def _callable(self, asked: Asked) -> Sequence[Hook]:
        """All webhooks that may be called for such a request at all.

        Source: ``Dispatch`` in ``k8s.io/apiserver/pkg/admission/plugin/webhook/generic/webhook.go``.
        """
        if (asked.resource.group, asked.resource.resource) in VIRTUAL_RESOURCES:
            # Since Kubernetes 1.37: feature gate ``ExcludeAdmissionWebhookVirtualResources``.
            return ()
        if asked.kind.group == _EXCLUDED_GROUP and asked.kind.kind in _EXCLUDED_KINDS:
            # Static webhooks are in files, where they can be repaired without asking anybody.
            return self._static
        return self._hooks
