"""InitialResources."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import inspect
import logging
import re
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given

from pratique.admission.controllers import Handlers
from pratique.admission.results import Answer
from pratique.admission.reviews import Review
from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.initial_resources import CONTROLLER, Settings, build, usage_queries
from pratique.controllers.usage_history import Usage, UsageQuery, open_history
from pratique.controllers.usage_history.prometheus import promql
from pratique.controllers.usage_history.sqlite import SCHEMA
from pratique.hosting.catalogue import configure_controller
from support import vector_cases
from support.admissions import Admission, admit, pod_review, review_of, run
from support.expectations import check
from support.mutation_invariants import assert_minimal
from support.pods import container, pod
from support.prometheus_servers import Question, Reply, failure, serve, vector
from support.strategies.pods import pods
from support.usage_samples import DAY, NOW, many, samples, write_samples

ANNOTATION = "/metadata/annotations/kubernetes.io~1initial-resources"
WINDOWS = {"7d": "[604800s:300s]", "30d": "[2592000s:300s]"}


def admitted(
    source: object, review: Review, configuration: JSONObject | None = None, patience: float = 30
) -> Admission:
    """Admit a review with a history that is open meanwhile."""

    async def mutate(reviewed: Review) -> Answer:
        settings = decode_strictly({"ir-data-source": str(source), **(configuration or {})}, Settings)
        history = open_history(settings.ir_data_source)
        handlers = build(settings, history, lambda: NOW + 0.5, patience)
        assert handlers.mutate is not None
        try:
            answer = handlers.mutate(reviewed)
            assert inspect.isawaitable(answer)
            found: Answer = await answer
            return found
        finally:
            await handlers.close()

    return run(CONTROLLER, Handlers(mutate=mutate), review)


def answering(rows: list[JSONObject]) -> Callable[[Question], Reply]:
    """Answer like the usage source of a case: with the row for the query, or nothing."""

    def answer(question: Question) -> Reply:
        for row in rows:
            namespace = re.search(r'namespace="([^"]*)"', question.query)
            asked = (
                WINDOWS[row["window"]] in question.query,
                ("image=~" not in question.query) is row["exactTag"],
                (namespace[1] if namespace else "") == row["namespace"],
            )
            if all(asked):
                return vector(usage=row["value"], samples=row["samples"])
        return vector()

    return answer


@pytest.mark.parametrize("case", vector_cases.plugin("InitialResources"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    configuration = {
        "ir-percentile": case["config"]["percentile"],
        "ir-namespace-only": case["config"]["namespaceOnly"],
    }
    with serve(answering(case["external"]["usageSource"]["percentileData"])) as server:
        check(admitted(server.url, review_of(case["request"]), configuration), case["expected"])


def sized_container(name: str = "c0", image: str = "web:v1", **resources: JSON) -> JSONObject:
    return container(name, image, resources=resources)


def requests(found: Admission, index: int = 0, field: str = "containers") -> JSON:
    assert found.allowed
    return found.object["spec"][field][index]["resources"].get("requests")


def annotation(found: Admission) -> JSON:
    return found.object["metadata"].get("annotations", {}).get("kubernetes.io/initial-resources")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file of samples may be."""
    return tmp_path / "usage.db"


def test_requests_come_from_a_file_of_samples(path: Path) -> None:
    write_samples(path, many(usage=1500), many(usage=2**27, resource="memory"))
    found = admitted(path, pod_review(pod(sized_container())))
    assert found.operations == (
        {
            "op": "add",
            "path": "/spec/containers/0/resources/requests",
            "value": {"cpu": "1500m", "memory": "134217728"},
        },
        {
            "op": "add",
            "path": "/metadata/annotations",
            "value": {
                "kubernetes.io/initial-resources": (
                    "Initial Resources plugin set: cpu, memory request for container c0"
                )
            },
        },
    )


@pytest.mark.parametrize(
    ("cpu", "memory", "written"),
    [
        (2000, 64_000_000, {"cpu": "2", "memory": "64M"}),
        (0, 0, {"cpu": "0", "memory": "0"}),
        (0.2, 1024, {"cpu": "1m", "memory": "1024"}),
    ],
)
def test_amounts_are_formatted_as_kubernetes_does(
    path: Path, cpu: float, memory: float, written: JSONObject
) -> None:
    write_samples(path, many(usage=cpu), many(usage=memory, resource="memory"))
    assert requests(admitted(path, pod_review(pod(sized_container())))) == written


