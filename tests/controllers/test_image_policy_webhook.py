"""ImagePolicyWebhook, and backends over real HTTPS with certificates on both sides."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import msgspec
import pytest

from pratique.admission.controllers import Handlers, Phase
from pratique.admission.results import Allowed, Denied, Outcome, OutcomeDecision, Patched
from pratique.admission.reviews import Call, Deadline, Review
from pratique.admission.rules import compile_rules
from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patches import apply_patch
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.controllers.image_policy_webhook import CONTROLLER, Settings
from pratique.controllers.image_policy_webhook.image_reviews import ImageReviewer
from pratique.hosting.catalogue import HostedController, configure_controller
from pratique.hosting.running import ValidatorHost
from pratique.https.backends import open_backend
from pratique_frontdoor.engines.engine import open_local
from support import vector_cases
from support.admissions import Admission, pod_review, review_of
from support.expectations import check
from support.image_review_servers import (
    clients,
    dripping,
    good_only,
    images_of,
    judging,
    kubeconfig,
    review,
    verdict,
    written,
)
from support.pods import container, pod
from support.webhook_servers import (
    Behaviour,
    WebhookServer,
    answered,
    closed_port,
    hanging,
    hanging_body,
    in_turn,
    raw,
    redirected,
    reset,
    respond,
    serve,
)

NAME = "ImagePolicyWebhook"
FAILED_OPEN = {"imagepolicywebhook.image-policy.k8s.io/failed-open": "true"}
NOTE = {"alpha.image-policy.k8s.io/failed-open": "true"}
NOTED = Patched(({"op": "add", "path": "/metadata/annotations", "value": NOTE},))
"""The result for a Pod without annotations whose backend did not answer."""
BACKOFF = 0.5
"""The default wait in seconds before the first retry."""


class Clock:
    """A clock that moves on command, and the waits of those who sleep by it."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def read(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)


@dataclasses.dataclass
class Asked:
    """A controller that asks a server, hosted as a validator hosts it."""

    server: WebhookServer
    host: ValidatorHost
    clock: Clock

    async def outcome(self, review: Review, seconds: float | None = 20) -> Outcome:
        (outcome,) = await self.host.validate(review, [Call(NAME, seconds)])
        return outcome

    async def admission(self, request: JSONObject) -> Admission:
        review = review_of(request)
        if not compile_rules(CONTROLLER.rules).matches(review):
            return Admission(None, review.object)
        decision = (await self.outcome(review)).decision
        assert isinstance(decision, Allowed | Denied | Patched), decision
        operations = decision.operations if isinstance(decision, Patched) else ()
        status = decision.status if isinstance(decision, Denied) else None
        return Admission(status, apply_patch(review.object, operations), operations)


@contextlib.asynccontextmanager
async def asking(server: WebhookServer, folder: Path, path: str = "", **policy: JSON) -> AsyncIterator[Asked]:
    """A controller that is configured to ask a server."""
    file = written(folder, kubeconfig(server.url + path))
    settings = decode_strictly({"imagePolicy": {**policy, "kubeConfigFile": file}}, Settings)
    assert settings.image_policy is not None
    backend, clock = open_backend(Path(file)), Clock()
    reviewer = ImageReviewer(backend, settings.image_policy.limits(), clock=clock.read, sleep=clock.sleep)
    hosted = HostedController(CONTROLLER, settings, Handlers(validate=reviewer.validate, close=backend.close))
    try:
        yield Asked(server, ValidatorHost([hosted], ANY_NAMESPACE), clock)
    finally:
        await backend.close()
        await asyncio.sleep(0)


@pytest.fixture
def outcome_of(tmp_path: Path) -> Callable[..., Outcome]:
    """Review a Pod with a backend that behaves in the given way."""

    def ask(behaviour: Behaviour, reviewed: Review | None = None, **policy: JSON) -> Outcome:
        async def run(server: WebhookServer) -> Outcome:
            async with asking(server, tmp_path, **policy) as asked:
                return await asked.outcome(reviewed or pod_review(pod_with_images("good")))

        with serve(behaviour, clients=clients()) as server:
            return asyncio.run(run(server))

    return ask


