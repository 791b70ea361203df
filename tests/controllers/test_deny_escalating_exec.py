"""DenyEscalatingExec, and DenyExecOnPrivileged, which is a part of it."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Controller
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers import deny_escalating_exec, deny_exec_on_privileged
from support import vector_cases
from support.admissions import Admission, admit, review_of
from support.expectations import check
from support.pods import container, pod

ESCALATING = deny_escalating_exec.CONTROLLER
PRIVILEGED = deny_exec_on_privileged.CONTROLLER
BOTH = pytest.mark.parametrize("controller", [ESCALATING, PRIVILEGED], ids=lambda controller: controller.name)


def assert_as_expected(controller: Controller, case: JSONObject) -> None:
    check(admit(controller, review_of(case["request"], ObjectStore(case["cluster"]))), case["expected"])


@pytest.mark.parametrize("case", vector_cases.plugin("DenyEscalatingExec"), ids=vector_cases.source)
def test_escalating_exec_is_denied_as_in_kubernetes(case: JSONObject) -> None:
    assert_as_expected(ESCALATING, case)


@pytest.mark.parametrize("case", vector_cases.plugin("DenyExecOnPrivileged"), ids=vector_cases.source)
def test_exec_on_privileged_is_denied_as_in_kubernetes(case: JSONObject) -> None:
    assert_as_expected(PRIVILEGED, case)


def container_with(*, privileged: JSON = None) -> JSONObject:
    return container(securityContext={"privileged": privileged})


def connect(
    controller: Controller, *pods: JSONObject, subresource: str = "exec", configuration: JSON = None
) -> Admission:
    kind = {"exec": "PodExecOptions", "attach": "PodAttachOptions"}.get(subresource, "PodPortForwardOptions")
    request = {
        "operation": "CONNECT",
        "kind": {"group": "", "version": "v1", "kind": kind},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": subresource,
        "name": "web",
        "namespace": "shop",
        "object": {"apiVersion": "v1", "kind": kind, "container": "other"},
    }
    return admit(controller, review_of(request, ObjectStore(pods)), configuration)


def refusal(found: Admission) -> str:
    assert found.status is not None
    assert (found.status.code, found.status.reason) == (403, "Forbidden")
    return found.status.message.removeprefix('pods "web" is forbidden: cannot exec into or attach to a ')


@pytest.mark.parametrize("subresource", ["exec", "attach"])
@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"hostNetwork": True}, "container using host network"),
        ({"hostPID": True}, "container using host pid"),
        ({"hostIPC": True}, "container using host ipc"),
        ({"containers": [container_with(privileged=True)]}, "privileged container"),
        ({"initContainers": [container_with(privileged=True)]}, "privileged container"),
        ({"containers": [container_with(), container_with(privileged=True)]}, "privileged container"),
        ({"hostIPC": True, "hostPID": True, "hostNetwork": True}, "container using host network"),
        ({"hostIPC": True, "hostPID": True}, "container using host pid"),
        ({"hostIPC": True, "containers": [container_with(privileged=True)]}, "container using host ipc"),
    ],
)
def test_the_first_violation_is_reported(spec: JSONObject, text: str, subresource: str) -> None:
    assert refusal(connect(ESCALATING, pod(**spec), subresource=subresource)) == text


@BOTH
@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [container_with(), container_with(privileged=False)]},
        {"containers": [container_with(privileged="true")]},
        {"ephemeralContainers": [container_with(privileged=True)]},
        {"hostPID": False, "hostIPC": None, "hostNetwork": "yes"},
        {"containers": "x"},
    ],
)
def test_other_pods_may_be_entered(controller: Controller, spec: JSONObject) -> None:
    assert connect(controller, pod(**spec)).allowed


@pytest.mark.parametrize("spec", [{"hostNetwork": True}, {"hostPID": True}, {"hostIPC": True}])
def test_deny_exec_on_privileged_checks_only_privileges(spec: JSONObject) -> None:
    assert connect(PRIVILEGED, pod(**spec)).allowed
    found = connect(PRIVILEGED, pod(**spec, containers=[container_with(privileged=True)]))
    assert refusal(found) == "privileged container"


def test_the_host_network_check_can_be_turned_off_as_before_1_10() -> None:
    settings = {"checkHostNetwork": False}
    assert connect(ESCALATING, pod(hostNetwork=True), configuration=settings).allowed
    shared = pod(hostNetwork=True, hostPID=True)
    assert refusal(connect(ESCALATING, shared, configuration=settings)) == "container using host pid"


@BOTH
@pytest.mark.parametrize("subresource", ["portforward", "proxy", "log", ""])
def test_other_connections_to_a_pod_are_allowed(controller: Controller, subresource: str) -> None:
    privileged = pod(containers=[container_with(privileged=True)])
    assert connect(controller, privileged, subresource=subresource).allowed


@BOTH
def test_a_missing_pod_is_not_found(controller: Controller) -> None:
    status = connect(controller).status
    assert status is not None
    assert (status.code, status.reason) == (403, "Forbidden")
    assert status.message == 'pods "web" is forbidden: pods "web" not found'


@pytest.mark.parametrize(
    ("configuration", "fault"),
    [
        ({"checkHostNetwork": "no"}, 'must be of type boolean: "string"'),
        ({"hostNetwork": False}, 'unknown field "hostNetwork"; known fields: checkHostNetwork'),
    ],
)
def test_invalid_settings_are_rejected_with_their_field(configuration: JSON, fault: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        connect(ESCALATING, pod(), configuration=configuration)
    assert str(refused.value).startswith('couldn\'t init admission plugin "DenyEscalatingExec": ')
    assert str(refused.value).endswith(fault)


FLAGS = st.none() | st.booleans()
SPECS = st.fixed_dictionaries(
    {"containers": st.lists(st.builds(functools.partial(container_with), privileged=FLAGS), max_size=3)},
    optional={"hostNetwork": FLAGS, "hostPID": FLAGS, "hostIPC": FLAGS},
)


@given(SPECS)
def test_whatever_deny_exec_on_privileged_denies_deny_escalating_exec_denies_too(spec: JSONObject) -> None:
    found = pod(**spec)
    assert connect(PRIVILEGED, found).allowed or not connect(ESCALATING, found).allowed
