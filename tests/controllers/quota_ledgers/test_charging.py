"""Charging: all accounts or none, never twice, and never more than a decision allows."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError, RefusalError
from pratique.apimachinery.quantities import Quantity
from pratique.controllers.quota.ledger import Account, Ledger, Usage, open_ledger
from support import postgres
from support.quota_ledgers import account, admitted, amounts, asking, charge, plus, pods_used, up_to


@contextlib.asynccontextmanager
async def opened(url: str, number: int = 1) -> AsyncIterator[list[Ledger]]:
    """The ledgers of several services at the same URL."""
    ledgers = [open_ledger(url) for _ in range(number)]
    try:
        yield ledgers
    finally:
        await asyncio.gather(*(ledger.close() for ledger in ledgers))


def test_a_charge_is_added_to_the_usage(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as [ledger]:
            await ledger.charge([account(pods="5")], charge(), plus("2"))
            assert await pods_used(ledger, account()) == ["7"]

    asyncio.run(scenario())


def test_a_database_without_an_encoding_works(server: postgres.Server) -> None:
    async def scenario() -> None:
        async with opened(server.database("SQL_ASCII")) as [ledger]:
            await ledger.charge([account()], charge(), plus())
            assert await pods_used(ledger, account()) == ["1"]

    asyncio.run(scenario())


def test_a_charge_outlives_its_service(shared_url: str) -> None:
    async def scenario() -> None:
        for _ in range(2):
            async with opened(shared_url) as [ledger]:
                await ledger.charge([account()], charge(), plus())
        async with opened(shared_url) as [ledger]:
            assert await pods_used(ledger, account()) == ["2"]

    asyncio.run(scenario())


def test_concurrent_services_create_an_account_once(shared_url: str) -> None:
    async def scenario() -> None:
        async with opened(shared_url, 4) as ledgers:
            charging = [
                ledger.charge([account(pods="5")], charge(), plus()) for ledger in ledgers for _ in range(5)
            ]
            await asyncio.gather(*charging)
            assert await pods_used(ledgers[0], account()) == ["25"]

    asyncio.run(scenario())


def test_a_known_account_is_not_counted_again(url: str) -> None:
    starts: list[str] = []

    def start() -> Usage:
        starts.append("asked")
        return amounts(pods="1")

    async def scenario() -> None:
        async with opened(url) as [ledger]:
            for _ in range(3):
                quota = Account(namespace="shop", name="quota", uid="1", initial_usage=start)
                await ledger.charge([quota], charge(), plus())

    asyncio.run(scenario())
    assert starts == ["asked"]


def test_another_uid_is_another_quota(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as [ledger]:
            await ledger.charge([account(uid="1", pods="7")], charge(), plus())
            await ledger.charge([account(uid="2", pods="3")], charge(), plus())
            assert await pods_used(ledger, account(uid="1"), account(uid="2")) == ["8", "4"]

    asyncio.run(scenario())


def test_decide_gets_usage_in_the_order_of_the_accounts(url: str) -> None:
    seen: list[Sequence[Usage]] = []

    def decide(usages: Sequence[Usage]) -> Sequence[None]:
        seen.append(usages)
        return [None for _ in usages]

    async def scenario() -> None:
        async with opened(url) as [ledger]:
            await ledger.charge([account("b", pods="2"), account("a", pods="1")], charge(), decide)

    asyncio.run(scenario())
    assert seen == [[amounts(pods="2"), amounts(pods="1")]]


def test_accounts_without_a_new_usage_stay_as_they_are(url: str) -> None:
    def first_only(usages: Sequence[Usage]) -> Sequence[Usage | None]:
        return [amounts(pods="9"), *(None for _ in usages[1:])]

    async def scenario() -> None:
        async with opened(url) as [ledger]:
            await ledger.charge([account("b"), account("a", pods="4")], charge(), first_only)
            assert await pods_used(ledger, account("b"), account("a")) == ["9", "4"]

    asyncio.run(scenario())


def test_a_refusal_under_the_lock_charges_nothing(url: str) -> None:
    answers = [plus(), up_to(0)]

    def decide(usages: Sequence[Usage]) -> Sequence[Usage | None]:
        return answers.pop(0)(usages)

    async def scenario() -> None:
        async with opened(url) as [ledger]:
            accounts = [account("a"), account("b")]
            with pytest.raises(RefusalError, match="exceeded quota"):
                await ledger.charge(accounts, charge(), decide)
            assert await pods_used(ledger, *accounts) == ["0", "0"]

    asyncio.run(scenario())


def test_a_refusal_needs_no_lock(shared_url: str) -> None:
    """One service refuses while another one is in the middle of its charge."""
    charging, refused = threading.Event(), threading.Event()
    asked: list[int] = []

    def slow(usages: Sequence[Usage]) -> Sequence[Usage | None]:
        asked.append(1)
        if len(asked) == 2:  # the second time is under the lock
            charging.set()
            refused.wait(120)
        return plus()(usages)

    async def scenario() -> None:
        async with opened(shared_url, 2) as [ledger, other]:
            await ledger.charge([account()], charge(), plus())
            held = asyncio.create_task(ledger.charge([account()], charge(), slow))
            await asyncio.to_thread(charging.wait, 20)
            with pytest.raises(RefusalError):
                await other.charge([account()], charge(), up_to(0))
            assert not held.done()
            refused.set()
            await held

    asyncio.run(scenario())


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(str(tmp_path / "quotas.sqlite")) as [ledger]:
            assert await pods_used(ledger, account(pods="4")) == ["4"]

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_creates_no_account(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as [ledger]:
            await ledger.charge([account("other")], charge(), plus())
            assert await pods_used(ledger, account(pods="4")) == ["4"]
            assert await pods_used(ledger, account(pods="6")) == ["6"]

    asyncio.run(scenario())


def test_a_cancelled_review_charges_nothing(url: str) -> None:
    deciding, given_up = threading.Event(), threading.Event()

    def wait() -> None:
        deciding.set()
        given_up.wait(120)

    async def scenario() -> None:
        async with opened(url) as [ledger]:
            await ledger.charge([account()], charge(), plus())
            charging = asyncio.create_task(ledger.charge([account()], charge(), asking(plus(), wait)))
            await asyncio.to_thread(deciding.wait, 20)
            charging.cancel()
            await asyncio.wait([charging])
            given_up.set()
            assert charging.cancelled()
            assert await pods_used(ledger, account()) == ["1"]

    asyncio.run(scenario())


def test_a_repeated_request_is_not_charged_twice(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as [ledger]:
            first = charge("web", request_uid="7")
            await ledger.charge([account()], first, up_to(1))
            await ledger.charge([account()], charge("web", request_uid="7", is_retry=True), up_to(1))
            assert await pods_used(ledger, account()) == ["1"]

    asyncio.run(scenario())


def test_a_request_whose_uid_no_database_can_hold_is_charged_once(url: str) -> None:
    async def scenario() -> None:
        async with opened(url) as [ledger]:
            odd = {"request_uid": "7\0", "uid": "\0", "old_resource_version": "\0"}
            await ledger.charge([account()], charge("we\0b", **odd), up_to(1))
            await ledger.charge([account()], charge("we\0b", **odd, is_retry=True), up_to(1))
            assert await pods_used(ledger, account()) == ["1"]

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "fields", [{"name": "api", "request_uid": "7"}, {"request_uid": "8"}, {"request_uid": "7", "uid": "2"}]
)
def test_a_repeated_request_is_charged_if_it_was_not_before(fields: dict[str, str]) -> None:
    async def scenario() -> None:
        async with opened("") as [ledger]:
            await ledger.charge([account()], charge(request_uid="7"), plus())
            await ledger.charge([account()], charge(**fields, is_retry=True), plus())
            assert await pods_used(ledger, account()) == ["2"]

    asyncio.run(scenario())


def test_charges_in_opposite_orders_do_not_deadlock(shared_url: str) -> None:
    async def scenario() -> None:
        quotas = [account(name) for name in "abc"]
        async with opened(shared_url, 2) as [ledger, other]:
            there = [ledger.charge(quotas, charge(), plus()) for _ in range(25)]
            back = [other.charge(quotas[::-1], charge(), plus()) for _ in range(25)]
            await asyncio.gather(*there, *back)
            assert await pods_used(ledger, *quotas) == ["50", "50", "50"]

    asyncio.run(scenario())


@pytest.mark.parametrize("amount", ["100m", "1n", "9223372036854775807", "1500Mi", "3e30"])
def test_amounts_stay_exact(url: str, amount: str) -> None:
    async def scenario() -> None:
        async with opened(url) as [ledger]:
            for _ in range(10):
                await ledger.charge([account()], charge(), plus(amount))
            [usage] = await ledger.usage([account()])
            assert usage["pods"] == sum((Quantity.parse(amount) for _ in range(10)), Quantity(0))

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("services", "hard"),
    [(3, 200), *(pytest.param(services, 1_000, marks=pytest.mark.long) for services in (1, 3))],
)
def test_five_times_as_many_creates_admit_exactly_what_a_quota_has(
    services: int, hard: int, tmp_path: Path
) -> None:
    async def scenario() -> None:
        async with opened(str(tmp_path / "quotas.sqlite"), services) as ledgers:
            names = [str(number) for number in range(5 * hard)]
            admitting = [
                admitted(ledger, [account()], names[first::services], up_to(hard))
                for first, ledger in enumerate(ledgers)
            ]
            charged = [name for names in await asyncio.gather(*admitting) for name in names]
            assert len(set(charged)) == len(charged) == hard
            assert await pods_used(ledgers[0], account()) == [str(Quantity(hard))]

    asyncio.run(scenario())


def test_a_closed_ledger_charges_nothing() -> None:
    async def scenario() -> None:
        ledger = open_ledger("")
        await ledger.close()
        with pytest.raises(CallError, match="it is closed"):
            await ledger.charge([account()], charge(), plus())

    asyncio.run(scenario())


def test_the_caller_sees_exceptions_of_decide(url: str) -> None:
    error = RefusalError(statuses.plain_error("no"))

    def refuse(_: Sequence[Usage]) -> Sequence[None]:
        raise error

    async def scenario() -> None:
        async with opened(url) as [ledger]:
            with pytest.raises(RefusalError) as caught:
                await ledger.charge([account()], charge(), refuse)
            assert caught.value is error

    asyncio.run(scenario())