def pod_with_images(*images: str, **metadata: JSON) -> JSONObject:
    return pod(*(container(f"c{index}", image) for index, image in enumerate(images)), metadata=metadata)


def message(outcome: Outcome) -> str:
    assert isinstance(outcome.decision, Denied)
    return outcome.decision.status.message


# Kubernetes' own cases.

CASES = vector_cases.plugin(NAME)
LOADING = [case for case in CASES if case.get("steps", [{}])[0].get("loadConfig")]
REVIEWING = [case for case in CASES if case not in LOADING]


def behaviour_of(backend: JSONObject) -> Behaviour:
    if "answers" not in backend:
        return good_only()
    return in_turn(*(answer_of(answer) for answer in backend["answers"]))


def answer_of(answer: JSONObject) -> Behaviour:
    if answer["httpStatus"] != 200:
        return respond(answer["httpStatus"], b"HTTP Error\n")
    document = answer.get("response") or review(allowed=answer.get("allowed"))
    return answered(lambda _: document)


@pytest.mark.parametrize("case", [case for case in REVIEWING if "request" in case], ids=vector_cases.source)
def test_it_decides_as_kubernetes_does(case: JSONObject, tmp_path: Path) -> None:
    async def run(server: WebhookServer) -> None:
        async with asking(server, tmp_path, **case["config"]["imagePolicy"]) as asked:
            expected = dict(case["expected"])
            check(await asked.admission(case["request"]), expected)
            if "auditAnnotations" in expected:
                annotations = (await asked.outcome(review_of(case["request"]))).audit_annotations
                assert annotations == expected["auditAnnotations"]

    with serve(behaviour_of(case["external"]["imageReviewBackend"]), clients=clients()) as server:
        asyncio.run(run(server))


@pytest.mark.parametrize("case", [case for case in REVIEWING if "steps" in case], ids=vector_cases.source)
def test_it_caches_as_kubernetes_does(case: JSONObject, tmp_path: Path) -> None:
    current: list[JSONObject] = []

    async def behave(received: JSON, writer: JSON) -> None:
        await answer_of(current[-1])(received, writer)

    async def run(server: WebhookServer) -> None:
        async with asking(server, tmp_path, **case["config"]["imagePolicy"]) as asked:
            for step in case["steps"]:
                asked.clock.now += step.get("advanceSeconds", 0)
                current.append(step["backend"])
                before = len(server.received)
                check(await asked.admission(step["request"]), step["expected"])
                assert (len(server.received) > before) is step["backendCalled"]

    with serve(behave, clients=clients()) as server:
        asyncio.run(run(server))


@pytest.mark.parametrize("case", LOADING, ids=vector_cases.source)
def test_invalid_configurations_are_rejected_as_in_kubernetes(case: JSONObject) -> None:
    with pytest.raises(ConfigurationError) as raised:
        configure_controller(CONTROLLER, case["config"])
    assert case["steps"][0]["expected"]["configError"] in str(raised.value)


# What is sent.


def spec_sent(folder: Path, reviewed: Review) -> JSON:
    async def run(server: WebhookServer) -> None:
        async with asking(server, folder) as asked:
            assert isinstance((await asked.outcome(reviewed)).decision, Allowed)

    with serve(verdict(allowed=True), clients=clients()) as server:
        asyncio.run(run(server))
    return server.received[0].review["spec"]