@pytest.mark.parametrize("percentile", [1, 50, 90, 100])
def test_the_settings_choose_the_percentile(path: Path, percentile: int) -> None:
    write_samples(path, samples("web:v1", *range(1, 101)))
    found = admitted(path, pod_review(pod(sized_container())), {"ir-percentile": percentile})
    assert requests(found) == {"cpu": f"{percentile}m"}


@pytest.mark.parametrize(
    ("resources", "left"),
    [
        ({"requests": {"cpu": "1"}}, {"cpu": "1", "memory": "100"}),
        ({"limits": {"cpu": "1"}}, {"memory": "100"}),
        ({"requests": {"cpu": "1"}, "limits": {"memory": "1"}}, {"cpu": "1"}),
        ({"requests": {"storage": "1"}}, {"storage": "1", "cpu": "100m", "memory": "100"}),
        ({"requests": None, "limits": None}, {"cpu": "100m", "memory": "100"}),
    ],
)
def test_resources_with_a_request_or_limit_stay_as_they_are(
    path: Path, resources: JSONObject, left: JSONObject
) -> None:
    write_samples(path, many(), many(resource="memory"))
    assert requests(admitted(path, pod_review(pod(sized_container(**resources))))) == left


def test_init_containers_come_first_and_ephemeral_ones_are_ignored(path: Path) -> None:
    write_samples(path, many(), many("setup:v1", 7))
    reviewed = pod(
        sized_container(),
        sized_container("c1", "unknown"),
        initContainers=[sized_container("i0", "setup:v1")],
        ephemeralContainers=[sized_container("e0")],
    )
    found = admitted(path, pod_review(reviewed))
    assert [requests(found, field=field) for field in ("initContainers", "containers")] == [
        {"cpu": "7m"},
        {"cpu": "100m"},
    ]
    assert requests(found, field="ephemeralContainers") is None
    assert annotation(found) == (
        "Initial Resources plugin set: cpu request for init container i0; cpu request for container c0"
    )


WEEK_AND_MONTH = (
    {"count": 29, "usage": 1},
    {"count": 5, "usage": 2, "days_ago": 20},
    {"count": 30, "usage": 3, "namespace": "other"},
    {"count": 400, "usage": 4, "namespace": "other", "days_ago": 20},
    {"image": "web:v2", "count": 9_000, "usage": 5, "days_ago": 20},
)


@pytest.mark.parametrize(
    ("groups", "namespace_only", "cpu"),
    [
        (({"count": 30, "usage": 1}, *WEEK_AND_MONTH[1:]), False, "1m"),
        (WEEK_AND_MONTH, False, "2m"),
        (({"count": 1, "usage": 1}, *WEEK_AND_MONTH[2:]), False, "3m"),
        (({"count": 1, "usage": 1}, *WEEK_AND_MONTH[3:]), False, "4m"),
        (({"count": 1, "usage": 1}, *WEEK_AND_MONTH[4:]), False, "5m"),
        (({"count": 1, "usage": 1}, *WEEK_AND_MONTH[2:]), True, "5m"),
        (({"count": 1, "usage": 1}, *WEEK_AND_MONTH[2:4]), True, "1m"),
        (({"count": 1, "usage": 1},), False, "1m"),
        (({"count": 30, "usage": 1, "days_ago": 31},), False, None),
        (({"count": 400, "usage": 3, "namespace": "other"},), True, None),
        (({"image": "webmail:v1", "count": 400, "usage": 9},), False, None),
    ],
)
def test_the_search_widens_until_it_finds_thirty_samples(
    path: Path, groups: tuple[JSONObject, ...], *, namespace_only: bool, cpu: str | None
) -> None:
    write_samples(path, *(many(**group) for group in groups))
    found = admitted(path, pod_review(pod(sized_container())), {"ir-namespace-only": namespace_only})
    assert requests(found) == (None if cpu is None else {"cpu": cpu})


