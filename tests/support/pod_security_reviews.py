"""Reviews of PodSecurity, and what is answered to them: the set-up of ``admission/admission_test.go``."""

from __future__ import annotations

import copy
from collections.abc import Callable

from pratique.admission.controllers import Handler
from pratique.admission.results import Answer, Deny
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_security import CONTROLLER
from pratique.hosting.catalogue import configure_controller
from support.admissions import answer_of, review_of
from support.pod_security_cases import cases, labelled


def half(**exemptions: list[str]) -> Handler:
    document = {
        "apiVersion": "pod-security.admission.config.k8s.io/v1",
        "kind": "PodSecurityConfiguration",
        "exemptions": exemptions,
    }
    found = configure_controller(CONTROLLER, document).handlers.validate
    assert found is not None
    return found


VALIDATE = half()
EXEMPTING = half(usernames=["root"], namespaces=["exempt"], runtimeClasses=["sandbox"])
ROOT = {"userInfo": {"username": "root"}}


def answer(request: JSONObject, objects: ObjectStore, validate: Handler = VALIDATE) -> Answer:
    return answer_of(validate, review_of(request, objects))


def refusal(found: Answer) -> tuple[int, str, str, dict[str, str]]:
    assert isinstance(found, Deny)
    assert found.status is not None
    return found.status.code, found.status.reason, found.status.message, dict(found.audit_annotations)


def audited(**members: str) -> dict[str, str]:
    return {f"pod-security.kubernetes.io/{name.replace('_', '-')}": value for name, value in members.items()}


def fixture(level: str) -> JSONObject:
    return next(
        case["pod"]
        for case in cases("fixtures.jsonl")
        if case["case"] == f"{level}/pass/base" and case["to"] == 37
    )


def changed(pod: JSONObject, change: Callable[[JSONObject], object]) -> JSONObject:
    result = copy.deepcopy(pod)
    change(result["spec"])
    return result


BASELINE, RESTRICTED = fixture("baseline"), fixture("restricted")
PRIVILEGED = changed(
    BASELINE, lambda spec: spec["containers"][0].update(securityContext={"privileged": True})
)
SANDBOXED = changed(PRIVILEGED, lambda spec: spec.update(runtimeClassName="sandbox"))
TOLERANT = changed(PRIVILEGED, lambda spec: spec.update(tolerations=[{"operator": "Exists"}]))
OTHER_IMAGE = changed(PRIVILEGED, lambda spec: spec["containers"][0].update(image="other"))
RESTRICTED_OTHER_IMAGE = changed(RESTRICTED, lambda spec: spec["containers"][0].update(image="other"))

NAMESPACES = ObjectStore(
    [
        labelled("exempt", enforce="restricted", warn="restricted", audit="restricted"),
        labelled("implicit"),
        labelled("privileged", enforce="privileged", warn="privileged", audit="privileged"),
        labelled("baseline", enforce="baseline", warn="baseline", audit="baseline"),
        labelled("baseline-warn", warn="baseline"),
        labelled("baseline-audit", audit="baseline"),
        labelled("restricted", enforce="restricted", warn="restricted", audit="restricted"),
        labelled("invalid", enforce="not-a-valid-level"),
    ]
)

BASE_DETAIL = 'privileged (container "container1" must not set securityContext.privileged=true)'
RESTRICTED_DETAIL = (
    f"{BASE_DETAIL}, allowPrivilegeEscalation != false (containers"
    ' "initcontainer1", "container1" must set securityContext.allowPrivilegeEscalation=false), unrestricted'
    ' capabilities (containers "initcontainer1", "container1" must set securityContext.capabilities.drop=["ALL"]),'
    ' runAsNonRoot != true (pod or containers "initcontainer1", "container1" must set'
    " securityContext.runAsNonRoot=true), seccompProfile (pod or containers"
    ' "initcontainer1", "container1" must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")'
)
WOULD_RESTRICTED = f'would violate PodSecurity "restricted:latest": {RESTRICTED_DETAIL}'
WOULD_BASELINE = f'would violate PodSecurity "baseline:latest": {BASE_DETAIL}'


def workload(kind: str, group: str, resource: str, document: JSONObject, namespace: str) -> JSONObject:
    return {
        "operation": "CREATE",
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": resource},
        "namespace": namespace,
        "name": "test",
        "object": {"kind": kind, **document},
    }