def test_images_of_containers_come_before_those_of_init_containers(tmp_path: Path) -> None:
    reviewed = pod_with_images("b", "a")
    reviewed["spec"]["initContainers"] = [{"image": "i"}, {"name": "none"}]
    reviewed["spec"]["ephemeralContainers"] = [{"image": "e"}]
    spec = spec_sent(tmp_path, pod_review(reviewed))
    assert spec == {
        "containers": [{"image": "b"}, {"image": "a"}, {"image": "i"}, {}],
        "namespace": "shop",
    }


def test_for_ephemeral_containers_only_their_own_images_are_sent(tmp_path: Path) -> None:
    reviewed = pod_with_images("a")
    reviewed["spec"]["ephemeralContainers"] = [{"image": "e"}]
    update = pod_review(reviewed, operation="UPDATE", subresource="ephemeralcontainers")
    assert spec_sent(tmp_path, update)["containers"] == [{"image": "e"}]


def test_annotations_are_sent_if_their_key_contains_the_domain(tmp_path: Path) -> None:
    annotations = {
        "b.image-policy.k8s.io/x": "2",
        "a.image-policy.k8s.io/ticket": "1",
        "image-policy.k8s.io/x": "no",
        "team": "no",
        "x/a.image-policy.k8s.io/y": "3",
    }
    spec = spec_sent(tmp_path, pod_review(pod_with_images("a", annotations=annotations)))
    assert list(spec["annotations"].items()) == [
        ("a.image-policy.k8s.io/ticket", "1"),
        ("b.image-policy.k8s.io/x", "2"),
        ("x/a.image-policy.k8s.io/y", "3"),
    ]


def test_the_request_equals_that_of_kubernetes_client(tmp_path: Path) -> None:
    async def run(server: WebhookServer) -> None:
        async with asking(server, tmp_path, "//a/../policy/?x=y") as asked:
            await asked.outcome(pod_review(pod_with_images("<a>")))

    with serve({"/policy": verdict(allowed=True)}, clients=clients()) as server:
        asyncio.run(run(server))
    (received,) = server.received
    assert (received.method, received.target) == ("POST", "/policy?timeout=30s")
    assert received.body == (
        b'{"kind":"ImageReview","apiVersion":"imagepolicy.k8s.io/v1alpha1","metadata":{},'
        b'"spec":{"containers":[{"image":"\\u003ca\\u003e"}],"namespace":"shop"},'
        b'"status":{"allowed":false}}\n'
    )
    assert received.headers["content-type"] == "application/json"
    assert received.headers["accept"] == "application/json, */*"
    assert received.certificate is not None


# How answers are used.


@pytest.mark.parametrize(
    ("status", "text"),
    [
        ({}, "one or more images rejected by webhook backend"),
        ({"reason": ""}, "one or more images rejected by webhook backend"),
        ({"reason": "no"}, "image policy webhook backend denied one or more images: no"),
        ({"allowed": None, "reason": "n"}, "image policy webhook backend denied one or more images: n"),
    ],
    ids=str,
)
def test_a_denial_contains_the_reason(
    outcome_of: Callable[..., Outcome], status: JSONObject, text: str
) -> None:
    decision = outcome_of(verdict(**status)).decision
    assert isinstance(decision, Denied)
    assert (decision.status.code, decision.status.reason) == (403, "Forbidden")
    assert decision.status.message == f'pods "web" is forbidden: {text}'


@pytest.mark.parametrize("allowed", [True, False])
def test_audit_annotations_with_a_valid_key_are_kept(
    *, outcome_of: Callable[..., Outcome], allowed: bool
) -> None:
    annotations = {"by": "scanner", "empty": None, "": "no", "a b": "no", "a/b": "no"}
    outcome = outcome_of(verdict(allowed=allowed, auditAnnotations=annotations))
    assert outcome.audit_annotations == {
        "imagepolicywebhook.image-policy.k8s.io/by": "scanner",
        "imagepolicywebhook.image-policy.k8s.io/empty": "",
    }