def test_the_queries_are_those_of_kubernetes() -> None:
    wanted = UsageQuery(
        resource="cpu", percentile=90, image="r:5000/web:v1", namespace="shop", start=NOW - 7 * DAY, end=NOW
    )

    def asked(*, namespace_only: bool) -> list[tuple[int, str, str, bool]]:
        return [
            ((query.end - query.start) // DAY, query.namespace, query.image, query.any_tag)
            for query in usage_queries(wanted, namespace_only=namespace_only)
        ]

    exact = [(7, "shop", "r:5000/web:v1", False), (30, "shop", "r:5000/web:v1", False)]
    assert asked(namespace_only=True) == [*exact, (30, "shop", "r:5000/web", True)]
    assert asked(namespace_only=False) == [
        *exact,
        (7, "", "r:5000/web:v1", False),
        (30, "", "r:5000/web:v1", False),
        (30, "", "r:5000/web", True),
    ]


@pytest.mark.parametrize(
    "image", ["", None, 7, "a" * 521, "web\n:v1", "w\u00e9b", 'web"} or vector(1) #\ud800']
)
def test_texts_that_are_not_image_names_are_never_looked_up(image: JSON) -> None:
    with serve(lambda _: vector(usage=1, samples=100)) as server:
        assert admitted(server.url, pod_review(pod({"name": "c0", "image": image}))).operations == ()
    assert server.asked == []


def test_containers_with_the_same_image_share_a_query() -> None:
    with serve(lambda _: vector(usage=1, samples=100)) as server:
        found = admitted(server.url, pod_review(pod(*(sized_container(f"c{index}") for index in range(9)))))
    assert len(found.object["spec"]["containers"]) == 9
    assert all(requests(found, index) == {"cpu": "1m", "memory": "1"} for index in range(9))
    assert len(server.asked) == 2


def test_an_object_other_than_a_pod_is_a_bad_request(path: Path) -> None:
    found = admitted(path, pod_review({"kind": "Service"}))
    assert found.status is not None
    assert (found.status.code, found.status.message) == (
        400,
        "Resource was marked with kind Pod but was unable to be converted",
    )


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": {"annotations": "x"}},
        {"metadata": 5},
        {"spec": {"containers": [sized_container()] * 2 + [3]}},
    ],
)
def test_malformed_pods_are_ignored(path: Path, broken: JSONObject) -> None:
    write_samples(path, many())
    assert admitted(path, pod_review({**pod(sized_container()), **broken})).allowed


def test_updates_and_subresources_are_ignored(path: Path) -> None:
    write_samples(path, many())
    for review in (
        pod_review(pod(sized_container()), operation="UPDATE"),
        pod_review(pod(sized_container()), subresource="status"),
    ):
        assert admitted(path, review).operations == ()


