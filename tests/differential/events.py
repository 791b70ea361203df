"""A family for EventRateLimit: bursts of events, from users and sources that have not sent any before."""

from __future__ import annotations

import copy
import dataclasses
import time
from collections.abc import Callable, Iterator
from random import Random

from differential.comparison import compare
from differential.judging import Judge
from differential.ours import deciding
from differential.pairs import EVENTS, NAMESPACES, Answer, Request, Setup, User, World, made
from differential.tallies import Found, Tally
from pratique.apimachinery.json_values import JSON, JSONObject

_LIMITS: list[JSON] = [
    {"type": "Server", "qps": 100_000, "burst": 100_000},
    {"type": "Namespace", "qps": 1, "burst": 14},
    {"type": "User", "qps": 1, "burst": 9},
    {"type": "SourceAndObject", "qps": 1, "burst": 4, "cacheSize": 100},
]
LIMITED = Setup(
    ("EventRateLimit",),
    {
        "EventRateLimit": {
            "apiVersion": "eventratelimit.admission.k8s.io/v1alpha1",
            "kind": "Configuration",
            "limits": _LIMITS,
        }
    },
)
_LONGEST_SECONDS = 0.9
"""A bucket gets its first new token after a second. What takes longer has no certain answer."""


@dataclasses.dataclass(frozen=True, slots=True)
class EventBursts:
    """Bursts of events. They are no dry runs, because those take no tokens."""

    name: str = "EventRateLimit"
    requests: int = 25
    setup: Setup = LIMITED

    def compare(self, judge: Judge, drawn_from: str, pairs: int, told: Callable[[str], None]) -> Tally:
        """Compare one burst, of so many events; it is left out if it took too long."""
        random, tally = Random(drawn_from), Tally()
        suffix = f"{random.randrange(16**6):06x}{time.time_ns() % 16**5:05x}"
        namespaces = [f"w{suffix}{index}" for index in range(2)]
        drawn = World(tuple(made(NAMESPACES, name) for name in namespaces), namespaces[0])
        with judge.world(drawn) as world, deciding(world, judge.common, self.setup, judge.folder) as pratique:
            requests = [_event(random, suffix, index, random.choice(namespaces)) for index in range(pairs)]
            users = [f"user-{suffix}-{random.randrange(3)}" for _ in requests]
            review = judge.record(requests[0])
            assert review is not None
            real = _in_time(judge.decide_as(user, each) for user, each in zip(users, requests, strict=True))
            asked = [_review(review, user, each) for user, each in zip(users, requests, strict=True)]
            ours = _in_time(pratique.decide(each) for each in asked)
        if real is None or ours is None:
            return Tally(left_out=pairs)
        for request, one, other in zip(requests, real, ours, strict=True):
            tally.pairs += 1
            # nobody has the event's object: it is stored by one side alone
            difference = compare(dataclasses.replace(one, object=None), other)
            if difference is None:
                tally.same += 1
                tally.refused += not one.allowed
            else:
                _add(tally, Found(self.name, drawn_from, request, difference), told)
        return tally


def _add(tally: Tally, found: Found, told: Callable[[str], None]) -> None:
    told(f"{found.request.describe()} in {found.world}\n  {found.difference.describe()}")
    tally.found.append(found)


def _in_time(answers: Iterator[Answer]) -> list[Answer] | None:
    """All answers; None if they took so long that buckets may have filled meanwhile."""
    begun = time.monotonic()
    found = list(answers)
    return found if time.monotonic() - begun < _LONGEST_SECONDS else None


def _event(random: Random, suffix: str, index: int, namespace: str) -> Request:
    about: JSONObject = {
        "apiVersion": "v1",
        "kind": random.choice(("Pod", "Pod", "Service")),
        "name": f"a{random.randrange(3)}-{suffix}",
        "namespace": namespace,
    }
    source = {"component": random.choice(("kubelet", "scheduler")), "host": "n0"}
    name = f"e{index}-{suffix}"
    members: dict[str, JSON] = {
        "involvedObject": about,
        "source": source,
        "reason": "drawn",
        "type": "Normal",
    }
    return Request(User.ADMIN, "POST", EVENTS, namespace, name, made(EVENTS, name, namespace, **members))


def _review(like: JSONObject, user: str, request: Request) -> JSONObject:
    """The review of an event, like that of another one."""
    review: JSONObject = copy.deepcopy(like)
    asked = review["request"]
    asked["object"] |= request.body
    asked |= {"name": request.name, "namespace": request.namespace, "dryRun": False}
    asked["userInfo"] = {"username": user, "groups": ["authors", "system:authenticated"]}
    return review
