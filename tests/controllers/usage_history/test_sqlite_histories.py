"""Usage histories in SQLite."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.controllers.usage_history import NO_SAMPLES, Usage, UsageHistoryError, UsageQuery
from pratique.controllers.usage_history.sqlite import open_history
from support.usage_samples import DAY, NOW, samples, write_samples


def ask(
    path: Path,
    image: str = "web:v1",
    *,
    any_tag: bool = False,
    namespace: str = "",
    percentile: int = 90,
    days: int = 7,
    resource: str = "cpu",
) -> Usage:
    query = UsageQuery(
        resource=resource,
        percentile=percentile,
        image=image,
        any_tag=any_tag,
        namespace=namespace,
        start=NOW - days * DAY,
        end=NOW,
    )
    return asyncio.run(open_history(str(path)).usage(query))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a file may be; its name contains characters with a meaning in URLs."""
    return tmp_path / "usage?mode=rwc#100%.db"


@pytest.mark.parametrize(
    ("percentile", "amount"), [(1, 1), (10, 1), (11, 2), (50, 5), (90, 9), (91, 10), (100, 10)]
)
def test_a_percentile_is_a_sample_chosen_by_its_rank(path: Path, percentile: int, amount: int) -> None:
    write_samples(path, samples("web:v1", 3, 1, 2, 10, 9, 8, 7, 4, 5, 6))
    assert ask(path, percentile=percentile) == Usage(amount, 10)


def test_amounts_are_rounded_up(path: Path) -> None:
    write_samples(path, samples("web:v1", 0.25))
    assert ask(path) == Usage(1, 1)


def test_without_samples_nothing_is_known(path: Path) -> None:
    assert ask(write_samples(path)) == NO_SAMPLES


@pytest.mark.parametrize(
    ("image", "any_tag", "namespace", "days", "count"),
    [
        ("web:v1", False, "", 7, 3),
        ("web:v1", False, "shop", 7, 2),
        ("web:v1", False, "shop", 30, 6),
        ("web:v1", False, "", 30, 7),
        ("web", False, "", 30, 10),
        ("web", True, "", 30, 17 + 50),
        ("web", True, "shop", 30, 16 + 50),
        ("we", True, "", 30, 0),
        ("web:v", True, "", 30, 0),
    ],
)
def test_only_samples_of_the_image_namespace_and_period_count(
    path: Path, image: str, *, any_tag: bool, namespace: str, days: int, count: int
) -> None:
    write_samples(
        path,
        samples("web:v1", 1, 1),
        samples("web:v1", 1, namespace="other"),
        samples("web:v1", 1, 1, 1, 1, days_ago=8),
        samples("web:v1", 1, days_ago=31),
        samples("web:v1", 1, days_ago=-1),
        samples("web:v1", 1, resource="memory"),
        samples("web", *[1] * 10),
        samples("web@sha256:01", *[1] * 20),
        samples("web:v2", *[1] * 30),
        samples("web-2:v1", 1),
        samples("web/admin:v1", 1),
        samples("webA", 1),
    )
    assert ask(path, image, any_tag=any_tag, namespace=namespace, days=days).samples == count


def test_an_image_name_cannot_inject_sql(path: Path) -> None:
    image = "web' OR ''='"
    write_samples(path, samples("web:v1", 5), samples(image, 7))
    assert ask(path, image) == Usage(7, 1)


def test_a_missing_file_is_not_created(path: Path) -> None:
    with pytest.raises(UsageHistoryError, match="the file does not exist"):
        ask(path)
    assert not path.exists()


def test_the_file_is_opened_read_only(path: Path) -> None:
    write_samples(path, samples("web:v1", 5))
    path.chmod(0o400)
    before = path.read_bytes()
    assert ask(path) == Usage(5, 1)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_samples_that_are_written_later_are_seen(path: Path) -> None:
    write_samples(path, samples("web:v1", 5))
    assert ask(path) == Usage(5, 1)
    write_samples(path, samples("web:v1", 6))
    assert ask(path) == Usage(6, 2)


@pytest.mark.parametrize("usage", ["much", b"\x01", -1, 1e300, float("inf")])
def test_a_usage_that_is_not_an_amount_is_an_error(path: Path, usage: object) -> None:
    write_samples(path, [(NOW, "shop", "web:v1", "cpu", usage)])
    with pytest.raises(UsageHistoryError, match=r"not a number|out of range"):
        ask(path)


def test_a_file_that_is_not_a_database_is_an_error(path: Path) -> None:
    path.write_text("CPU usage of the last month, as far as I remember: quite a lot. " * 20)
    with pytest.raises(UsageHistoryError, match=r"SQLite: file is not a database"):
        ask(path)


def test_a_database_without_the_table_is_an_error(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE other (time)")
    with pytest.raises(UsageHistoryError, match=r"SQLite: no such table: samples"):
        ask(path)


def test_a_locked_file_is_an_error(path: Path) -> None:
    write_samples(path, samples("web:v1", 5))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UsageHistoryError, match=r"SQLite: database is locked"):
            ask(path)


ENDLESS = """
CREATE VIEW samples AS
  WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers)
  SELECT 1 AS time, 'shop' AS namespace, 'web' AS image, 'cpu' AS resource, i AS usage FROM numbers;
"""


def test_a_cancelled_query_stops(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(ENDLESS)
    query = UsageQuery(resource="cpu", percentile=90, image="web", start=0, end=NOW)

    async def give_up() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await open_history(str(path)).usage(query)

    # Its end waits for all threads.
    asyncio.run(give_up())


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=50), st.integers(1, 100))
def test_no_more_samples_exceed_a_percentile_than_its_rest(usages: list[int], percentile: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        found = ask(
            write_samples(Path(folder) / "usage.db", samples("web:v1", *usages)), percentile=percentile
        )
    assert found.samples == len(usages)
    above, below = (
        sum(usage > found.amount for usage in usages),
        sum(usage < found.amount for usage in usages),
    )
    assert above * 100 <= len(usages) * (100 - percentile)
    assert below * 100 < len(usages) * percentile
