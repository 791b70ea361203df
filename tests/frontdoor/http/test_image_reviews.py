"""The image verifier as a process over mutual TLS, alone and as the backend of ImagePolicyWebhook."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pratique.images.verification import ImageVerdict
from pratique_cli.main import main
from pratique_frontdoor.http.image_reviews import ImageVerifierSettings, ReviewEndpoint, VerifierMetrics
from pratique_frontdoor.settings import FrontDoorSettings
from support import local_stacks
from support.image_registries import ImageRegistry, registry, signer
from support.image_verifiers import RunningVerifier, image_review, image_verifier
from support.pods import container, pod
from support.waiting import within
from support.webhook_servers import respond


@pytest.fixture(scope="module")
def registered() -> Iterator[ImageRegistry]:
    with registry() as running:
        running.sign("shop/web", running.push("shop/web", "1.0"), signer())
        running.push("shop/new", "1.0")
        yield running


@pytest.fixture(scope="module")
def shared(registered: ImageRegistry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningVerifier]:
    with image_verifier(tmp_path_factory.mktemp("verifier"), registered, "--timeout", "60s") as running:
        yield running


@pytest.fixture
def verifier(shared: RunningVerifier) -> Iterator[RunningVerifier]:
    yield shared
    shared.images.behaviours.clear()


def test_images_are_allowed_if_all_are_verified(verifier: RunningVerifier) -> None:
    digest = json.loads(verifier.images.manifests["shop/web", "1.0"])["config"]["digest"]
    answer = verifier.review("shop/web:1.0")
    assert answer["allowed"]
    assert answer["auditAnnotations"]["verified"].startswith("sha256:")
    assert answer["auditAnnotations"]["verified"] != digest
    answer = verifier.review("shop/web:1.0", "shop/new:1.0")
    assert not answer["allowed"]
    assert answer["reason"] == f'"{verifier.images.host}/shop/new:1.0": it has no signature'


def test_what_cannot_be_verified_is_refused_with_the_reason(verifier: RunningVerifier) -> None:
    verifier.images.behaviours["/v2/shop/web/manifests/1.0"] = respond(403)
    assert verifier.review("shop/web:1.0")["reason"].endswith("answered 403: that access is forbidden")


def test_an_answer_is_a_refusal_however_many_images_there_are(verifier: RunningVerifier) -> None:
    answer = verifier.review(*(f"shop/web{number}:1.0" for number in range(101)))
    assert not answer["allowed"]
    assert "more than 100 different images" in answer["reason"]
    answer = verifier.review(f"Shop/{'x' * 4_000_000}")
    assert not answer["allowed"]
    assert len(answer["reason"]) <= 4096


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", 400),
        (b"[]", 400),
        (b"{}", 400),
        (b"[" * 100_000, 400),
        (image_review().replace(b"v1alpha1", b"v1"), 400),
        (image_review().replace(b"ImageReview", b"PodReview"), 400),
        (image_review("x").replace(b'{"image": "x"}', b'{"image": 1}'), 400),
        (b" " * (7 * 1024 * 1024 + 1), 413),
    ],
    ids=["nothing", "list", "empty", "deep", "version", "kind", "number", "huge"],
)
def test_what_is_no_review_is_an_error_and_never_allowed(
    verifier: RunningVerifier, body: bytes, code: int
) -> None:
    status, answer = verifier.ask(body)
    assert (status, answer["kind"], answer["status"]) == (code, "Status", "Failure")


def test_callers_need_a_certificate_and_probes_do_not(verifier: RunningVerifier) -> None:
    assert verifier.ask(image_review(), certificate=False)[0] == 401
    assert verifier.ask(b"", certificate=False, method="GET", path="/metrics")[0] == 401
    for probe in ("/livez", "/readyz", "/healthz"):
        assert verifier.ask(b"", certificate=False, method="GET", path=probe) == (200, "ok")
    assert verifier.ask(b"", method="GET")[0] == 405
    assert verifier.ask(b"", path="/elsewhere")[0] == 404


def test_metrics_count_what_became_of_images(verifier: RunningVerifier) -> None:
    verifier.review("shop/new:1.0")
    _, text = verifier.ask(b"", method="GET", path="/metrics")
    assert 'pratique_image_verifier_images_total{result="refused"}' in text
    assert 'pratique_image_verifier_requests_total{code="200",path="/review"}' in text
    assert "pratique_certificate_expiration_timestamp_seconds" in text


def pod_with(verifier: RunningVerifier, *names: str) -> Any:
    containers = [
        container(f"c{index}", image=f"{verifier.images.host}/{name}") for index, name in enumerate(names)
    ]
    return pod(*containers)


@pytest.fixture
def reviewed(
    verifier: RunningVerifier, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Any]:
    """Tell what ``pratique review`` says of a Pod with images, where ImagePolicyWebhook asks the verifier."""

    def review(*names: str, default_allow: bool = False) -> Any:
        file = tmp_path / "pod.json"
        file.write_text(json.dumps(pod_with(verifier, *names)))
        configuration = verifier.admission_configuration(default_allow=default_allow)
        with pytest.raises(SystemExit):
            main(
                [
                    *("review", str(file), "-o", "json", "--object-validation", "off", "--timeout", "60s"),
                    *("--admission-control", "ImagePolicyWebhook"),
                    *("--admission-control-config-file", str(configuration)),
                ]
            )
        return json.loads(capsys.readouterr().out)[0]

    return review


def test_the_chain_admits_pods_whose_images_are_signed(reviewed: Callable[..., Any]) -> None:
    decision = reviewed("shop/web:1.0")
    assert decision["allowed"]
    [verified] = decision["auditAnnotations"].values()
    assert verified.startswith("sha256:")


@pytest.mark.parametrize("default_allow", [False, True])
def test_the_chain_refuses_other_pods_even_if_it_would_admit_them_unasked(
    reviewed: Callable[..., Any], *, default_allow: bool
) -> None:
    decision = reviewed("shop/web:1.0", "shop/new:1.0", default_allow=default_allow)
    assert not decision["allowed"]
    assert "image policy webhook backend denied one or more images" in decision["status"]["message"]
    assert "shop/new:1.0" in decision["status"]["message"]
    assert "it has no signature" in decision["status"]["message"]


@pytest.mark.long  # the chain above asks it likewise, in one process
def test_a_running_stack_asks_it(verifier: RunningVerifier) -> None:
    flags = (
        "--validators",
        "1",
        "--admission-control",
        "ImagePolicyWebhook",
        "--admission-control-config-file",
    )
    with local_stacks.running(*flags, str(verifier.admission_configuration())) as stack:
        for name, allowed in (("shop/web:1.0", True), ("shop/new:1.0", False)):
            request = {
                "uid": name,
                "kind": {"version": "v1", "kind": "Pod"},
                "resource": {"version": "v1", "resource": "pods"},
                "namespace": "default",
                "operation": "CREATE",
                "object": pod_with(verifier, name),
            }
            answer = stack.post(
                "/validate",
                {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request},
            )
            assert answer["response"]["allowed"] is allowed


def test_a_policy_that_changes_decides_and_a_broken_one_does_not(
    registered: ImageRegistry, tmp_path: Path
) -> None:
    with image_verifier(tmp_path, registered) as running:
        assert running.review("shop/web:1.0")["allowed"]
        running.write_policy(signer("Ed25519"))
        assert within(60, lambda: not running.review("shop/web:1.0")["allowed"])
        (tmp_path / "images.yaml").write_text("kind: Nothing\n")
        assert within(60, lambda: running.ask(b"", method="GET", path="/readyz")[1] != "ok")
        assert not running.review("shop/web:1.0")["allowed"]


def test_a_key_that_a_later_policy_names_is_read_again_when_it_changes(
    registered: ImageRegistry, tmp_path: Path
) -> None:
    (tmp_path / "team.pub").write_bytes(signer().pem)
    with image_verifier(tmp_path, registered) as running:
        running.write_policy(signer(), keys=[{"file": "missing.pub"}])
        assert within(60, lambda: running.ask(b"", method="GET", path="/readyz")[1] != "ok")
        running.write_policy(signer(), keys=[{"file": "team.pub"}])
        assert within(60, lambda: running.ask(b"", method="GET", path="/readyz")[1] == "ok")
        assert running.review("shop/web:1.0")["allowed"]
        (tmp_path / "team.pub").write_bytes(
            signer("Ed25519").pem
        )  # the key before is not to be trusted any more
        assert within(60, lambda: not running.review("shop/web:1.0")["allowed"])


class BrokenVerifier:
    """Stands in the place of the verifier that is in use, and has a fault."""

    @property
    def verifier(self) -> BrokenVerifier:
        return self

    async def verify_all(self, images: Sequence[str], seconds: float) -> Sequence[ImageVerdict]:
        raise RuntimeError(images[0])


def test_a_fault_of_the_verifier_is_an_answer_so_that_nothing_is_allowed_by_default() -> None:
    settings = ImageVerifierSettings(listener=FrontDoorSettings(), policy=Path("images.yaml"))
    broken: Any = BrokenVerifier()
    endpoint = ReviewEndpoint(broken, settings, VerifierMetrics())
    status = json.loads(asyncio.run(answer_of(endpoint, image_review("secret"))))["status"]
    assert not status["allowed"]
    assert status["reason"].startswith('"secret": ')


def test_all_reviews_together_hold_no_more_than_so_many_bytes() -> None:
    broken: Any = BrokenVerifier()
    settings = ImageVerifierSettings(listener=FrontDoorSettings(), policy=Path("images.yaml"))
    endpoint = ReviewEndpoint(broken, settings, VerifierMetrics())
    piece = b" " * (7 * 1024 * 1024)
    codes: list[int] = []

    async def arriving() -> None:
        begun = False

        async def receive() -> Any:
            nonlocal begun
            if begun:
                await asyncio.sleep(3600)
            begun = True
            return {"type": "http.request", "body": piece, "more_body": True}

        async def send(message: Any) -> None:
            codes.extend([message["status"]] if "status" in message else [])

        headers = [(b"content-type", b"application/json")]
        scope = {"type": "http", "method": "POST", "path": "/review", "headers": headers}
        await endpoint(scope, receive, send)

    async def scenario() -> None:
        tasks = [asyncio.ensure_future(arriving()) for _ in range(11)]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        assert json.loads(await answer_of(endpoint, image_review("after")))["status"]["allowed"] is False

    asyncio.run(scenario())
    assert codes == [503] * 2  # nine of them have 63 MiB


async def answer_of(endpoint: ReviewEndpoint, body: bytes) -> bytes:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    await endpoint({"type": "http", "method": "POST", "path": "/review", "headers": headers}, receive, send)
    start, content = sent
    assert start["status"] == 200
    text: bytes = content["body"]
    return text
