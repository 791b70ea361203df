"""Answers of webhooks by the type that they claim, with what kube-apiserver says to each.

``tests/apiserver/test_answer_types.py`` has the real one say it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from pratique.apimachinery.json_values import JSONObject
from pratique_frontdoor.webhooks.reviews import ReviewVersion

VERSIONS: tuple[ReviewVersion, ReviewVersion] = ("v1", "v1beta1")
UID = "@uid"
"""What stands for the uid of the request."""


@dataclasses.dataclass(frozen=True, slots=True)
class ReviewType:
    """A kind of review that webhooks answer."""

    group: str
    kind: str
    response: JSONObject
    """A response that is good."""


ADMISSION = ReviewType("admission.k8s.io", "AdmissionReview", {"uid": UID, "allowed": True})
CONVERSION = ReviewType(
    "apiextensions.k8s.io",
    "ConversionReview",
    {"uid": UID, "convertedObjects": [], "result": {"status": "Success"}},
)


@dataclasses.dataclass(frozen=True, slots=True)
class TypedAnswer:
    """An answer to a review of a version, and why it cannot be one."""

    version: ReviewVersion
    body: bytes
    error: str
    """The API server's error; empty if its decoder takes the answer."""
    claimed: str
    """The type as Go prints it, which is checked next in answers to v1."""


UNTYPED = (None, "", "/", "{group}/")
"""Ways to name no version."""
_SCHEME = 'in scheme "pkg/runtime/scheme.go:111"'


def _unknown(kind: str, where: str) -> str:
    return f'no kind "{kind}" is registered for version "{where}" {_SCHEME}'


def _internal(kind: str, group: str) -> str:
    return f'no kind "{kind}" is registered for the internal version of group "{group}" {_SCHEME}'


def _converting(go_type: str) -> str:
    return f"converting ({go_type}) to ({{sent}}.{{kind}}): unknown conversion"


_CLAIMS: list[tuple[str | None, str | None, str]] = [
    *((version, kind, "") for version in (*UNTYPED, "{group}/{sent}") for kind in (None, "", "{kind}")),
    *((version, "List", _unknown("List", "{group}/{sent}")) for version in (*UNTYPED, "{group}/{sent}")),
    *(("{group}/{other}", kind, _converting("{other}.{kind}")) for kind in (None, "", "{kind}")),
    *(("{group}/v2", kind, _unknown("{kind}", "{group}/v2")) for kind in (None, "", "{kind}")),
    ("v1", "List", _unknown("List", "v1")),
    ("{group}/{other}", "List", _unknown("List", "{group}/{other}")),
    ("{sent}", None, _unknown("{kind}", "{sent}")),
    ("/{sent}", "{kind}", _unknown("{kind}", "{sent}")),
    ("example.com/{sent}", "{kind}", _unknown("{kind}", "example.com/{sent}")),
    ("{group}/{sent}", "{kind}2", _unknown("{kind}2", "{group}/{sent}")),
    ("x y/é", 'a"b', _unknown('a\\"b', "x y/é")),
    ("{group}/__internal", "{kind}", _internal("{kind}", "{group}")),
    ("__internal", None, _internal("{kind}", "")),
    ("{group}/__internal", "Zebra", _internal("Zebra", "{group}")),
    *(("{group}/2", kind, _unknown(kind, "{group}/2")) for kind in ("{kind}", "WatchEvent")),
    *(
        (version, "Status", _converting("v1.Status"))
        for version in ("v1", None, "a/b", "{group}/v2", "__internal")
    ),
    ("v1", "APIGroup", _converting("v1.APIGroup")),
    ("{group}/{other}", "DeleteOptions", _converting("v1.DeleteOptions")),
    (None, "WatchEvent", _converting("v1.WatchEvent")),
    ("{group}/__internal", "WatchEvent", _converting("v1.InternalEvent")),
    ("{group}/v2", "WatchEvent", _unknown("WatchEvent", "{group}/v2")),
    ("v1", "ListOptions", _unknown("ListOptions", "v1")),
    ("a/b/c", None, "unexpected GroupVersion string: a/b/c"),
    ("//", "{kind}", "unexpected GroupVersion string: //"),
]
"""What an answer may say that it is: apiVersion, kind, and the error."""
_CONVERSION_CLAIMS = [
    ("{group}/{other}", "CustomResourceDefinition", _converting("{other}.CustomResourceDefinition")),
    (None, "CustomResourceDefinitionList", _converting("{sent}.CustomResourceDefinitionList")),
]


def typed_answers(review: ReviewType) -> Iterator[TypedAnswer]:
    """All answers to a kind of review, in both versions."""
    claims = _CLAIMS + (_CONVERSION_CLAIMS if review is CONVERSION else [])
    for sent, other in (VERSIONS, VERSIONS[::-1]):
        words = {"group": review.group, "kind": review.kind, "sent": sent, "other": other}
        for api_version, kind, error in claims:
            claimed = {"apiVersion": api_version, "kind": kind}
            members = {name: text.format(**words) for name, text in claimed.items() if text is not None}
            body = json.dumps(members | {"response": review.response}).encode()
            group_version = (api_version or "").format(**words)
            claimed_type = (
                f"{group_version if '/' in group_version else '/'}, Kind={(kind or '').format(**words)}"
            )
            yield TypedAnswer(sent, body, error.format(**words), claimed_type)
        unknown = _unknown("List", f"{review.group}/{sent}")
        of_v1 = _unknown("List", "v1")
        for body, error in (
            (b'{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}', of_v1),
            (b'{"kind":"List","response":{"uid":7}}', unknown),
            (b'{"kind":"List","response":{"uid":"\xff"}}', unknown),
            (b"kind: List\napiVersion: v1\n", of_v1),
            (b"kind: List\nresponse: {uid: 7}\n", unknown),
        ):
            yield TypedAnswer(sent, body, error, "")


EMPTY = (b"{}", b"null", b" ", b'{"kind":null,"apiVersion":null}')
"""Answers that claim nothing and hold nothing."""
