"""LimitRanger: limits what Pods and claims request in a namespace, and sets defaults where containers request nothing.

Source: ``plugin/pkg/admission/limitranger/admission.go``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator

import msgspec

from pratique.admission.controllers import BOTH, Controller, Handlers
from pratique.admission.results import Answer, Edits, Path, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.pods import limit_ranges, pod_spec
from pratique.pods.limit_ranges import CLAIM, CONTAINER, POD, LimitRangeBounds
from pratique.pods.resource_requirements import (
    ResourceRequirements,
    container_requirements,
    pod_requirements,
    read_requirements,
)
from pratique.pods.volumes import is_persistent_volume_claim

ANNOTATION = "kubernetes.io/limit-ranger"
"""Lists the amounts that the user did not set."""

_FIELDS = {"containers": "container", "initContainers": "init container"}
"""The fields of containers in the order of processing, and what the annotation calls the containers."""

_NOT_A_CLAIM = "Resource was marked with kind PersistentVolumeClaim but was unable to be converted"


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ, and how to read LimitRanges."""

    default_limit_ranges: bool = False
    """Default the LimitRanges as an API server does before it stores them; for handwritten LimitRanges."""
    pod_updates: bool = False
    """Also check updates of Pods, as releases before 1.11 do. Since then only ``resize`` can change a Pod's amounts."""
    skip_unchanged_claims: bool = False
    """Let an update keep a claim's request even if it is out of bounds by now, as Kubernetes' main branch does since
    September 2026. Releases up to 1.37 check every update."""


def mutate(settings: Settings, review: Review) -> Answer:
    """Give every container the default amounts that it does not set itself."""
    if review.resource.resource != "pods" or _is_ignored(settings, review):
        return allow()
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    edits = Edits(review.object)
    annotation = ""
    for limit_range in _limit_ranges(review):
        with _enforcement_errors(review):
            defaults = limit_ranges.container_defaults(limit_range, filled=settings.default_limit_ranges)
        filled = "; ".join(_set_defaults(edits, defaults))
        annotation = f"LimitRanger plugin set: {filled}" if filled else annotation
    if annotation:
        edits.set(("metadata", "annotations", ANNOTATION), annotation)
    return edits.answer()


def _set_defaults(edits: Edits, defaults: ResourceRequirements) -> Iterator[str]:
    """Add the missing amounts, and describe them container by container."""
    kinds = [
        (kind, {name: str(amounts[name]) for name in sorted(amounts)})
        for kind, amounts in (("request", defaults.requests), ("limit", defaults.limits))
    ]
    for field, what in _FIELDS.items():
        for index, container in _containers(edits.document, field):
            for kind, amounts in kinds:
                missing = _set_missing(edits, ("spec", field, index, "resources", f"{kind}s"), amounts)
                if missing:
                    yield f"{', '.join(missing)} {kind} for {what} {container.get('name') or ''}"


def _set_missing(edits: Edits, path: Path, amounts: dict[str, str]) -> list[str]:
    """Add the amounts that a resource list lacks; return their names."""
    present = edits.get(path)
    if present is None and amounts:
        edits.set(path, amounts)
        return list(amounts)
    missing = [name for name in amounts if not (isinstance(present, dict) and name in present)]
    for name in missing:
        edits.set((*path, name), amounts[name])
    return missing


def _containers(pod: JSON, field: str) -> list[tuple[int, JSONObject]]:
    return [(index, container) for name, index, container in pod_spec.iter_containers(pod) if name == field]


def validate(settings: Settings, review: Review) -> Answer:
    """Deny requests that are out of bounds, with all violations of the first LimitRange that has any."""
    if _is_ignored(settings, review):
        return allow()
    pod = review.resource.resource == "pods"
    if pod and not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    if not pod and not is_persistent_volume_claim(review.object):
        return deny(status=statuses.bad_request(_NOT_A_CLAIM))
    ranges = _limit_ranges(review)
    if not ranges:
        return allow()
    violations_of = _pod_violations(review.object) if pod else _claim_violations(settings, review)
    types = (CONTAINER, POD) if pod else (CLAIM,)
    for limit_range in ranges:
        with _enforcement_errors(review):
            bounds = tuple(limit_ranges.bounds_of(limit_range, *types))
        violations = [text for bound in bounds for text in violations_of(bound)]
        if violations:
            return deny(statuses.aggregate(violations))
    return allow()


def _pod_violations(pod: JSONObject) -> Callable[[LimitRangeBounds], Iterator[str]]:
    containers, init_containers = (container_requirements(pod, field) for field in _FIELDS)
    whole = pod_requirements(pod, containers, init_containers)

    def violations_of(bounds: LimitRangeBounds) -> Iterator[str]:
        if bounds.type == POD:
            yield from limit_ranges.limit_violations(bounds, whole)
            return
        for container in (*containers, *init_containers):
            yield from limit_ranges.limit_violations(bounds, container.requirements)

    return violations_of


def _claim_violations(settings: Settings, review: Review) -> Callable[[LimitRangeBounds], Iterator[str]]:
    requirements = _claim_requirements(review.object)
    old = (
        _claim_requirements(review.old_object)
        if settings.skip_unchanged_claims
        else ResourceRequirements({}, {})
    )
    unchanged = {name for name, amount in requirements.requests.items() if old.requests.get(name) == amount}

    def violations_of(bounds: LimitRangeBounds) -> Iterator[str]:
        # Claims have no limits, so there is no ratio to check.
        checked = LimitRangeBounds(
            bounds.type,
            {name: bound for name, bound in bounds.minimum.items() if name not in unchanged},
            {name: bound for name, bound in bounds.maximum.items() if name not in unchanged},
            {},
        )
        return limit_ranges.limit_violations(checked, requirements)

    return violations_of


def _claim_requirements(claim: JSON) -> ResourceRequirements:
    """What a claim requests. Bounds look at nothing else."""
    requests = read_requirements(
        member(claim, "spec", "resources"), FieldPath(("spec", "resources"))
    ).requests
    return ResourceRequirements(requests, {})


def _is_ignored(settings: Settings, review: Review) -> bool:
    """Whether this is an update of a Pod itself, or of an object that is being deleted."""
    if review.operation is not Operation.UPDATE:
        return False
    if member(review.old_object, "metadata", "deletionTimestamp") is not None:
        return True
    return pod_spec.is_pod_review(review) and not settings.pod_updates


def _limit_ranges(review: Review) -> tuple[JSONObject, ...]:
    return tuple(review.cluster.list("", "limitranges", review.namespace))


@contextlib.contextmanager
def _enforcement_errors(review: Review) -> Iterator[None]:
    """If a LimitRange cannot be read, tell users that their request is not at fault."""
    try:
        yield
    except RefusalError:
        text = (
            f"unable to {review.operation} {review.resource} at this time"
            " because there was an error enforcing limit ranges"
        )
        raise RefusalError(statuses.admission_forbidden(review, text)) from None


def _build(settings: Settings) -> Handlers:
    return Handlers(
        mutate=functools.partial(mutate, settings), validate=functools.partial(validate, settings)
    )


CONTROLLER = Controller(
    name="LimitRanger",
    summary="Keeps the requests of Pods and claims within the LimitRanges of their namespace, and sets defaults.",
    phases=BOTH,
    rules=(rule("pods", "persistentvolumeclaims"), rule("pods/resize", operations=("UPDATE",))),
    build=_build,
    settings=Settings,
    default=True,
    looks_up=("limitranges",),
    trusted=True,
)
