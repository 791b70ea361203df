"""Bytes to reviews, and through the chain: the default one, and one of each other controller alone."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing import clusters
from fuzzing.seed_files import EXAMPLES, files, lines
from pratique.admission.controllers import BOTH
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Deadline
from pratique.apimachinery.errors import ReviewError
from pratique.apimachinery.json_values import decode, encode
from pratique.apimachinery.patches import apply_patch
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.chain.decision_documents import to_document
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import Engine, open_local
from pratique_frontdoor.http.codecs import ReceivedReview, decode_review, encode_answer

NEEDS_SETTINGS = {"EventRateLimit", "ImagePolicyWebhook"}
MAY_FAIL = {"ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"}
"""Expressions may have no value; their failure policy decides then."""
ALONE = sorted(
    one.name for one in load_catalogue() if one.hosted and not one.default and one.name not in NEEDS_SETTINGS
)
SECONDS = 30
"""For a review; what takes long is noticed by what drives the target."""


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Make the chains."""
    with asyncio.Runner() as loop:
        chains = loop.run(_open_chains())
        try:
            yield lambda data: loop.run(chains.attempt(data))
        finally:
            loop.run(chains.close())


async def _open_chains() -> _Chains:
    store = clusters.store()
    policies = EXAMPLES / "04-cel-policies" / "policies.yaml"
    default = open_local(ChainSettings(config=(policies,)), store)
    return _Chains(default, [open_local(ChainSettings(admission_control=(name,)), store) for name in ALONE])


@dataclasses.dataclass(frozen=True)
class _Chains:
    default: Engine
    others: list[Engine]

    async def attempt(self, data: bytes) -> bool:
        """Decide by the default chain and one of the others, the same one whenever these bytes come."""
        try:
            received = decode_review(data, self.default.cluster)
        except ReviewError:
            return False
        for engine in (self.default, self.others[zlib.crc32(data) % len(self.others)]):
            decision = await engine.decide(received.review, BOTH, Deadline.after(SECONDS), explain=True)
            check(received, decision)
        return True

    async def close(self) -> None:
        """Close all."""
        for engine in (self.default, *self.others):
            await engine.close()


def check(received: ReceivedReview, decision: Decision) -> None:
    """No controller broke, and the answer says what was decided."""
    broken = {
        (step.controller, step.reason)
        for step in decision.steps
        if step.outcome in {StepOutcome.FAILED, StepOutcome.FAILED_OPEN} and step.controller not in MAY_FAIL
    }
    assert not broken, broken
    answer = json.loads(encode_answer(decision, received.api_version))["response"]
    assert (answer["uid"], answer["allowed"]) == (received.review.uid, decision.allowed)
    assert decision.allowed is (decision.status is None)
    encode(to_document(decision))
    if decision.allowed and decision.patch:
        patched = apply_patch(received.review.object, decision.patch)
        assert decode(encode(patched)) == decode(decision.object_document.raw)


def seeds() -> Iterator[bytes]:
    """Reviews of tests, and the requests of all controllers' vectors."""
    yield from files("reviews/*.json", "review.json")
    for number, case in enumerate(lines("vectors/controllers.jsonl")):
        if number % 4 == 0 and "request" in case:
            request = {"uid": "1", **case["request"]}
            review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
            yield json.dumps(review).encode()
