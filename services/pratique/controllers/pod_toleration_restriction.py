"""PodTolerationRestriction: what the Pods of a namespace tolerate, and what they may tolerate at all.

Source: ``plugin/pkg/admission/podtolerationrestriction/admission.go``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec

from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.admission.edits import Edits
from pratique.admission.results import Answer, Deny, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import json_reading, json_values, statuses
from pratique.apimachinery.errors import ConfigurationError, RefusalError
from pratique.apimachinery.field_errors import ROOT, join
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.requests import Operation
from pratique.pods import pod_spec, resource_requirements, tolerations
from pratique.pods.tolerations import EXISTS, NO_SCHEDULE, Toleration

DEFAULTS_ANNOTATION = "scheduler.alpha.kubernetes.io/defaultTolerations"
WHITELIST_ANNOTATION = "scheduler.alpha.kubernetes.io/tolerationsWhitelist"

MEMORY_PRESSURE = Toleration(key="node.kubernetes.io/memory-pressure", operator=EXISTS, effect=NO_SCHEDULE)
"""What every Pod tolerates that is promised something."""

_API_VERSION = "podtolerationrestriction.admission.k8s.io/v1alpha1"
_KIND = "Configuration"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What holds for namespaces that say nothing of their own, and which release to follow where they differ."""

    api_version: str = _API_VERSION
    kind: str = _KIND
    default: tuple[Toleration, ...] = ()
    """What Pods tolerate beside what they say themselves."""
    whitelist: tuple[Toleration, ...] = ()
    """What Pods may tolerate; anything where there is none."""
    exact: bool = False
    """Refuse a Pod that says something else of a key and effect than its namespace, and allow only what the
    whitelist holds to the letter, as 1.16 and before; later releases look at what covers what."""
    empty_overrides: bool = True
    """An annotation that holds nothing stands above the settings, as since 1.12; before, it did not count."""


@dataclasses.dataclass(frozen=True, slots=True)
class _TolerationRestriction:
    settings: Settings

    def mutate(self, review: Review) -> Answer:
        """Add what the namespace's Pods tolerate to a new Pod, and leave out what is covered then."""
        if not pod_spec.is_pod(review.object):
            return allow()
        edits = Edits(review.object)
        added = self._defaults(review) if review.operation is Operation.CREATE else ()
        promised = not resource_requirements.is_best_effort(review.object)
        if self.settings.exact:
            self._unite(edits, added, promised=promised)
        else:
            _merge_tolerations(edits, (*added, MEMORY_PRESSURE) if promised else added)
        return self._check(review, edits.document) or edits.answer()

    def validate(self, review: Review) -> Answer:
        """Refuse what may not be tolerated, as a webhook may have added it."""
        if not pod_spec.is_pod(review.object):
            return allow()
        return self._check(review, review.object) or allow()

    def _unite(self, edits: Edits, added: Sequence[Toleration], *, promised: bool) -> None:
        """Add tolerations as 1.16 did.

        Raises:
            RefusalError: the Pod says something else of the same key and effect; a plain error.
        """
        own = tolerations.pod_tolerations(edits.document)
        if tolerations.is_conflict(added, own):
            raise RefusalError(statuses.plain_error("namespace tolerations and pod tolerations conflict"))
        taken = {one.key_and_effect for one in own}
        for one in {one.key_and_effect: one for one in added if one.key_and_effect not in taken}.values():
            edits.append(tolerations.PATH, one.document)
        if promised:
            _replace_tolerations(edits, MEMORY_PRESSURE)

    def _check(self, review: Review, pod: JSON) -> Deny | None:
        own = tolerations.pod_tolerations(pod)
        if not own:
            return None
        whitelist, scope = self._annotated(review, WHITELIST_ANNOTATION), "namespace"
        if whitelist is None:
            whitelist, scope = self.settings.whitelist, "cluster"
        holds = tolerations.all_listed if self.settings.exact else tolerations.all_covered
        if holds(own, whitelist):
            return None
        text = (
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its"
            f" {scope} whitelist"
        )
        return deny(status=statuses.plain_error(text))

    def _defaults(self, review: Review) -> Sequence[Toleration]:
        annotated = self._annotated(review, DEFAULTS_ANNOTATION)
        return self.settings.default if annotated is None else annotated

    def _annotated(self, review: Review, annotation: str) -> Sequence[Toleration] | None:
        """What the namespace says; None where it leaves that to the settings."""
        namespace = review.cluster.get("", "namespaces", review.namespace)
        if namespace is None:
            raise RefusalError(statuses.not_found("", "namespaces", review.namespace))
        text = member(namespace, "metadata", "annotations", annotation)
        if text is None:
            return None
        found = _parse_tolerations(str(text))
        return found if found or self.settings.empty_overrides else None


def _merge_tolerations(edits: Edits, added: Sequence[Toleration]) -> None:
    if not added:
        return
    own = tolerations.pod_tolerations(edits.document)
    every = [*own, *added]
    kept = tolerations.merge_tolerations(every)
    for index in sorted(set(range(len(own))) - set(kept), reverse=True):
        edits.remove((*tolerations.PATH, index))
    for index in kept:
        if index >= len(own):
            edits.append(tolerations.PATH, every[index].document)


def _replace_tolerations(edits: Edits, wanted: Toleration) -> None:
    """Put a toleration in the place of all others of its key and effect."""
    own = tolerations.pod_tolerations(edits.document)
    if wanted in own:
        return
    for index in reversed(range(len(own))):
        if own[index].key_and_effect == wanted.key_and_effect:
            edits.remove((*tolerations.PATH, index))
    edits.append(tolerations.PATH, wanted.document)


def _parse_tolerations(text: str) -> list[Toleration]:
    """Read the tolerations of an annotation; none where it is empty.

    Raises:
        RefusalError: it is no list of tolerations; a plain error in the words of Go's ``encoding/json``.
    """
    if not text:
        return []
    try:
        items = json_values.decode(text)
    except msgspec.DecodeError:
        raise RefusalError(statuses.plain_error(json_reading.syntax_error(text.encode()))) from None
    if items is None:
        return []
    if not isinstance(items, list):
        raise RefusalError(statuses.plain_error(json_reading.type_error(items, "[]v1.Toleration")))
    wrong = next((item for item in items if not isinstance(item, dict | None)), None)
    if wrong is not None:
        raise RefusalError(statuses.plain_error(json_reading.type_error(wrong, "v1.Toleration")))
    return [tolerations.read_toleration(item) for item in items]


def _build(settings: Settings) -> Handlers:
    if (settings.api_version, settings.kind) != (_API_VERSION, _KIND):
        got = f"{settings.api_version}, Kind={settings.kind}"
        raise ConfigurationError(f"apiVersion, kind: must be {_API_VERSION}, Kind={_KIND}, not {got}")
    path = ROOT / "podtolerationrestriction"
    faults = [
        *tolerations.validate_tolerations(settings.default, path / "default"),
        *tolerations.validate_tolerations(settings.whitelist, path / "whitelist"),
    ]
    if faults:
        raise ConfigurationError(f"invalid config: {join(faults)}")
    restriction = _TolerationRestriction(settings)
    return Handlers(mutate=restriction.mutate, validate=restriction.validate)


CONTROLLER = Controller(
    name="PodTolerationRestriction",
    summary="Adds the tolerations of a namespace to its Pods, and refuses those that it does not allow.",
    phases=BOTH,
    rules=(rule("pods"),),
    build=_build,
    settings=Settings,
    looks_up=("namespaces",),
    trusted=True,
)