@pytest.mark.parametrize("reviewed", [None, "x", [], {"kind": "ConfigMap"}], ids=str)
def test_an_object_other_than_a_pod_is_a_bad_request(
    outcome_of: Callable[..., Outcome], reviewed: JSON
) -> None:
    decision = outcome_of(verdict(allowed=True), pod_review(reviewed)).decision
    assert isinstance(decision, Denied)
    assert decision.status.code == 400
    assert decision.status.message == "Resource was marked with kind Pod but was unable to be converted"


UNUSABLE: Mapping[str, tuple[Behaviour, str]] = {
    "html": (
        respond(200, b"<html>", content_type="text/html"),
        "couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type",
    ),
    "half": (respond(200, b'{"status":'), "json parse error: unexpected end of JSON input"),
    "list": (respond(200, b"[]"), "json: cannot unmarshal array into Go value"),
    "empty": (respond(200, b""), "0-length response with status code: 200 and content type: text/plain"),
    "kind": (
        answered(lambda _: {"apiVersion": "v1", "kind": "Pod", "status": {"allowed": True}}),
        'no kind "Pod" is registered for version "v1"',
    ),
    "version": (
        answered(lambda _: {**review(allowed=True), "apiVersion": "imagepolicy.k8s.io/v2"}),
        'no kind "ImageReview" is registered for version "imagepolicy.k8s.io/v2"',
    ),
    "status": (
        answered(lambda _: {"apiVersion": "v1", "kind": "Status", "status": {"allowed": True}}),
        "converting (v1.Status) to (v1alpha1.ImageReview): unknown conversion",
    ),
    "text": (
        verdict(allowed="true"),
        "json: cannot unmarshal string into Go struct field ImageReviewStatus.status.allowed of type bool",
    ),
    "number": (
        verdict(allowed=True, auditAnnotations={"k": 1}),
        "cannot unmarshal number into Go struct field ImageReviewStatus.status.auditAnnotations of type string",
    ),
    "unauthorized": (respond(401), "the server has asked for the client to provide credentials"),
    "nothing there": (respond(404), "the server could not find the requested resource"),
    "unavailable": (respond(503), "the server is currently unable to handle the request"),
    "hung up": (raw(), "EOF"),
    "broken off": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), "unexpected EOF"),
    "no http": (raw(b"hello\r\n\r\n"), "malformed HTTP response"),
    "to itself": (redirected("/"), "stopped after 10 redirects"),
    "to http": (redirected("http://localhost/"), 'unsupported protocol scheme "http"'),
    "without end": (
        dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", b" " * 65536, 0),
        "response body is larger than 16777216 bytes",
    ),
    "headers without end": (
        dripping(b"HTTP/1.1 200 OK\r\n", b"A: b\r\n" * 1000, 0),
        "malformed HTTP response",
    ),
    "a header without end": (
        dripping(b"HTTP/1.1 200 OK\r\nA: ", b"a" * 65536, 0),
        "malformed HTTP response",
    ),
}
unusable = pytest.mark.parametrize(("behaviour", "text"), UNUSABLE.values(), ids=UNUSABLE)


@unusable
def test_without_a_usable_answer_the_pod_is_denied_after_one_attempt(
    behaviour: Behaviour, text: str, tmp_path: Path
) -> None:
    async def run(server: WebhookServer) -> str:
        async with asking(server, tmp_path) as asked:
            found = message(await asked.outcome(pod_review(pod_with_images("good"))))
            assert asked.clock.waits == []
            return found

    with serve(behaviour, clients=clients()) as server:
        found = asyncio.run(run(server))
    assert found.startswith('pods "web" is forbidden: ')
    assert text in found


@unusable
def test_with_default_allow_the_pod_is_admitted_and_annotated(
    outcome_of: Callable[..., Outcome], behaviour: Behaviour, text: str
) -> None:
    outcome = outcome_of(behaviour, defaultAllow=True)
    assert outcome.decision == NOTED, text
    assert outcome.audit_annotations == FAILED_OPEN


