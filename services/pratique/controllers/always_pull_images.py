"""AlwaysPullImages: forces every image to be pulled, so that a Pod can only use images it has credentials for.

Source: ``plugin/pkg/admission/alwayspullimages/admission.go``, and its test for image volumes.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.controllers import BOTH, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.field_errors import FieldPath, not_supported
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.pods import pod_spec

_ALWAYS = "Always"


def mutate(review: Review) -> Answer:
    """Set the pull policy of every container and every image volume."""
    if _has_no_new_image(review):
        return allow()
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    edits = Edits(review.object)
    for path, _ in _pull_policies(review.object):
        edits.set(path, _ALWAYS)
    return edits.answer()


def validate(review: Review) -> Answer:
    """Deny any other pull policy; a webhook may have set one since."""
    if _has_no_new_image(review):
        return allow()
    if not pod_spec.is_pod(review.object):
        return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
    refusals = [
        statuses.admission_forbidden(review, str(not_supported(FieldPath(path), policy, [_ALWAYS]))).message
        for path, policy in _pull_policies(review.object)
        if policy != _ALWAYS
    ]
    # Kubernetes returns an aggregate of Forbidden errors, which is not a Status itself: code 500.
    return deny(status=statuses.plain_error(statuses.aggregate(refusals))) if refusals else allow()


def _has_no_new_image(review: Review) -> bool:
    """Whether this is an update of a Pod that refers only to images it referred to before."""
    if review.operation is not Operation.UPDATE:
        return False
    if not (pod_spec.is_pod(review.object) and pod_spec.is_pod(review.old_object)):
        return False
    return _images(review.object) <= _images(review.old_object)


def _images(pod: JSONObject) -> set[str]:
    of_containers = {str(container.get("image", "")) for _, _, container in pod_spec.iter_containers(pod)}
    of_volumes = {str(image.get("reference", "")) for _, image in _image_volumes(pod)}
    return of_containers | of_volumes


def _pull_policies(pod: JSONObject) -> Iterator[tuple[tuple[str | int, ...], JSON]]:
    """Each pull policy's path and value; the value is empty if the Pod sets none."""
    for field, index, container in pod_spec.iter_containers(pod):
        yield ("spec", field, index, "imagePullPolicy"), container.get("imagePullPolicy") or ""
    for index, image in _image_volumes(pod):
        yield ("spec", "volumes", index, "image", "pullPolicy"), image.get("pullPolicy") or ""


def _image_volumes(pod: JSONObject) -> Iterator[tuple[int, JSONObject]]:
    for _, index, volume in pod_spec.iter_volumes(pod):
        image = member(volume, "image")
        if isinstance(image, dict):
            yield index, image


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate, validate=validate)


CONTROLLER = Controller(
    name="AlwaysPullImages",
    summary="Forces every image of a Pod to be pulled, which needs credentials.",
    phases=BOTH,
    rules=(rule("pods"),),
    build=_build,
    trusted=True,
)
