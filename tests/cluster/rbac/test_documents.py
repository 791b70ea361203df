"""The examples of docs/authorization.md."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision, RbacAuthorizer
from pratique.cluster.store import ObjectStore

PAGE = (Path(__file__).parents[3] / "docs" / "authorization.md").read_text("utf-8")


def fence(role: str) -> str:
    (text,) = re.findall(rf"^```yaml {role}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


@pytest.mark.parametrize("question", yaml.safe_load(fence("questions")), ids=str)
def test_documented_requests_are_authorized_as_documented(question: JSONObject) -> None:
    resource, _, subresource = question["resource"].partition("/")
    asked = AuthorizationAttributes(
        user=UserInfo(question["user"], groups=tuple(question.get("groups", ()))),
        verb=question["verb"],
        resource=resource,
        subresource=subresource,
        namespace=question.get("namespace", ""),
    )
    cluster = ObjectStore(yaml.safe_load_all(fence("cluster")))
    expected = AuthorizationDecision(allowed=question["allowed"], reason=question["reason"])
    assert RbacAuthorizer(cluster).authorize(asked) == expected
