"""Services with other inputs than their front door decide nothing, and are reported."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from pratique.admission.controllers import Phase
from pratique.configuration.settings import ChainSettings
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique.hosting.services import host_chain
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique_frontdoor.settings import CallKind, FrontDoorSettings
from support.front_doors.remote import RemoteDoor, remote_door
from support.pods import container, pod
from support.services.servers import MUTATOR, VALIDATOR, Kind

REVIEWS = 8
"""Requests of each forbidden kind: enough for every replica to be called several times."""
ADMISSION = "admissionregistration.k8s.io/v1"
POLICY: dict[str, Any] = {
    "apiVersion": ADMISSION,
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "tests"},
    "spec": {
        "matchConstraints": {
            "resourceRules": [
                {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}
            ]
        },
        "validations": [{"expression": "object.metadata.name != 'forbidden'"}],
    },
}
BINDING = {
    "apiVersion": ADMISSION,
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "tests"},
    "spec": {"policyName": "tests", "validationActions": ["Deny"]},
}
RESTRICTED = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "default", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}},
}
ACCOUNT = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}
EXEMPTING = {
    "apiVersion": "apiserver.config.k8s.io/v1",
    "kind": "AdmissionConfiguration",
    "plugins": [
        {
            "name": "PodSecurity",
            "configuration": {
                "apiVersion": "pod-security.admission.config.k8s.io/v1",
                "kind": "PodSecurityConfiguration",
                "exemptions": {"namespaces": ["default"]},
            },
        }
    ],
}


def nginx_pod(name: str, *, privileged: bool = False) -> dict[str, Any]:
    nginx = container("main", "nginx", securityContext={"privileged": privileged})
    return pod(nginx, name=name, namespace="default")


FORBIDDEN = (nginx_pod("forbidden"), nginx_pod("privileged", privileged=True))


def write(folder: Path, name: str, *documents: Any) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(yaml.safe_dump_all(documents))
    return file


@pytest.fixture(name="chain")
def _chain(tmp_path: Path) -> ChainSettings:
    """The settings of all services of a stack."""
    return ChainSettings(
        config=(write(tmp_path, "config.yaml", POLICY, BINDING),),
        cluster=(write(tmp_path, "cluster.yaml", RESTRICTED, ACCOUNT),),
    )


DIFFERENCES: dict[str, tuple[str, Callable[[ChainSettings, Path], ChainSettings]]] = {
    "no --config": ("configuration", lambda chain, _: dataclasses.replace(chain, config=())),
    "a policy less": (
        "configuration",
        lambda chain, folder: dataclasses.replace(chain, config=(write(folder, "less.yaml", POLICY),)),
    ),
    "another policy": (
        "configuration",
        lambda chain, folder: dataclasses.replace(
            chain,
            config=(
                write(
                    folder,
                    "other.yaml",
                    POLICY | {"spec": POLICY["spec"] | {"validations": [{"expression": "true"}]}},
                    BINDING,
                ),
            ),
        ),
    ),
    "no --cluster": ("cluster", lambda chain, _: dataclasses.replace(chain, cluster=None)),
    "another cluster": (
        "cluster",
        lambda chain, folder: dataclasses.replace(
            chain,
            cluster=(write(folder, "other.yaml", {**RESTRICTED, "metadata": {"name": "default"}}, ACCOUNT),),
        ),
    ),
    "a controller less": (
        "chain",
        lambda chain, _: dataclasses.replace(
            chain, disable_admission_plugins=("PodSecurity", "ValidatingAdmissionPolicy")
        ),
    ),
    "a controller more": (
        "chain",
        lambda chain, _: dataclasses.replace(chain, enable_admission_plugins=("AlwaysPullImages",)),
    ),
    "another setting of a controller": (
        "chain",
        lambda chain, folder: dataclasses.replace(
            chain, admission_control_config_file=write(folder, "admission.yaml", EXEMPTING)
        ),
    ),
}
every_kind = pytest.mark.parametrize("calls", CallKind)
# Whether a difference is seen does not depend on how calls are made, so each is tested with one kind of calls.
differing = pytest.mark.parametrize(
    ("part", "differ", "calls"),
    [
        pytest.param(*difference, calls, id=f"{name}-{calls}")
        for (name, difference), calls in zip(DIFFERENCES.items(), itertools.cycle(CallKind), strict=False)
    ],
)


@contextlib.asynccontextmanager
async def service(kind: Kind, chain: ChainSettings, **settings: Any) -> AsyncIterator[str]:
    """A real mutator or validator with those settings."""
    host, phase = (MutatorHost, Phase.MUTATE) if kind is MUTATOR else (ValidatorHost, Phase.VALIDATE)
    made: Any = host_chain(chain, phase, host)
    async with made as hosted:
        server = RpcServer(kind.offered(hosted.held), ServerSettings(drain_seconds=0, **settings))
        try:
            yield await server.start()
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def door_settings(
    chain: ChainSettings, *validators: ChainSettings, mutator: ChainSettings
) -> AsyncIterator[FrontDoorSettings]:
    """The settings of a front door whose mutator and validators run."""
    async with contextlib.AsyncExitStack() as entered:
        at = await entered.enter_async_context(service(MUTATOR, mutator))
        addresses = [
            await entered.enter_async_context(service(VALIDATOR, validator)) for validator in validators
        ]
        yield FrontDoorSettings(mutator=at, validators=tuple(addresses), chain=chain)


@contextlib.asynccontextmanager
async def door_of(settings: FrontDoorSettings) -> AsyncIterator[RemoteDoor]:
    """A front door that has found all its services."""
    async with remote_door(settings) as door:
        async with asyncio.timeout(120):
            while len(replicas := await agreements(door)) < 1 + len(settings.validators):  # noqa: ASYNC110 - metrics are no event
                await asyncio.sleep(0.02)
        assert all(f"grpc://{address}" in replicas for address in settings.validators)
        yield door


@contextlib.asynccontextmanager
async def stack(
    chain: ChainSettings,
    *validators: ChainSettings,
    mutator: ChainSettings | None = None,
    calls: CallKind = CallKind.STREAM,
) -> AsyncIterator[tuple[RemoteDoor, list[str]]]:
    """A front door, its mutator and its validators; gives the addresses of these."""
    async with (
        door_settings(chain, *validators, mutator=mutator or chain) as settings,
        door_of(dataclasses.replace(settings, calls=calls)) as door,
    ):
        yield door, list(settings.validators)


async def shown(door: RemoteDoor, path: str) -> tuple[int, str]:
    async with door.session.get(f"{door.url}{path}") as answer:
        return answer.status, await answer.text()


async def agreements(door: RemoteDoor) -> dict[str, bool]:
    """Which replicas the front door shows, and whether they agree with it."""
    _, text = await shown(door, "/metrics")
    lines = [line for line in text.splitlines() if line.startswith("pratique_frontdoor_replica_agrees{")]
    return {line.split('endpoint="')[1].split('"')[0]: line.endswith(" 1.0") for line in lines}


async def let_through(door: RemoteDoor, path: str) -> int:
    """How many forbidden Pods got through, of many."""
    asked = [door.allows(path, object=item) for item in FORBIDDEN for _ in range(REVIEWS)]
    return sum(await asyncio.gather(*asked))


@every_kind
def test_services_that_agree_decide(chain: ChainSettings, calls: CallKind) -> None:
    async def run() -> tuple[bool, int, tuple[int, str], dict[str, bool]]:
        async with stack(chain, chain, chain, calls=calls) as (door, _):
            allowed = await door.allows("/admit", object=nginx_pod("fine"))
            ready = await shown(door, "/readyz?verbose")
            return allowed, await let_through(door, "/admit"), ready, await agreements(door)

    allowed, passed, (code, text), agreeing = asyncio.run(run())
    assert allowed
    assert passed == 0
    assert (code, "[+]inputs ok\n" in text) == (200, True)
    assert len(agreeing) == 3
    assert all(agreeing.values())


@differing
def test_a_validator_with_other_inputs_is_not_called_and_is_named(
    chain: ChainSettings, tmp_path: Path, part: str, differ: Any, calls: CallKind
) -> None:
    async def run() -> tuple[str, int, list[Any], tuple[int, str], dict[str, bool]]:
        odd = differ(chain, tmp_path / "odd")
        async with stack(chain, chain, odd, calls=calls) as (door, addresses):
            passed = await let_through(door, "/validate") + await let_through(door, "/admit")
            fine = [await door.post("/admit", object=nginx_pod("fine")) for _ in range(4)]
            ready = await shown(door, "/readyz?verbose")
            return addresses[1], passed, fine, ready, await agreements(door)

    odd, passed, fine, (code, text), agreeing = asyncio.run(run())
    assert passed == 0
    assert all(answer.get("response", {}).get("allowed") for _, answer in fine), fine
    assert code == 200
    [warning] = [line for line in text.splitlines() if line.startswith("[+]inputs ok, but:")]
    assert f"validator at grpc://{odd} decides by another {part} (" in warning
    assert [endpoint for endpoint, agrees in agreeing.items() if not agrees] == [f"grpc://{odd}"]


@differing
def test_nothing_is_decided_when_all_validators_have_other_inputs(
    chain: ChainSettings, tmp_path: Path, part: str, differ: Any, calls: CallKind
) -> None:
    async def run() -> tuple[int, bool, tuple[int, str], str]:
        odd = differ(chain, tmp_path / "odd")
        async with stack(chain, odd, calls=calls) as (door, _):
            passed = await let_through(door, "/validate")
            fine = await door.allows("/validate", object=nginx_pod("fine"))
            return passed, fine, await shown(door, "/readyz"), (await shown(door, "/metrics"))[1]

    passed, fine, (code, text), metrics = asyncio.run(run())
    assert passed == 0
    assert not fine
    assert (code, f"decides by another {part} (" in text) == (503, True), text
    [counted] = [line for line in metrics.splitlines() if line.startswith("pratique_inputs_mismatches_total")]
    assert float(counted.rpartition(" ")[2]) > 0


@differing
def test_nothing_is_decided_when_the_mutator_has_other_inputs(
    chain: ChainSettings, tmp_path: Path, part: str, differ: Any, calls: CallKind
) -> None:
    async def run() -> tuple[int, bool, tuple[int, str]]:
        odd = differ(chain, tmp_path / "odd")
        async with stack(chain, chain, mutator=odd, calls=calls) as (door, _):
            passed = await let_through(door, "/admit")
            return passed, await door.allows("/admit", object=nginx_pod("fine")), await shown(door, "/readyz")

    passed, fine, (code, text) = asyncio.run(run())
    assert passed == 0
    assert not fine
    assert (code, "mutator at grpc://" in text, f"another {part} (" in text) == (503, True, True), text


LAWFUL: dict[str, Callable[[ChainSettings, Path], ChainSettings]] = {
    "files elsewhere, in another form and order": lambda chain, folder: dataclasses.replace(
        chain,
        config=(write(folder, "b/2.json", BINDING), write(folder, "b/1.yaml", POLICY)),
        cluster=(
            write(folder, "c/all.yaml", {"apiVersion": "v1", "kind": "List", "items": [ACCOUNT, RESTRICTED]}),
        ),
    ),
    "another ledger": lambda chain, folder: dataclasses.replace(
        chain, plugin_flags={"ResourceQuota": {"resource-quota-ledger": str(folder / "quotas.sqlite")}}
    ),
    "one denial": lambda chain, _: dataclasses.replace(chain, first_denial_only=True),
    "another grace": lambda chain, _: dataclasses.replace(chain, reload_grace_seconds=1.0),
}


@pytest.mark.parametrize("differ", LAWFUL.values(), ids=LAWFUL)
def test_settings_that_may_differ_between_services_are_not_compared(
    chain: ChainSettings, tmp_path: Path, differ: Any
) -> None:
    async def run() -> tuple[int, list[bool], tuple[int, str]]:
        (tmp_path / "other").mkdir()
        other = differ(chain, tmp_path / "other")
        async with stack(chain, other) as (door, _):
            passed = await let_through(door, "/admit")
            allowed = [await door.allows("/admit", object=nginx_pod("fine"))]
            return passed, allowed, await shown(door, "/readyz?verbose")

    passed, allowed, (code, text) = asyncio.run(run())
    assert passed == 0
    assert allowed == [True]
    assert (code, "[+]inputs ok\n" in text) == (200, True), text


def rewrite(file: Path, *documents: Any) -> None:
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}))
    fresh.rename(file)


@pytest.mark.parametrize("changed", ["services", "front door"])
def test_a_change_in_one_service_only_becomes_an_outage_after_the_grace_period(
    chain: ChainSettings, tmp_path: Path, changed: str
) -> None:
    """Either side takes a change up that the other, whose file is another one, never sees."""
    chain = dataclasses.replace(chain, reload_grace_seconds=2.0)
    theirs = dataclasses.replace(chain, config=(write(tmp_path, "theirs.yaml", POLICY, BINDING),))
    [file] = theirs.config if changed == "services" else chain.config

    async def run() -> tuple[list[tuple[bool, bool]], tuple[int, str]]:
        async with stack(chain, theirs, mutator=theirs) as (door, _):
            loosened = POLICY | {"spec": POLICY["spec"] | {"validations": [{"expression": "true"}]}}
            rewrite(file, loosened, BINDING)
            seen: list[tuple[bool, bool]] = []
            async with asyncio.timeout(120):
                while not seen or seen[-1][0]:
                    code, text = await shown(door, "/readyz?verbose")
                    warning = (
                        code == 200 and "[+]inputs ok, but: " in text and "another configuration" in text
                    )
                    seen.append((await door.allows("/admit", object=nginx_pod("fine")), warning))
                    assert not await door.allows("/admit", object=nginx_pod("forbidden"))
                    await asyncio.sleep(0.05)
            return seen, await shown(door, "/readyz")

    seen, (code, text) = asyncio.run(run())
    assert seen[0][0]
    assert all(allowed for allowed, _ in seen[:-1])
    assert (code, "decides by another configuration (" in text) == (503, True), text
    if changed == "front door":
        assert (True, True) in seen


MARKING = """
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {{name: mark}}
spec:
  matchConstraints:
    resourceRules: [{{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [pods]}}]
  reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch: {{expression: '[JSONPatch{{op: "add", path: "/metadata/labels", value: {{"mark": "m{number}"}}}}]'}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {{name: mark}}
spec: {{policyName: mark}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: marked}}
spec:
  matchConstraints:
    resourceRules: [{{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [pods]}}]
  validations:
  - expression: object.metadata.labels['mark'] == 'm{number}' && namespaceObject.metadata.labels['mark'] == 'c{cluster}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: marked}}