def test_a_forbidden_status_of_the_backend_is_passed_on(outcome_of: Callable[..., Outcome]) -> None:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}
    respond_forbidden = respond(403, json.dumps({**status, "message": "who are you?"}).encode())
    assert message(outcome_of(respond(403, b"go away\n"))) == "go away"
    assert message(outcome_of(respond_forbidden)) == "who are you?"


def test_an_unreachable_backend_is_reported_with_its_address(tmp_path: Path) -> None:
    with closed_port() as port:
        file = written(tmp_path, kubeconfig(f"https://127.0.0.1:{port}"))

        async def run() -> Outcome:
            hosted = configure_controller(CONTROLLER, {"imagePolicy": {"kubeConfigFile": file}})
            try:
                host = ValidatorHost([hosted], ANY_NAMESPACE)
                return (await host.validate(pod_review(pod_with_images("good")), [Call(NAME, 20)]))[0]
            finally:
                await hosted.handlers.close()

        assert message(asyncio.run(run())) == (
            f'pods "web" is forbidden: Post "https://127.0.0.1:{port}/?timeout=30s": '
            f"dial tcp 127.0.0.1:{port}: connect: connection refused"
        )


SLOW: Mapping[str, Behaviour] = {
    "/hangs": hanging(),
    "/hangs-in-its-body": hanging_body(),
    "/drips-headers": dripping(b"HTTP/1.1 200 OK\r\nA: ", b"a", 0.05),
    "/drips": dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n", b" ", 0.05),
    "/drips-chunks": dripping(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", 0.05),
    "/leads-on": redirected("/hangs"),
    "/comes-back-later": respond(503, headers={"Retry-After": "3600"}),
}
"""Backends that would take longer than anybody waits."""


@pytest.mark.parametrize("default_allow", [True, False])
def test_a_slow_backend_cannot_exceed_the_time_of_a_review(*, default_allow: bool, tmp_path: Path) -> None:
    async def decision(server: WebhookServer, path: str) -> OutcomeDecision:
        async with asking(server, tmp_path / path[1:], path, defaultAllow=default_allow) as asked:
            return (await asked.outcome(pod_review(pod_with_images("good")), 2)).decision

    async def run(server: WebhookServer) -> list[OutcomeDecision]:
        return await asyncio.gather(*(decision(server, path) for path in SLOW))

    for path in SLOW:
        (tmp_path / path[1:]).mkdir()
    with serve(SLOW, clients=clients()) as server:
        found = dict(zip(SLOW, asyncio.run(run(server)), strict=True))
    # A controller that its host cancels has failed, whatever the configuration says.
    assert {type(decision) for decision in found.values()} == {Patched if default_allow else Denied}, found
    if not default_allow:
        texts = {
            path: decision.status.message for path, decision in found.items() if isinstance(decision, Denied)
        }
        assert all("context deadline exceeded" in text for text in texts.values()), texts


# Retries.


@pytest.mark.parametrize(
    ("behaviour", "times"),
    [
        (respond(500), 5),
        (respond(502), 5),
        (respond(504), 5),
        (respond(429), 5),
        (respond(503), 1),
        (respond(400), 1),
        (respond(503, headers={"Retry-After": "0"}), 1 + 10),
        (respond(500, headers={"Retry-After": "0"}), 5 * (1 + 10)),
        (respond(404, b'{"kind":"Status","status":"Failure","reason":"InternalError","code":404}'), 5),
        (respond(418, b'{"kind":"Status","status":"Failure","details":{"retryAfterSeconds":1}}'), 5),
        (respond(200, b"{}", content_type="/"), 5),
        (reset(), 5),
        (raw(), 1),
    ],
)
def test_some_failures_are_retried(behaviour: Behaviour, times: int, tmp_path: Path) -> None:
    async def run(server: WebhookServer) -> None:
        async with asking(server, tmp_path) as asked:
            assert isinstance((await asked.outcome(pod_review(pod_with_images("good")))).decision, Denied)
            for attempt, wait in enumerate(asked.clock.waits):
                base = BACKOFF * 1.5**attempt
                assert base <= wait <= base * 1.2

    with serve(behaviour, clients=clients()) as server:
        asyncio.run(run(server))
    assert len(server.received) == times


def test_a_successful_attempt_ends_the_retries(outcome_of: Callable[..., Outcome]) -> None:
    behaviour = in_turn(respond(500), reset(), respond(429), respond(502), verdict(allowed=True))
    assert isinstance(outcome_of(behaviour).decision, Allowed)


@pytest.mark.parametrize(("milliseconds", "first"), [(-1, 0), (0, 0.5), (20, 0.02)])
def test_the_first_wait_is_the_configured_backoff(milliseconds: int, first: float, tmp_path: Path) -> None:
    async def run(server: WebhookServer) -> list[float]:
        async with asking(server, tmp_path, retryBackoff=milliseconds) as asked:
            await asked.outcome(pod_review(pod_with_images("good")))
            return asked.clock.waits

    with serve(respond(500), clients=clients()) as server:
        waits = asyncio.run(run(server))
    assert len(waits) == 4
    assert first <= waits[0] <= first * 1.2


def test_no_retry_starts_that_would_end_after_the_deadline(tmp_path: Path) -> None:
    async def run(server: WebhookServer) -> None:
        async with asking(server, tmp_path, retryBackoff=60_000) as asked:
            assert isinstance((await asked.outcome(pod_review(pod_with_images("good")))).decision, Denied)
            assert asked.clock.waits == []

    with serve(respond(500), clients=clients()) as server:
        asyncio.run(run(server))
    assert len(server.received) == 1


# Caching.


def times_asked(folder: Path, seconds: float, policy: JSONObject, *, image: str = "good") -> int:
    """How often the backend is asked about the same image at intervals of this many seconds."""

    async def run(server: WebhookServer) -> None:
        async with asking(server, folder, **policy) as asked:
            first = await asked.outcome(pod_review(pod_with_images(image)))
            asked.clock.now += seconds
            second = await asked.outcome(pod_review(pod_with_images(image)))
            assert first.decision == second.decision
            assert first.audit_annotations == second.audit_annotations

    answer = judging(lambda images: {"allowed": images == ["good"], "auditAnnotations": {"k": "v"}})
    with serve(answer, clients=clients()) as server:
        asyncio.run(run(server))
    return len(server.received)


@pytest.mark.parametrize(
    ("image", "policy", "last"),
    [
        ("good", {}, 300),
        ("bad", {}, 30),
        ("good", {"allowTTL": 50, "denyTTL": 2}, 50),
        ("bad", {"allowTTL": 50, "denyTTL": 2}, 2),
        ("good", {"allowTTL": 1800}, 1800),
    ],
)
def test_a_cached_review_expires_after_its_ttl(
    image: str, policy: JSONObject, last: float, tmp_path: Path
) -> None:
    assert times_asked(tmp_path, last, policy, image=image) == 1
    assert times_asked(tmp_path, last + 0.001, policy, image=image) == 2


@pytest.mark.parametrize(("image", "policy"), [("good", {"allowTTL": -1}), ("bad", {"denyTTL": -1})])
def test_without_a_ttl_the_backend_is_asked_every_time(
    image: str, policy: JSONObject, tmp_path: Path
) -> None:
    assert times_asked(tmp_path, 0, policy, image=image) == 2


def images_asked(folder: Path, *reviews: Review, answer: Behaviour | None = None) -> list[list[str]]:
    async def run(server: WebhookServer) -> None:
        async with asking(server, folder) as asked:
            for review in reviews:
                await asked.outcome(review)

    with serve(answer or verdict(allowed=True), clients=clients()) as server:
        asyncio.run(run(server))
    assert server.connections == 1
    return [images_of(received) for received in server.received]


def test_the_cache_key_is_images_namespace_and_visible_annotations(tmp_path: Path) -> None:
    shown = {"x.image-policy.k8s.io/a": "1"}
    reviews = [
        pod_review(pod_with_images("a")),
        pod_review(pod_with_images("a", labels={"x": "y"}, annotations={"team": "a"}), name="other"),
        pod_review(pod_with_images("a"), operation="UPDATE", old=pod_with_images("b")),
        pod_review(pod_with_images("a", annotations=shown)),
        pod_review(pod_with_images("a", annotations=shown)),
        msgspec.structs.replace(pod_review(pod_with_images("a")), namespace="other"),
        pod_review(pod_with_images("b")),
    ]
    assert images_asked(tmp_path, *reviews) == [["a"], ["a"], ["a"], ["b"]]


def test_an_oversized_review_is_not_cached(tmp_path: Path) -> None:
    reviews = [pod_review(pod_with_images("a")), pod_review(pod_with_images("a"))]
    large = verdict(allowed=False, reason="x" * 20_000)
    assert images_asked(tmp_path, *reviews, answer=large) == [["a"], ["a"]]


def test_a_full_cache_evicts_the_least_recently_used_review(tmp_path: Path) -> None:
    everything = [pod_review(pod_with_images(f"i{number}")) for number in range(1024)]
    again, new = everything[0], pod_review(pod_with_images("new"))
    asked = images_asked(tmp_path, *everything, again, new, again, everything[1])
    assert asked[1024:] == [["new"], ["i1"]]


def test_reviews_are_sent_concurrently(tmp_path: Path) -> None:
    async def run(server: WebhookServer) -> list[Outcome]:
        async with asking(server, tmp_path) as asked:
            return await asyncio.gather(
                *(asked.outcome(pod_review(pod_with_images(f"i{n}"))) for n in range(20))
            )

    together: list[object] = []
    every = asyncio.Event()

    async def behave(received: JSON, writer: JSON) -> None:
        together.append(received)
        if len(together) == 20:
            every.set()
        await every.wait()
        await verdict(allowed=True)(received, writer)

    with serve(behave, clients=clients()) as server:
        outcomes = asyncio.run(run(server))
    assert all(isinstance(outcome.decision, Allowed) for outcome in outcomes)


# Configuration.


@pytest.fixture
def usable_file(tmp_path: Path) -> str:
    return written(tmp_path, kubeconfig("https://images.example.com/policy"))


def refusal(configuration: JSON) -> str:
    with pytest.raises(ConfigurationError) as raised:
        configure_controller(CONTROLLER, configuration)
    prefix = 'couldn\'t init admission plugin "ImagePolicyWebhook": '
    assert str(raised.value).startswith(prefix)
    return str(raised.value).removeprefix(prefix)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("allowTTL", 1, "valid value is between 1s and 30m0s, got 1s"),
        ("allowTTL", 1801, "valid value is between 1s and 30m0s, got 30m1s"),
        ("denyTTL", 1, "valid value is between 1s and 30m0s, got 1s"),
        ("denyTTL", -2, "valid value is between 1s and 30m0s, got -2s"),
        ("retryBackoff", 300_001, "valid value is between 1ns and 5m0s, got 5m0.001s"),
        ("retryBackoff", -2, "valid value is between 1ns and 5m0s, got -2ms"),
    ],
)
def test_a_number_out_of_bounds_is_rejected(field: str, value: int, text: str, usable_file: str) -> None:
    policy = {"kubeConfigFile": usable_file, field: value}
    assert refusal({"imagePolicy": policy}) == f"imagePolicy.{field}: {text}"


