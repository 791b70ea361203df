"""PodTolerationRestriction: adds the tolerations of a namespace to its Pods, and restricts which they may have.

Source: ``plugin/pkg/admission/podtolerationrestriction/admission.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.admission.results import Answer, Deny, Edits, allow, deny
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
"""The toleration of every Pod that is not BestEffort."""

_API_VERSION = "podtolerationrestriction.admission.k8s.io/v1alpha1"
_KIND = "Configuration"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The settings for namespaces without annotations, and which release to follow where releases differ."""

    api_version: str = _API_VERSION
    kind: str = _KIND
    default: tuple[Toleration, ...] = ()
    """The tolerations that are added to Pods."""
    whitelist: tuple[Toleration, ...] = ()
    """The tolerations that Pods may have; empty allows any."""
    exact: bool = False
    """Deny a Pod whose toleration of a key and effect differs from its namespace's, and compare with the whitelist
    literally, as 1.16 and before. Later releases compare by what a toleration covers."""
    empty_overrides: bool = True
    """An empty annotation overrides the settings, as since 1.12. False: it is ignored, as before."""


class _TolerationRestriction(msgspec.Struct, frozen=True):
    settings: Settings

    def mutate(self, review: Review) -> Answer:
        """Add the namespace's tolerations to a new Pod, and drop the ones that others cover."""
        if not pod_spec.is_pod(review.object):
            return allow()
        edits = Edits(review.object)
        added = self._defaults(review) if review.operation is Operation.CREATE else ()
        promised = not resource_requirements.is_best_effort(review.object)
        if self.settings.exact:
            self._unite(edits, added, promised=promised)
        elif added or promised:
            tolerations.merge_into_pod(edits, (*added, MEMORY_PRESSURE) if promised else added)
        return self._check(review, edits.document) or edits.answer()

    def validate(self, review: Review) -> Answer:
        """Deny tolerations that are not allowed; a webhook may have added them."""
        if not pod_spec.is_pod(review.object):
            return allow()
        return self._check(review, review.object) or allow()

    def _unite(self, edits: Edits, added: Sequence[Toleration], *, promised: bool) -> None:
        """Add tolerations as 1.16 does.

        Raises:
            RefusalError: The Pod has a different toleration for the same key and effect; a plain error.
        """
        own = tolerations.pod_tolerations(edits.document)
        if tolerations.is_conflict(added, own):
            raise RefusalError(statuses.plain_error("namespace tolerations and pod tolerations conflict"))
        taken = {toleration.key_and_effect for toleration in own}
        for toleration in {
            toleration.key_and_effect: toleration
            for toleration in added
            if toleration.key_and_effect not in taken
        }.values():
            edits.append(tolerations.PATH, toleration.document)
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
        """The tolerations in a namespace's annotation; None to use the settings."""
        namespace = review.cluster.get("", "namespaces", review.namespace)
        if namespace is None:
            raise RefusalError(statuses.not_found("", "namespaces", review.namespace))
        text = member(namespace, "metadata", "annotations", annotation)
        if text is None:
            return None
        annotated = _parse_tolerations(str(text))
        return annotated if annotated or self.settings.empty_overrides else None


def _replace_tolerations(edits: Edits, wanted: Toleration) -> None:
    """Replace all tolerations of the same key and effect."""
    own = tolerations.pod_tolerations(edits.document)
    if wanted in own:
        return
    for index in reversed(range(len(own))):
        if own[index].key_and_effect == wanted.key_and_effect:
            edits.remove((*tolerations.PATH, index))
    edits.append(tolerations.PATH, wanted.document)


def _parse_tolerations(text: str) -> list[Toleration]:
    """Parse the tolerations in an annotation; an empty text has none.

    Raises:
        RefusalError: It is not a list of tolerations; a plain error in the words of Go's ``encoding/json``.
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
    malformed = next((item for item in items if not isinstance(item, dict | None)), None)
    if malformed is not None:
        raise RefusalError(statuses.plain_error(json_reading.type_error(malformed, "v1.Toleration")))
    return [tolerations.read_toleration(item) for item in items]


def _build(settings: Settings) -> Handlers:
    if (settings.api_version, settings.kind) != (_API_VERSION, _KIND):
        got = f"{settings.api_version}, Kind={settings.kind}"
        raise ConfigurationError(f"apiVersion, kind: must be {_API_VERSION}, Kind={_KIND}, not {got}")
    path = ROOT / "podtolerationrestriction"
    errors = [
        *tolerations.validate_tolerations(settings.default, path / "default"),
        *tolerations.validate_tolerations(settings.whitelist, path / "whitelist"),
    ]
    if errors:
        raise ConfigurationError(f"invalid config: {join(errors)}")
    restriction = _TolerationRestriction(settings)
    return Handlers(mutate=restriction.mutate, validate=restriction.validate)


CONTROLLER = Controller(
    name="PodTolerationRestriction",
    summary="Adds the tolerations of a namespace to its Pods, and denies those that it does not allow.",
    phases=BOTH,
    rules=(rule("pods"),),
    build=_build,
    settings=Settings,
    looks_up=("namespaces",),
    trusted=True,
)
