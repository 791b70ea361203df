"""EventRateLimit."""

from __future__ import annotations

import asyncio
import gc
import inspect
import json
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.controllers import Handlers, Phase
from pratique.admission.reviews import Deadline, QuotaMode, Review
from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.flow_control import MAX_BUCKET_BYTES, Rate, TokenBucket, TokenBuckets
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique.controllers.event_rate_limit import CONTROLLER, Settings, build
from pratique.hosting.catalogue import configure_controller
from pratique_frontdoor.engines.engine import open_local
from support import vector_cases
from support.admissions import denial, review_of, run
from support.expectations import check

SECOND = 1_000_000_000


class Clock:
    """A clock that moves on command."""

    def __init__(self) -> None:
        self.now = 12_345 * SECOND

    def __call__(self) -> int:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * SECOND)


def built(*limits: JSONObject, clock: Clock | None = None) -> Handlers:
    settings = decode_strictly({"limits": list(limits)}, Settings)
    return build(settings, clock or Clock())


def limit(of: str, burst: int = 1, qps: int = 1, cache_size: int = 0) -> JSONObject:
    return {"type": of, "qps": qps, "burst": burst, "cacheSize": cache_size}


def event(namespace: str = "shop", user: str = "alice", *, dry_run: bool = False, **fields: JSON) -> Review:
    request = {
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Event"},
        "resource": {"group": "", "version": "v1", "resource": "events"},
        "namespace": namespace,
        "name": "web.1",
        "userInfo": {"username": user},
        "object": {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1"}, **fields},
        "dryRun": dry_run,
    }
    return review_of(request)


def admitted(handlers: Handlers, reviews: Iterable[Review]) -> list[bool]:
    return [run(CONTROLLER, handlers, review).allowed for review in reviews]


@pytest.mark.parametrize("case", vector_cases.plugin("EventRateLimit"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    clock = Clock()
    handlers = build(decode_strictly(case["config"], Settings), clock)
    for step in case["steps"]:
        clock.advance(step.get("advanceSeconds", 0))
        check(run(CONTROLLER, handlers, review_of(step["request"])), step["expected"])


@pytest.mark.parametrize(
    ("of", "review", "key"),
    [
        ("Server", event(), ""),
        ("Namespace", event("shop"), "shop"),
        ("User", event(user="alice"), "alice"),
        (
            "SourceAndObject",
            event(
                source={"component": "kubelet", "host": "n1"},
                involvedObject={
                    "apiVersion": "v1",
                    "uid": "u",
                    "name": "web",
                    "namespace": "shop",
                    "kind": "Pod",
                },
            ),
            "kubeletn1Podshopwebuv1",
        ),
        ("SourceAndObject", event(source=None, involvedObject={"name": 7, "kind": "Pod"}), "Pod"),
    ],
)
def test_a_denial_names_the_limit_and_the_key(of: str, review: Review, key: str) -> None:
    handlers = built(limit(of))
    assert run(CONTROLLER, handlers, review).allowed
    said = f"Too many requests: limit reached on type {of} for key {key}"
    assert denial(run(CONTROLLER, handlers, review)) == (429, "TooManyRequests", said)


def test_a_denial_names_every_limit_that_was_reached() -> None:
    handlers = built(limit("Server"), limit("Namespace", burst=9), limit("User"))
    run(CONTROLLER, handlers, event())
    assert denial(run(CONTROLLER, handlers, event()))[2] == (
        "Too many requests: [limit reached on type Server for key , limit reached on type User for key alice]"
    )


def test_every_bucket_is_drained_even_if_another_denies() -> None:
    clock = Clock()
    handlers = built(limit("Server", burst=1, qps=1000), limit("User", burst=2), clock=clock)
    assert admitted(handlers, [event(), event()]) == [True, False]
    clock.advance(0.001)
    assert denial(run(CONTROLLER, handlers, event()))[2].endswith("type User for key alice")


def test_keys_are_concatenated_without_a_separator() -> None:
    handlers = built(limit("SourceAndObject"))
    first = event(source={"component": "ab", "host": "c"})
    second = event(source={"component": "a", "host": "bc"})
    assert admitted(handlers, [first, second]) == [True, False]


def test_a_dry_run_takes_no_token_and_is_never_denied() -> None:
    handlers = built(limit("Server"))
    reviews = [event(dry_run=True), event(dry_run=True), event(), event(dry_run=True), event()]
    assert admitted(handlers, reviews) == [True, True, True, True, False]


def test_a_trial_takes_no_token_and_is_never_denied() -> None:
    handlers = built(limit("Server"))
    tried = msgspec.structs.replace(event(), quota_mode=QuotaMode.CHECK)
    assert admitted(handlers, [tried, tried, event(), tried, event()]) == [True, True, True, True, False]


@pytest.mark.parametrize(
    ("group", "kind", "resource", "operation"),
    [
        ("", "ConfigMap", "configmaps", "CREATE"),
        ("events.k8s.io", "Event", "events", "CREATE"),
        ("", "Event", "events", "DELETE"),
    ],
)
def test_everything_else_is_admitted(group: str, kind: str, resource: str, operation: str) -> None:
    handlers = built(limit("Server"))
    request = {
        "operation": operation,
        "kind": {"group": group, "version": "v1", "kind": kind},
        "resource": {"group": group, "version": "v1", "resource": resource},
    }
    assert admitted(handlers, [review_of(request)] * 3) == [True] * 3
    assert run(CONTROLLER, handlers, event()).allowed


def test_updates_count_like_creations() -> None:
    handlers = built(limit("Server"))
    update = review_of(
        {
            "operation": "UPDATE",
            "kind": {"group": "", "version": "v1", "kind": "Event"},
            "resource": {"group": "", "version": "v1", "resource": "events"},
        }
    )
    assert admitted(handlers, [event(), update]) == [True, False]


def test_an_event_that_is_not_an_object_has_no_source() -> None:
    request = {
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Event"},
        "resource": {"group": "", "version": "v1", "resource": "events"},
        "object": None,
    }
    assert admitted(built(limit("SourceAndObject")), [review_of(request)] * 2) == [True, False]


def test_the_limit_sets_the_size_of_the_cache() -> None:
    handlers = built(limit("User", cache_size=2))
    users = [event(user=name) for name in ("a", "b", "c", "b", "a")]
    assert admitted(handlers, users) == [True, True, True, False, True]


def test_a_server_limit_has_one_bucket_whatever_its_cache_size() -> None:
    assert admitted(built(limit("Server", cache_size=-5)), [event(), event("other", "bob")]) == [True, False]


NO_LIMITS = "limits: Invalid value: {}: must not be empty"


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        (None, NO_LIMITS.format("null")),
        ({"limits": []}, NO_LIMITS.format("[]")),
        (
            {"limits": [limit("User", qps=0)]},
            "limits[0].qps: Invalid value: 0: must be positive",
        ),
        (
            {"limits": [limit("User"), limit("Server", burst=-1)]},
            "limits[1].burst: Invalid value: -1: must be positive",
        ),
        (
            {"limits": [limit("Namespace", cache_size=-1)]},
            "limits[0].cacheSize: Invalid value: -1: must not be negative",
        ),
        (
            {"limits": [{"type": "Cluster", "cacheSize": -1}]},
            (
                '[limits[0].type: Unsupported value: "Cluster": supported values: "Server", "Namespace",'
                ' "User", "SourceAndObject", limits[0].burst: Invalid value: 0: must be positive,'
                " limits[0].qps: Invalid value: 0: must be positive,"
                " limits[0].cacheSize: Invalid value: -1: must not be negative]"
            ),
        ),
        (
            {"limits": [limit("User", qps=2**31)]},
            (
                "strict decoding error: limits[0].qps: Invalid value: 2147483648:"
                " must be between -2147483648 and 2147483647, inclusive"
            ),
        ),
        (
            {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha2", "limits": [limit("User")]},
            (
                "apiVersion, kind: must be eventratelimit.admission.k8s.io/v1alpha1, Kind=Configuration,"
                " not eventratelimit.admission.k8s.io/v1alpha2, Kind=Configuration"
            ),
        ),
    ],
)
def test_invalid_limits_are_rejected(configuration: JSON, text: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        configure_controller(CONTROLLER, configuration)
    assert str(fault.value) == f'couldn\'t init admission plugin "EventRateLimit": {text}'


def test_limits_persist_across_the_reviews_of_an_engine(tmp_path: Path) -> None:
    file = tmp_path / "admission.json"
    plugin = {"name": "EventRateLimit", "configuration": {"limits": [limit("Server", burst=2)]}}
    head = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration"}
    file.write_text(json.dumps({**head, "plugins": [plugin]}))
    settings = ChainSettings(admission_control=("EventRateLimit",), admission_control_config_file=file)

    async def decided() -> list[bool]:
        engine = open_local(settings, ObjectStore())
        phases = frozenset({Phase.VALIDATE})
        try:
            decisions = [await engine.decide(event(), phases, Deadline.after(30)) for _ in range(5)]
        finally:
            await engine.close()
        return [decision.allowed for decision in decisions]

    began = time.monotonic()
    allowed = asyncio.run(decided())
    assert allowed[:2] == [True, True]
    assert sum(allowed) <= 2 + (time.monotonic() - began)


def test_the_default_clock_advances() -> None:
    handlers = configure_controller(CONTROLLER, {"limits": [limit("Server", qps=2**31 - 1)]}).handlers
    assert admitted(handlers, [event()] * 100) == [True] * 100


@given(st.integers(1, 50), st.integers(1, 50), st.lists(st.integers(0, 3 * SECOND), min_size=1, max_size=80))
def test_burst_and_rate_are_never_exceeded(burst: int, qps: int, pauses: list[int]) -> None:
    bucket, rate, now, taken = TokenBucket(burst), Rate(qps, burst), 0, 0
    for pause in pauses:
        now += pause
        taken += bucket.take(rate, now)
        # Float sums of so few tokens stay within a millionth.
        assert taken <= burst + qps * (now - pauses[0]) / SECOND + 1e-6


@given(st.integers(1, 20), st.integers(1, 10_000))
def test_a_steady_stream_at_the_rate_is_never_denied(burst: int, qps: int) -> None:
    bucket, rate = TokenBucket(burst), Rate(qps, burst)
    pause = -(-SECOND // qps)
    assert all(bucket.take(rate, number * pause) for number in range(200))


def test_a_bucket_never_holds_more_than_its_burst() -> None:
    bucket, rate = TokenBucket(3), Rate(100, 3)
    assert bucket.take(rate, 0)
    assert [bucket.take(rate, 3600 * SECOND) for _ in range(5)] == [True] * 3 + [False] * 2


def test_a_denial_does_not_slow_down_the_refill() -> None:
    bucket, rate = TokenBucket(1), Rate(1, 1)
    assert bucket.take(rate, 0)
    assert not any(bucket.take(rate, tenth * SECOND // 10) for tenth in range(1, 10))
    assert bucket.take(rate, SECOND)


def test_any_text_can_be_a_key() -> None:
    buckets = TokenBuckets(Rate(1, 1), 10)
    keys = ["", "\0", "\ud800", "ä", "a" * 1_000_000]
    assert all(buckets.take(key, 0) for key in keys)
    assert not any(buckets.take(key, 0) for key in keys)


def bytes_held(root: object) -> int:
    """The size of everything that is reachable from an object, except code."""
    seen: set[int] = set()
    waiting, size = [root], 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, type) or inspect.isroutine(item) or inspect.ismodule(item):
            continue
        seen.add(id(item))
        size += sys.getsizeof(item)
        waiting += gc.get_referents(item)
    return size


@pytest.mark.parametrize("users", [50_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_many_users_stay_within_the_memory_of_the_cache(users: int) -> None:
    size = 4096
    buckets = TokenBuckets(Rate(10, 50), size)
    most = 0
    for number in range(users):
        assert buckets.take(f"system:serviceaccount:shop:user-{number}", number * 1_000)
        most = max(most, len(buckets))
    assert most == len(buckets) == size
    assert bytes_held(buckets) <= size * MAX_BUCKET_BYTES
    # The latest keys are remembered: they have one token less.
    latest = f"system:serviceaccount:shop:user-{users - 1}", (users - 1) * 1_000
    assert all(buckets.take(*latest) for _ in range(49))
    assert not buckets.take(*latest)


def test_long_keys_use_no_more_memory_than_short_ones() -> None:
    size = 256
    buckets = TokenBuckets(Rate(10, 50), size)
    for number in range(4 * size):
        buckets.take(f"{number}" * 10_000, number)
    assert len(buckets) == size
    # With so few keys, the cache itself counts.
    assert bytes_held(buckets) <= size * MAX_BUCKET_BYTES + 4096