@pytest.mark.parametrize(
    ("field", "value"),
    [("allowTTL", 2), ("allowTTL", 1800), ("denyTTL", 0), ("denyTTL", -1), ("retryBackoff", 300_000)],
)
def test_a_number_within_bounds_is_accepted(field: str, value: int, usable_file: str) -> None:
    policy = {"kubeConfigFile": usable_file, field: value}
    assert configure_controller(CONTROLLER, {"imagePolicy": policy}).handlers.validate is not None


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        (None, "no config specified: imagePolicy is missing"),
        ({"imagePolicy": {}}, "imagePolicy.kubeConfigFile: Required value"),
        ({"imagePolicy": {"allowTtl": 1}}, 'unknown field "imagePolicy.allowTtl"'),
        ({"defaultAllow": True}, 'unknown field "defaultAllow"'),
        ({"imagePolicy": {"kubeConfigFile": "no/such/file"}}, "no/such/file"),
    ],
)
def test_a_configuration_without_a_backend_is_rejected(configuration: JSON, text: str) -> None:
    assert text in refusal(configuration)


@pytest.mark.parametrize(
    "around",
    [
        {},
        {"apiVersion": "imagepolicy.admission.k8s.io/v1alpha1", "kind": "ImagePolicyWebhookConfiguration"},
        {"podNodeSelectorPluginConfig": {"shop": "a=b"}},
    ],
    ids=str,
)
def test_the_configuration_may_have_a_version_and_another_controllers_settings(
    around: JSONObject, usable_file: str
) -> None:
    document = {**around, "imagePolicy": {"kubeConfigFile": usable_file}}
    assert configure_controller(CONTROLLER, document).handlers.validate is not None


