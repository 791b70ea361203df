"""The image serves a stack, each service in a container of its own.

Skipped, and said so, where no Docker engine runs or the image is not built: ``make image``.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.container_stacks import DENYING, contained_stack
from support.docker_engine import IMAGE, why_not

REVIEW = (Path(__file__).parents[2] / "examples" / "review.json").read_bytes()

WHY_NOT = why_not(IMAGE)
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is all it needs"),
]


@pytest.fixture(name="port", scope="module")
def _port() -> Iterator[int]:
    with contained_stack(1, f"--enable-admission-plugins={DENYING}") as stack:
        yield stack.port


def ask(port: int, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_a_review_is_answered_with_a_patch(port: int) -> None:
    code, content = ask(port, "POST", "/admit", REVIEW)
    response = json.loads(content)["response"]
    assert (code, response["allowed"]) == (200, True)
    assert response["patchType"] == "JSONPatch"


def test_a_large_review_is_read_where_nothing_may_be_written(port: int) -> None:
    review = json.loads(REVIEW)
    review["request"]["object"]["metadata"]["annotations"] = {"large": "x" * 2 * 1024 * 1024}
    code, content = ask(port, "POST", "/admit", json.dumps(review).encode())
    assert (code, json.loads(content)["response"]["allowed"]) == (200, True)


def test_both_services_are_asked(port: int) -> None:
    steps = json.loads(ask(port, "POST", "/explain", REVIEW)[1])["steps"]
    asked = {step["endpoint"].rpartition("/")[2] for step in steps if step["outcome"] != "skipped"}
    # A step names the one replica that decided, by its address.
    assert {endpoint.rpartition(":")[2] for endpoint in asked} == {"9001", "9002"}