spec: {{policyName: marked, validationActions: [Deny]}}
"""
"""Allows only what the policy of the same file has marked."""


def test_a_staggered_rollout_of_files_loses_no_review_and_mixes_no_inputs(tmp_path: Path) -> None:
    """Each process has files of its own, and their changes come to each at another time, in another order.

    There is a front door for each kind of calls; all of them have the same files.
    """
    rounds = 3
    seen: dict[CallKind, set[str]] = {calls: set() for calls in CallKind}
    settings: dict[str, ChainSettings] = {}
    controllers = ("NamespaceLifecycle", "MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")

    def text(number: int) -> str:
        return MARKING.format(number=number, cluster=0)

    for name in ("door", "mutator", "one", "two"):
        folder = tmp_path / name
        cluster = write(
            folder, "cluster.yaml", {**RESTRICTED, "metadata": {"name": "default", "labels": {"mark": "c0"}}}
        )
        (folder / "config.yaml").write_text(text(0))
        settings[name] = ChainSettings(
            config=(folder / "config.yaml",), cluster=(cluster,), admission_control=controllers
        )

    async def change() -> None:
        names = list(settings)
        for number in range(rounds + 1):
            for place in range(len(names) if number else 0):
                name = names[(place + number) % len(names)]
                fresh = tmp_path / name / "config.new"
                fresh.write_text(text(number))
                fresh.rename(tmp_path / name / "config.yaml")
                await asyncio.sleep(0.4)  # longer than files have to rest before they are read
            while not all(f"m{number}" in marks for marks in seen.values()):  # noqa: ASYNC110 - decisions are no event
                await asyncio.sleep(0.02)

    async def ask(settings: FrontDoorSettings, changing: asyncio.Future[None]) -> None:
        async with door_of(settings) as door:
            while not changing.done():
                code, body = await door.post("/explain", object=nginx_pod("fine"))
                assert (code, body["allowed"]) == (200, True), body
                seen[settings.calls].add(body["object"]["metadata"]["labels"]["mark"])
                await asyncio.sleep(0.02)

    async def run() -> None:
        one, two, mutator = settings["one"], settings["two"], settings["mutator"]
        async with door_settings(settings["door"], one, two, mutator=mutator) as asked:
            changing = asyncio.ensure_future(change())
            doors = [dataclasses.replace(asked, calls=calls) for calls in CallKind]
            await asyncio.gather(changing, *(ask(door, changing) for door in doors))

    asyncio.run(asyncio.wait_for(run(), 120))
    assert seen == {calls: {f"m{number}" for number in range(rounds + 1)} for calls in CallKind}


@every_kind
def test_a_step_names_the_replica_that_decided(chain: ChainSettings, calls: CallKind) -> None:
    large = nginx_pod("fine")
    large["metadata"]["annotations"] = {"large": "x" * 100_000}

    async def run() -> tuple[list[str], set[str], set[str]]:
        async with stack(chain, chain, chain, calls=calls) as (door, addresses):
            asked: set[str] = set()
            for item in (nginx_pod("fine"), large) * 6:
                _, body = await door.post("/explain?phase=validate", object=item)
                asked |= {step["endpoint"] for step in body["steps"] if step["outcome"] != "skipped"}
            _, body = await door.post("/explain?phase=mutate", object=nginx_pod("fine"))
            mutated = {step["endpoint"] for step in body["steps"] if step["outcome"] != "skipped"}
            return addresses, asked, mutated

    addresses, asked, mutated = asyncio.run(run())
    assert asked == {f"grpc://{address}" for address in addresses}
    assert len(mutated) == 1
    assert "," not in mutated.pop()