def through_the_engine(file: Path, image: str) -> JSON:
    """The denial of a whole chain with this controller; None if it admits the Pod."""

    async def run() -> JSON:
        settings = ChainSettings(admission_control=(NAME,), admission_control_config_file=file)
        engine = open_local(settings, ObjectStore([]))
        try:
            decision = await engine.decide(
                pod_review(pod_with_images(image)), frozenset({Phase.VALIDATE}), Deadline.after(20)
            )
        finally:
            await engine.close()
        return decision.status and decision.status.message

    return asyncio.run(run())


@pytest.mark.parametrize("shape", ["inline", "file", "legacy"])
def test_all_three_shapes_of_the_configuration_are_accepted(shape: str, tmp_path: Path) -> None:
    def admission_configuration(plugin: JSONObject) -> JSONObject:
        head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
        return {**head, "plugins": [{"name": NAME, **plugin}]}

    with serve(good_only(), clients=clients()) as server:
        own = {"imagePolicy": {"kubeConfigFile": written(tmp_path, kubeconfig(server.url))}}
        (tmp_path / "own.json").write_text(json.dumps(own))
        documents = {
            "inline": admission_configuration({"configuration": own}),
            "file": admission_configuration({"path": "own.json"}),
            "legacy": own,
        }
        file = tmp_path / "admission.json"
        file.write_text(json.dumps(documents[shape]))
        assert through_the_engine(file, "good") is None
        assert "not allowed" in through_the_engine(file, "bad")


def test_no_log_record_contains_the_question_or_the_answer(
    outcome_of: Callable[..., Outcome], caplog: pytest.LogCaptureFixture
) -> None:
    outcome_of(respond(404, b"hunter2"), pod_review(pod_with_images("registry/hunter2")), defaultAllow=True)
    outcome_of(verdict(allowed=False, reason="hunter2"), pod_review(pod_with_images("registry/hunter2")))
    (record,) = [record for record in caplog.records if record.name.startswith("pratique.controllers")]
    assert "hunter2" not in json.dumps(record.__dict__, default=str)


def test_slow_imports_wait_until_the_controller_is_configured() -> None:
    code = (
        "import sys, pratique.controllers.image_policy_webhook; "
        "sys.exit(any(name in sys.modules for name in ('aiohttp', 'ssl', 'tenacity')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
