"""ServiceAccount."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Phase
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.controllers.service_account import CONTROLLER, ENFORCE_ANNOTATION, Settings, build
from pratique.pods.service_account_tokens import MOUNT_PATH
from support import vector_cases
from support.admissions import Admission, admit, pod_review, review_of, run
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import pod
from support.strategies.pods import optional, pods

PHASES = {"mutating": Phase.MUTATE, "validating": Phase.VALIDATE}
SECRETS = {"boundServiceAccountTokenVolume": False}


def settings_of(case: JSONObject) -> JSON:
    """The cases of 1.20 mount Secrets."""
    return SECRETS if case.get("era", "").startswith("legacy") else case["config"] or None


@pytest.mark.parametrize("case", vector_cases.plugin("ServiceAccount"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    phases = [PHASES[phase] for phase in case["phases"]]
    check(admit(CONTROLLER, review, settings_of(case), phases), case["expected"])


def account(name: str = "default", *, enforce: str = "", **members: JSON) -> JSONObject:
    annotations = {ENFORCE_ANNOTATION: enforce} if enforce else {}
    metadata = {"name": name, "namespace": "shop", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, **members}


def mirror(**spec: JSON) -> JSONObject:
    return pod(annotations={"kubernetes.io/config.mirror": "x"}, **spec)


def create(reviewed: JSON, *objects: JSONObject, configuration: JSON = None) -> Admission:
    review = msgspec.structs.replace(pod_review(reviewed), cluster=ObjectStore(objects or (account(),)))
    return admit(CONTROLLER, review, configuration)


def create_named(reviewed: JSON, *objects: JSONObject, **choices: bool) -> Admission:
    """Create a Pod with generated names that all end in ``abcde``."""
    handlers = build(Settings(**choices), lambda base: f"{base}abcde")
    review = msgspec.structs.replace(pod_review(reviewed), cluster=ObjectStore(objects or (account(),)))
    return run(CONTROLLER, handlers, review)


MOUNT = {"name": "kube-api-access-abcde", "readOnly": True, "mountPath": MOUNT_PATH}


def test_every_change_is_made_by_its_own_operation() -> None:
    reviewed = pod(
        initContainers=[{"name": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
        ephemeralContainers=[{"name": "e"}],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    found = create_named(reviewed, account(imagePullSecrets=[{"name": "a"}, {"name": "b"}]))
    assert [(operation["op"], operation["path"]) for operation in found.operations] == [
        ("add", "/spec/serviceAccountName"),
        ("add", "/spec/serviceAccount"),
        ("add", "/spec/initContainers/0/volumeMounts/1"),
        ("add", "/spec/containers/0/volumeMounts"),
        ("add", "/spec/volumes/1"),
        ("add", "/spec/imagePullSecrets"),
    ]
    assert found.object["spec"]["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]
    assert found.object["spec"]["containers"][0]["volumeMounts"] == [MOUNT]
    assert found.object["spec"]["volumes"][1]["name"] == "kube-api-access-abcde"


def test_generated_names_differ() -> None:
    assert create(pod()).object["spec"]["volumes"] != create(pod()).object["spec"]["volumes"]


BOTH_NAMES = {"serviceAccountName": "cart", "serviceAccount": "cart"}


@pytest.mark.parametrize(
    "named",
    [
        {"serviceAccountName": "cart"},
        {"serviceAccount": "cart"},
        BOTH_NAMES,
        BOTH_NAMES | {"serviceAccount": "x"},
    ],
)
def test_an_account_that_the_pod_names_is_written_to_both_fields(named: JSONObject) -> None:
    found = create(pod(**named, automountServiceAccountToken=False), account("cart"))
    assert {name: found.object["spec"][name] for name in BOTH_NAMES} == BOTH_NAMES
    assert len(found.operations) == sum(named.get(name) != "cart" for name in BOTH_NAMES)


@pytest.mark.parametrize(
    ("own", "accounts", "mounted"),
    [
        (None, None, True),
        (None, False, False),
        (True, False, True),
        (False, True, False),
        (False, None, False),
    ],
)
def test_the_setting_of_the_pod_overrides_that_of_the_account(
    own: JSON, accounts: JSON, *, mounted: bool
) -> None:
    found = create(pod(automountServiceAccountToken=own), account(automountServiceAccountToken=accounts))
    assert ("volumes" in found.object["spec"]) is mounted


def test_mounting_tokens_can_be_turned_off() -> None:
    found = create(pod(automountServiceAccountToken=True), configuration={"mountServiceAccountToken": False})
    assert "volumes" not in found.object["spec"]


def test_a_volume_that_nothing_mounts_is_not_added() -> None:
    mounts = [{"name": "own", "mountPath": MOUNT_PATH}]
    assert "volumes" not in create(pod(containers=[{"name": "c", "volumeMounts": mounts}])).object["spec"]


def test_pull_secrets_of_the_pod_replace_those_of_the_account() -> None:
    found = create(pod(imagePullSecrets=[{"name": "own"}]), account(imagePullSecrets=[{"name": "a"}]))
    assert found.object["spec"]["imagePullSecrets"] == [{"name": "own"}]


def message(found: Admission, code: int = 403) -> str:
    assert found.status is not None
    assert (found.status.code, found.status.reason) == (code, "Forbidden" if code == 403 else "")
    return found.status.message.removeprefix('pods "web" is forbidden: ')


@pytest.mark.parametrize("name", ["default", "cart"])
def test_a_missing_account_is_named(name: str) -> None:
    found = create(pod(serviceAccountName=name), account("other"))
    assert message(found) == (
        f'error looking up service account shop/{name}: serviceaccount "{name}" not found'
    )


def test_without_cluster_files_every_namespace_has_its_default_account() -> None:
    review = msgspec.structs.replace(pod_review(pod()), cluster=ANY_NAMESPACE)
    assert admit(CONTROLLER, review).object["spec"]["serviceAccountName"] == "default"


TOKEN = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}


@pytest.mark.parametrize("phase", list(Phase))
@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"serviceAccountName": "a"}, "a mirror pod may not reference service accounts"),
        ({"imagePullSecrets": [{"name": "a"}]}, "a mirror pod may not reference secrets"),
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "a"}}]},
            "a mirror pod may not reference secrets",
        ),
        ({"volumes": [TOKEN]}, "a mirror pod may not use ServiceAccountToken volume projections"),
    ],
)
def test_a_mirror_pod_may_reference_nothing(spec: JSONObject, text: str, phase: Phase) -> None:
    review = msgspec.structs.replace(pod_review(mirror(**spec)), cluster=ObjectStore())
    assert message(admit(CONTROLLER, review, phases=[phase])) == text


def test_a_mirror_pod_gets_nothing() -> None:
    assert create(mirror()).operations == ()


def variable(name: str) -> JSONObject:
    return {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": name, "key": "k"}}}


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (
            {"volumes": [{"name": "v", "secret": {"secretName": "x"}}]},
            'volume with secret.secretName="x" is not allowed because service account default',
        ),
        (
            {"initContainers": [{"name": "i", "env": [variable("x")]}]},
            'init container i with envVar KEY referencing secret.secretName="x" is not allowed because',
        ),
        (
            {"initContainers": [{"name": "i", "envFrom": [{"secretRef": {"name": "x"}}]}]},
            'init container i with envFrom referencing secret.secretName="x" is not allowed because',
        ),
        (
            {"containers": [{"name": "c", "env": [variable("known"), variable("x")]}]},
            'container c with envVar KEY referencing secret.secretName="x" is not allowed because',
        ),
        (
            {"containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "x"}}]}]},
            'container c with envFrom referencing secret.secretName="x" is not allowed because',
        ),
        (
            {"imagePullSecrets": [{"name": "pull"}, {"name": "x"}]},
            (
                'imagePullSecrets[1].name="x" is not allowed because service account default does not reference'
                " that imagePullSecret"
            ),
        ),
        ({"volumes": [{"name": "v", "projected": {"sources": [{"secret": {"name": "x"}}]}}]}, None),
        ({"volumes": [{"name": "v", "secret": {"secretName": "known"}}]}, None),
    ],
)
@pytest.mark.parametrize(("enforce", "limit"), [("true", False), ("T", False), ("", True)])
def test_a_restricted_account_allows_only_its_own_secrets(
    spec: JSONObject, text: str | None, enforce: str, *, limit: bool
) -> None:
    limited = account(enforce=enforce, secrets=[{"name": "known"}], imagePullSecrets=[{"name": "pull"}])
    found = create(pod(**spec), limited, configuration={"limitSecretReferences": limit})
    if text is None:
        assert found.allowed
    else:
        assert message(found).startswith(text)


@pytest.mark.parametrize("enforce", ["false", "yes", "TrUe"])
def test_an_annotation_other_than_true_restricts_nothing(enforce: str) -> None:
    reviewed = pod(volumes=[{"name": "v", "secret": {"secretName": "x"}}])
    assert create(reviewed, account(enforce=enforce)).allowed


def debug(enforce: str, **members: JSON) -> Admission:
    reviewed = pod(serviceAccountName="default", ephemeralContainers=[{"name": "e", **members}])
    review = pod_review(reviewed, operation="UPDATE", old=pod(), subresource="ephemeralcontainers")
    cluster = ObjectStore([account(enforce=enforce)])
    return admit(CONTROLLER, msgspec.structs.replace(review, cluster=cluster))


@pytest.mark.parametrize(
    ("members", "how"),
    [({"env": [variable("x")]}, "envVar KEY"), ({"envFrom": [{"secretRef": {"name": "x"}}]}, "envFrom")],
)
def test_secrets_of_ephemeral_containers_are_a_plain_error(members: JSONObject, how: str) -> None:
    assert message(debug("true", **members), 500) == (
        f'ephemeral container e with {how} referencing secret.secretName="x" is not allowed because'
        " service account default does not reference that secret"
    )
    assert debug("false", **members).allowed


def test_a_pod_with_ephemeral_containers_needs_an_account() -> None:
    review = pod_review(pod(), operation="UPDATE", old=pod(), subresource="ephemeralcontainers")
    assert message(admit(CONTROLLER, review)) == "no service account specified for pod shop/web"


@pytest.mark.parametrize(
    ("operation", "subresource", "reviewed"),
    [
        ("UPDATE", "", pod()),
        ("UPDATE", "status", pod()),
        ("CREATE", "binding", pod()),
        ("CREATE", "", {"kind": "Service"}),
        ("CREATE", "", None),
    ],
)
def test_everything_else_is_ignored(operation: str, subresource: str, reviewed: JSON) -> None:
    review = pod_review(reviewed, operation=operation, old=reviewed, subresource=subresource)
    found = admit(CONTROLLER, msgspec.structs.replace(review, cluster=ObjectStore()))
    assert found.allowed
    assert found.operations == ()


def secret(name: str, owner: str = "default", uid: str = "1", **members: JSON) -> JSONObject:
    annotations = {"kubernetes.io/service-account.name": owner, "kubernetes.io/service-account.uid": uid}
    metadata = {"name": name, "namespace": "shop", "annotations": annotations}
    kind = {"type": "kubernetes.io/service-account-token"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **kind, **members}


REFERRING = account(secrets=[{"name": "other"}, {"name": "a.token"}, {"name": "b"}])


def test_old_releases_mount_the_first_secret_with_a_token() -> None:
    found = create(
        pod(),
        REFERRING,
        secret("other", type="Opaque"),
        secret("a.token"),
        secret("b"),
        configuration=SECRETS,
    )
    assert found.object["spec"]["volumes"] == [{"name": "a-token", "secret": {"secretName": "a.token"}}]
    assert found.object["spec"]["containers"][0]["volumeMounts"] == [{**MOUNT, "name": "a-token"}]


def test_old_releases_reuse_a_volume_of_that_secret() -> None:
    volumes = [{"name": "mine", "secret": {"secretName": "b"}}]
    found = create(pod(volumes=volumes), REFERRING, secret("b"), configuration=SECRETS)
    assert found.object["spec"]["volumes"] == volumes
    assert found.object["spec"]["containers"][0]["volumeMounts"] == [{**MOUNT, "name": "mine"}]


def test_old_releases_add_a_suffix_to_a_name_that_is_taken() -> None:
    reviewed = pod(volumes=[{"name": "b", "emptyDir": {}}])
    found = create_named(reviewed, REFERRING, secret("b"), bound_service_account_token_volume=False)
    assert found.object["spec"]["volumes"][1] == {"name": "b-abcde", "secret": {"secretName": "b"}}


@pytest.mark.parametrize(
    "others", [[], [secret("b", owner="cart")], [secret("b", type="Opaque")], [secret("c")]]
)
def test_old_releases_make_clients_wait_for_a_token(others: list[JSONObject]) -> None:
    status = create(pod(), REFERRING, *others, configuration=SECRETS).status
    assert status is not None
    assert (status.code, status.reason) == (500, "ServerTimeout")
    assert status.message == (
        'No API token found for service account "default", retry after the token is automatically created'
        " and added to the service account"
    )
    assert status.details is not None
    assert status.details.retry_after_seconds == 1


def test_old_releases_can_go_without_a_token() -> None:
    found = create(pod(), REFERRING, configuration={**SECRETS, "requireAPIToken": False})
    assert [operation["path"] for operation in found.operations] == [
        "/spec/serviceAccountName",
        "/spec/serviceAccount",
    ]


@pytest.mark.parametrize(("uid", "mounted"), [("1", True), ("2", False), (None, True)])
def test_the_secret_of_a_replaced_account_does_not_count(uid: JSON, *, mounted: bool) -> None:
    owner = account(secrets=[{"name": "b"}])
    owner["metadata"]["uid"] = uid
    assert create(pod(), owner, secret("b"), configuration=SECRETS).allowed is mounted


def test_unknown_settings_are_rejected() -> None:
    with pytest.raises(
        ConfigurationError, match=r'unknown field "requireApiToken"; known fields: .*requireAPIToken'
    ):
        create(pod(), configuration={"requireApiToken": True})


MOUNTS = st.lists(optional({"name": st.just("v")}, mountPath=st.sampled_from([MOUNT_PATH, "/v"])), max_size=2)
REFERENCES = st.lists(st.fixed_dictionaries({"name": st.sampled_from(["a", "b"])}), max_size=2)
SPECS = optional(
    {},
    serviceAccountName=st.sampled_from(["", "default"]),
    automountServiceAccountToken=st.none() | st.booleans(),
    imagePullSecrets=st.none() | REFERENCES,
)


@given(pods(), SPECS, MOUNTS, REFERENCES, st.booleans())
def test_a_second_pass_changes_nothing(
    reviewed: JSONObject,
    spec: JSONObject,
    mounts: list[JSON],
    references: list[JSON],
    bound: bool,  # noqa: FBT001 - hypothesis passes arguments by position
) -> None:
    own = reviewed.get("spec", {})
    containers = [{**container, "volumeMounts": mounts} for container in own.get("containers", ())]
    reviewed = {**reviewed, "spec": {**own, "containers": containers, **spec}}
    cluster = ObjectStore([account(secrets=references, imagePullSecrets=references), secret("a")])
    review = msgspec.structs.replace(pod_review(reviewed), cluster=cluster)
    configuration = {"boundServiceAccountTokenVolume": bound, "requireAPIToken": False}
    assert admitted_twice(CONTROLLER, review, configuration).allowed
