"""Whom the services of ``pratique up`` believe to have checked an object."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from pratique.admission.reviews import Call
from pratique.admission.v1.validator_service_pb2 import ValidateRequest
from pratique.admission.v1.validator_service_pb2_grpc import ValidatorServiceStub
from pratique.apimachinery.json_values import MIN_PROVED_BYTES
from pratique.rpc.check_digests import CheckDigests
from pratique.rpc.messages import validate_request
from support.local_stacks import Stack, running
from support.services.reviews import review_of
from support.shared_stacks import CHANGING_CHAIN
from support.validating_policies import binding, policy

TWICE = b'{"a":1,"a":2,"x":"' + b"x" * MIN_PROVED_BYTES + b'"}'
"""What no service accepts that checks it."""


@pytest.fixture(name="stack", scope="module")
def _stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    config = tmp_path_factory.mktemp("config") / "all.yaml"
    config.write_text("\n---\n".join(map(json.dumps, (policy("true"), binding()))))
    flags = ("--validators", "1", "--admission-control", CHANGING_CHAIN, "--config", str(config))
    with running(*flags, forked=False) as stack:
        yield stack


def flag(stack: Stack, name: str) -> str:
    """The value of a flag of the stack's front door."""
    [door] = stack.pids("frontdoor")
    arguments = Path(f"/proc/{door}/cmdline").read_bytes().decode().split("\0")
    return arguments[arguments.index(name) + 1]


def code_of(stack: Stack, digest: bytes) -> grpc.StatusCode:
    """What a validator answers to whoever reaches its port with a text that nobody has checked."""
    request: ValidateRequest = validate_request(review_of(TWICE), [Call("NamespaceLifecycle")])
    request.review.checks.object = digest
    with grpc.insecure_channel(flag(stack, "--validator")) as channel:
        try:
            ValidatorServiceStub(channel).Validate(request, timeout=10)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_a_service_believes_who_has_the_key_of_its_stack(stack: Stack) -> None:
    key = Path(flag(stack, "--checks-key-file")).read_bytes()
    assert code_of(stack, CheckDigests(key).digest(TWICE)) is grpc.StatusCode.OK


def test_a_service_believes_nobody_else_on_its_machine(stack: Stack) -> None:
    for digests in (CheckDigests(), CheckDigests(b"o" * 32)):
        assert code_of(stack, digests.digest(TWICE)) is grpc.StatusCode.INVALID_ARGUMENT
    assert code_of(stack, b"") is grpc.StatusCode.INVALID_ARGUMENT


def test_nobody_else_can_read_the_key(stack: Stack) -> None:
    folder = Path(flag(stack, "--checks-key-file")).parent
    assert folder.stat().st_mode & 0o077 == 0
    assert re.fullmatch(r"[0-9a-f]{64}", (folder / "checks.key").read_text())


def test_a_large_object_is_changed_and_validated(stack: Stack) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "annotations": {"filling": "x" * 400_000}},
        "spec": {"containers": [{"name": "app", "image": "nginx"}]},
    }
    request = {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "name": "web",
        "object": pod,
    }
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    assert stack.post("/admit", body)["response"]["allowed"]


@pytest.mark.parametrize("path", ["/validate", "/mutate", "/admit", "/explain"])
def test_a_large_object_that_services_refuse_is_refused_in_the_words_for_all(stack: Stack, path: str) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"containers": []}}
    request = {
        "uid": "u",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "object": pod | {"x": "x" * 400_000, "twice": {"a": 1, "b": 2}},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    body = json.dumps(review, separators=(",", ":")).encode()
    assert stack.post_bytes(path, body)[0] == 200
    code, answer = stack.post_bytes(path, body.replace(b'"b":2', b'"a":2'))
    begin = body.index(b'{"a":1')
    assert (code, answer["message"]) == (
        400,
        f"the body holds a member twice, in the object or array that begins at byte {begin}",
    )
