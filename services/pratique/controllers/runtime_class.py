"""RuntimeClass: gives Pods the overhead and the scheduling constraints of their RuntimeClass.

Sources: ``plugin/pkg/admission/runtimeclass/admission.go``, and ``MergeTolerations`` of
``pkg/util/tolerations/tolerations.go``.
"""

from __future__ import annotations

from pratique.admission.controllers import BOTH, Controller, Handlers, NoSettings
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, json_type, list_at, mapping_at, member
from pratique.apimachinery.names import check_path_segment
from pratique.apimachinery.statuses import go_quoted
from pratique.pods import pod_spec, resource_requirements, tolerations
from pratique.pods.resource_requirements import ResourceList

_CLASS_NAME = ("spec", "runtimeClassName")
_OVERHEAD = ("spec", "overhead")
_NODE_SELECTOR = ("spec", "nodeSelector")
_MISMATCH = "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"
_WITHOUT_CLASS = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"


def mutate(review: Review) -> Answer:
    """Set the overhead, the node selector and the tolerations that the Pod's class asks for."""
    runtime_class = _find_class(review)
    if runtime_class is None:
        return allow()
    edits = Edits(review.object)
    denial = _set_overhead(edits, runtime_class) or _set_scheduling(edits, runtime_class)
    return deny(denial) if denial else edits.answer()


def validate(review: Review) -> Answer:
    """Deny an overhead that is not that of the Pod's class; a webhook may have changed it."""
    runtime_class = _find_class(review)
    if member(runtime_class, "overhead") is None:
        return allow() if member(review.object, *_OVERHEAD) is None else deny(_WITHOUT_CLASS)
    matches = _overhead_of_class(runtime_class) == _overhead_of_pod(review.object)
    return allow() if matches else deny(_MISMATCH)


def _find_class(review: Review) -> JSONObject | None:
    """Look up the class that the Pod names; None if it names none.

    Raises:
        RefusalError: there is no such class, or the object is not a Pod.
    """
    if not pod_spec.is_pod(review.object):
        raise RefusalError(statuses.bad_request(pod_spec.NOT_A_POD))
    name = member(review.object, *_CLASS_NAME)
    if name is None:
        return None
    if not isinstance(name, str):
        text = f"{FieldPath(_CLASS_NAME)}: must be a string, not {json_type(name)}"
        raise RefusalError(statuses.bad_request(text))
    found = review.cluster.get("node.k8s.io", "runtimeclasses", name)
    if found is None:
        _check_name(name)
        text = f"pod rejected: RuntimeClass {go_quoted(name)} not found"
        raise RefusalError(statuses.admission_forbidden(review, text))
    return found


def _check_name(name: str) -> None:
    """Check a name as Kubernetes' client does when it asks the API server for a class that the cache does not have."""
    if not name:
        raise RefusalError(statuses.plain_error("resource name may not be empty"))
    if messages := check_path_segment(name):
        listed = " ".join(messages)
        raise RefusalError(statuses.plain_error(f"invalid resource name {go_quoted(name)}: [{listed}]"))


def _overhead_of_class(runtime_class: JSON) -> ResourceList:
    path = ("overhead", "podFixed")
    return resource_requirements.read_resource_list(member(runtime_class, *path), FieldPath(path))


def _overhead_of_pod(pod: JSON) -> ResourceList:
    return resource_requirements.read_resource_list(member(pod, *_OVERHEAD), FieldPath(_OVERHEAD))


def _set_overhead(edits: Edits, runtime_class: JSONObject) -> str:
    """Set the overhead of the class. Returns why the Pod is denied; empty if it is not."""
    if runtime_class.get("overhead") is None:
        return ""
    wanted, written = _overhead_of_class(runtime_class), _overhead_of_pod(edits.document)
    if written and written != wanted:
        return _MISMATCH
    for name, amount in wanted.items():
        edits.set((*_OVERHEAD, name), str(amount))
    return ""


def _set_scheduling(edits: Edits, runtime_class: JSONObject) -> str:
    """Set the node selector and tolerations of the class. Returns why the Pod is denied; empty if it is not."""
    scheduling = runtime_class.get("scheduling")
    if scheduling is None:
        return ""
    written = mapping_at(edits.document, *_NODE_SELECTOR)
    for key, value in sorted(mapping_at(scheduling, "nodeSelector").items()):
        if key in written and written[key] != value:
            return (
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value};"
                f" pod.spec.nodeSelector[{key}] = {written[key]}"
            )
        edits.set((*_NODE_SELECTOR, key), value)
    added = [tolerations.read_toleration(item) for item in list_at(scheduling, "tolerations")]
    tolerations.merge_into_pod(edits, added)
    return ""


def _build(_: NoSettings) -> Handlers:
    return Handlers(mutate=mutate, validate=validate)


CONTROLLER = Controller(
    name="RuntimeClass",
    summary="Gives Pods the overhead, node selector and tolerations of their RuntimeClass.",
    phases=BOTH,
    rules=(rule("pods", operations=("CREATE",)),),
    build=_build,
    default=True,
    looks_up=("runtimeclasses",),
    trusted=True,
)