def test_a_missing_file_costs_only_the_estimate(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert admitted(path, pod_review(pod(sized_container()))).operations == ()
    (record,) = caplog.records
    assert (record.levelno, record.getMessage()) == (logging.WARNING, "usage could not be estimated")
    assert vars(record)["reason"] == "the file does not exist"
    assert vars(record)["count"] == 2


@pytest.mark.parametrize(
    "reply",
    [failure("internal", "secret-image", 500), Reply(b"secret-image"), vector(usage="+Inf", samples="99")],
)
def test_a_failing_server_costs_only_the_estimate(reply: Reply, caplog: pytest.LogCaptureFixture) -> None:
    with serve(lambda _: reply) as server:
        found = admitted(server.url, pod_review(pod(sized_container(image="secret-image:v1"))))
    assert found.allowed
    assert found.operations == ()
    assert "secret-image" not in str([vars(record) for record in caplog.records])


def test_a_failure_for_one_resource_does_not_affect_the_other() -> None:
    def answer(question: Question) -> Reply:
        return vector(usage=1, samples=30) if "memory" in question.query else failure("timeout", "", 503)

    with serve(answer) as server:
        found = admitted(server.url, pod_review(pod(sized_container())))
    assert requests(found) == {"memory": "1"}
    assert annotation(found) == "Initial Resources plugin set: memory request for container c0"


def test_a_hanging_server_costs_only_its_estimates(caplog: pytest.LogCaptureFixture) -> None:
    over = threading.Event()

    def answer(question: Question) -> Reply:
        if "memory" in question.query:
            over.wait(120)
        return vector(usage=1, samples=30)

    with serve(answer) as server:
        try:
            found = admitted(server.url, pod_review(pod(sized_container())), patience=3)
        finally:
            over.set()
    assert requests(found) == {"cpu": "1m"}
    assert [vars(record)["reason"] for record in caplog.records] == ["the history did not answer in time"]


ENDLESS = """
CREATE VIEW samples AS
  WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers)
  SELECT 1999999999 AS time, 'shop' AS namespace, 'web:v1' AS image, 'cpu' AS resource, i AS usage FROM numbers;
"""


def test_an_endless_file_costs_only_the_estimate(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(ENDLESS)
    assert admitted(path, pod_review(pod(sized_container())), patience=0.2).operations == ()


@dataclasses.dataclass(frozen=True)
class Broken:
    """A history that fails."""

    async def usage(self, query: UsageQuery) -> Usage:
        raise KeyError(query.image)

    async def close(self) -> None:
        """Do nothing."""


def test_any_exception_of_a_history_costs_only_the_estimate(caplog: pytest.LogCaptureFixture) -> None:
    handlers = build(Settings(), Broken())
    assert run(CONTROLLER, handlers, pod_review(pod(sized_container(image="secret-image")))).operations == ()
    assert "KeyError" in str([vars(record) for record in caplog.records])
    assert "secret-image" not in str([vars(record) for record in caplog.records])


def test_closing_the_controller_closes_its_history() -> None:
    closed = asyncio.Event()

    class Closing(Broken):
        async def close(self) -> None:
            closed.set()

    async def close() -> None:
        await build(Settings(), Closing()).close()

    asyncio.run(close())
    assert closed.is_set()


def test_a_cancelled_review_leaves_nothing_behind(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(ENDLESS)

    async def cancelled() -> None:
        handlers = build(Settings(), open_history(str(path)), lambda: NOW)
        assert handlers.mutate is not None
        answer = handlers.mutate(pod_review(pod(sized_container())))
        assert inspect.isawaitable(answer)
        asking = asyncio.ensure_future(answer)
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(cancelled())


def test_without_settings_the_default_file_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert admit(CONTROLLER, pod_review(pod(sized_container()))).operations == ()
    assert list(tmp_path.iterdir()) == []
    write_samples(tmp_path / "usage-history.db", many())
    with contextlib.closing(sqlite3.connect(tmp_path / "usage-history.db")) as connection:
        connection.execute("UPDATE samples SET time = unixepoch() - 60")
        connection.commit()
    assert requests(admit(CONTROLLER, pod_review(pod(sized_container())))) == {"cpu": "100m"}


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        (
            {"ir-data-source": "influxdb"},
            (
                "unknown data source influxdb: name a SQLite file, or the URL of a Prometheus,"
                " http:// or https://"
            ),
        ),
        ({"ir-percentile": 0}, "ir-percentile: Invalid value: 0: must be between 1 and 100, inclusive"),
        ({"ir-percentile": 101}, "ir-percentile: Invalid value: 101: must be between 1 and 100, inclusive"),
        ({"ir-percentil": 1}, 'unknown field "ir-percentil"; known fields: ir-data-source, ir-percentile'),
    ],
)
def test_invalid_settings_are_rejected(configuration: JSONObject, text: str) -> None:
    with pytest.raises(ConfigurationError) as fault:
        configure_controller(CONTROLLER, configuration)
    assert text in str(fault.value)


@given(pods())
def test_a_second_pass_changes_nothing(reviewed: JSONObject) -> None:
    review = pod_review(reviewed)
    known = _Known()
    once = run(CONTROLLER, build(Settings(), known), review)
    assert once.allowed
    assert_minimal(review.object, once.operations)
    assert run(CONTROLLER, build(Settings(), known), pod_review(once.object)).operations == ()


class _Known(Broken):
    """A history that knows all images."""

    async def usage(self, query: UsageQuery) -> Usage:
        return Usage(len(query.image), 30)


def test_its_page_shows_the_table_and_the_query() -> None:
    text = (Path(__file__).parents[2] / "docs/controllers/InitialResources.md").read_text("utf-8")
    question = UsageQuery(
        resource="cpu", percentile=90, image="web:v1", namespace="shop", start=0, end=7 * DAY
    )
    assert f"```sql{SCHEMA}```\n" in text
    assert f"```promql\n{promql(question)}\n```\n" in text
