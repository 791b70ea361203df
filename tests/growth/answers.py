"""What webhooks and conversion webhooks answer, large in one place, through all that is made of it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from growth.measuring import Clock, Work, fresh_number
from growth.reviews import DATA, write
from pratique.admission.controllers import BOTH, Phase
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.configuration.loading import load_configurations
from pratique.hosting.running import MutatorHost, ValidatorHost
from pratique_frontdoor.chain.assembly import ChainParts, assemble
from pratique_frontdoor.engines.local import InProcessTransport
from pratique_frontdoor.http.codecs import ReceivedReview
from pratique_frontdoor.webhooks.answers import read_answer, to_outcome
from pratique_frontdoor.webhooks.reviews import build_review
from support.chains import pod_review, webhook_controllers

Item: TypeAlias = Callable[[int], JSON]


def _texts(index: int) -> JSON:
    return f"text {index}"


def _cause(index: int) -> JSON:
    return {
        "reason": "FieldValueInvalid",
        "message": f"no {index}",
        "field": f"spec.containers[{index}].name",
    }


def _nameless_cause(index: int) -> JSON:
    return {"message": f'container "c{index % 100}" must set securityContext.runAsNonRoot=true'}


def _operations(path: str, op: str = "add", value: JSON = 1) -> Item:
    return lambda index: {"op": op, "path": path.format(index), "value": value}


OBJECT: JSONObject = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "namespace": "shop",
        "labels": {"app": "web"},
        "annotations": {},
        "finalizers": [],
    },
    "spec": {"containers": [{"name": "c", "image": "web:1", "env": []}], "tolerations": []},
}
PATCHES: Mapping[str, Item] = {
    "patch of members": _operations("/metadata/annotations/a{}", value="b"),
    "patch of one member": _operations("/metadata/annotations/a", value="b"),
    "patch that appends": _operations("/metadata/finalizers/-", value="a.example.com/b"),
    "patch that inserts": _operations("/spec/containers/0/env/0", value={"name": "a"}),
    "patch that replaces": _operations("/spec/containers/0/image", "replace", "b"),
    "patch that tests": _operations("/metadata/name", "test", "web"),
}
LISTS: Mapping[str, Item] = {"warnings": _texts, "causes": _cause, "causes without fields": _nameless_cause}


def _numbers(count: int) -> range:
    number = fresh_number()
    return range(number, number + count)


def _items(item: Item, size: int) -> list[JSON]:
    items: list[JSON] = []
    used, number = 0, fresh_number()
    while used < size:
        items.append(item(number + len(items)))
        used += len(encode(items[-1])) + 1
    return items


def response(what: str, size: int) -> JSONObject:
    """An answer of a webhook with about ``size`` bytes of one thing."""
    if what in PATCHES or what == REVERSED:
        reversal = {"op": "replace", "path": "/spec/containers", "value": _containers(size)[::-1]}
        operations = [reversal] if what == REVERSED else _items(PATCHES[what], size)
        patch = base64.b64encode(encode(operations)).decode()
        return {"allowed": True, "patchType": "JSONPatch", "patch": patch}
    if what == "audit annotations":
        return {"allowed": True, "auditAnnotations": {f"a{index}": "b" for index in _numbers(size // 14)}}
    if what == "warnings":
        return {"allowed": True, "warnings": _items(LISTS[what], size)}
    details = {"causes": _items(LISTS[what], size)}
    return {"allowed": False, "status": {"code": 403, "message": "containers may not", "details": details}}


REVERSED = "patch that reverses a list"
ANSWERS = ("audit annotations", *PATCHES, *LISTS, REVERSED)


class _Transport(msgspec.Struct, frozen=True):
    """Answers as a webhook over HTTPS does, without one."""

    response: JSONObject
    endpoint: str = "https://hook.example.com"

    async def mutate(self, review: Review, calls: Sequence[Call], _deadline: Deadline) -> Sequence[Outcome]:
        return [self._outcome(review, calls[0], Phase.MUTATE)]

    async def validate(self, review: Review, calls: Sequence[Call], _deadline: Deadline) -> Sequence[Outcome]:
        return [self._outcome(review, calls[0], Phase.VALIDATE)]

    async def close(self) -> None:
        """Nothing is open."""

    def _outcome(self, review: Review, call: Call, phase: Phase) -> Outcome:
        sent = build_review(review, ("v1",))
        body = {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": {"uid": sent.uid, **self.response},
        }
        return to_outcome(call.name, read_answer(encode(body), sent, phase), review)


def webhook_work(what: str) -> Work:
    """Work on a webhook's answer: it is read, does what it says, and is written in every form."""

    def work(size: int, clock: Clock) -> None:
        answer = response(what, size)
        kind = "mutating" if "patchType" in answer else "validating"
        spec = OBJECT["spec"] if what in PATCHES else {"containers": _containers(size)}
        review = pod_review({**OBJECT, "spec": spec})
        hosts = InProcessTransport(MutatorHost([], review.cluster), ValidatorHost([], review.cluster))
        parts = ChainParts(
            controllers=webhook_controllers(),
            configurations=load_configurations([DATA / f"{kind}_webhook.yaml"]),
            mutator=hosts,
            validator=hosts,
            reach=lambda _webhook, _phase: _Transport(answer),
        )
        with clock("chain"):
            decision = asyncio.run(assemble(parts).decide(review, BOTH, Deadline.after(3_600), explain=True))
        write(ReceivedReview("admission.k8s.io/v1", review), decision, clock)

    return work


def _containers(size: int) -> list[JSON]:
    return [{"name": f"c{index}", "image": "web:1"} for index in range(size // 64)]
