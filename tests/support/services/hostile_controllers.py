"""Somebody's package of controllers, each of which does one thing that is hard on whoever runs it.

A review whose object has another name than ``bad`` is let through: at once, or, by those that are async, after a while
where its name is ``slow``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from pratique import Answer, Controller, Handlers, Review, allow, deny, member, patch, warn
from pratique.admission.controllers import BOTH

SECRET = "canary-4f9d2c"
PACKAGE = """
from support.services.hostile_controllers import CONTROLLERS
"""


def controller(handler: Callable[[Review], Any]) -> Controller:
    """Make a controller of a handler, which is called for both phases and for objects named ``bad`` alone."""
    name = "".join(word.title() for word in handler.__name__.split("_"))

    def sometimes(review: Review) -> Any:
        return handler(review) if member(review.object, "metadata", "name") == "bad" else allow()

    async def sometimes_later(review: Review) -> Any:
        if member(review.object, "metadata", "name") == "bad":
            return await handler(review)
        if member(review.object, "metadata", "name") == "slow":
            await asyncio.sleep(0.3)
        return allow()

    chosen = sometimes_later if asyncio.iscoroutinefunction(handler) else sometimes
    handlers = Handlers(mutate=chosen, validate=chosen)
    return Controller(name=name, summary=handler.__doc__ or "", phases=BOTH, build=lambda _: handlers)


def spin(_review: Review) -> Answer:
    """Never let go of the thread."""
    while True:
        pass


async def spin_async(_review: Review) -> Answer:
    """Never let go of the event loop."""
    while True:
        pass


def block(_review: Review) -> Answer:
    """Wait for ever."""
    while True:
        time.sleep(60)


async def block_async(_review: Review) -> Answer:
    """Wait for ever, without letting anybody else run."""
    while True:
        time.sleep(60)  # noqa: ASYNC251 - on purpose


def hold_the_interpreter(_review: Review) -> Answer:
    """Spend a lifetime in C, with the interpreter's lock held."""
    return warn(str(sum(range(10**15))))


def recurse(review: Review) -> Answer:
    """Recurse until Python says no."""
    return recurse(review)


def exit_python(_review: Review) -> Answer:
    """Raise SystemExit."""
    raise SystemExit(SECRET)


def interrupt(_review: Review) -> Answer:
    """Raise what Ctrl-C raises."""
    raise KeyboardInterrupt(SECRET)


def exit_at_once(_review: Review) -> Answer:
    """End the process without a word."""
    os._exit(0)


def segfault(_review: Review) -> Answer:
    """Do what broken code in C does."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return allow()


def abort(_review: Review) -> Answer:
    """Do what an assertion in C does."""
    os.abort()


def exhaust_memory(_review: Review) -> Answer:
    """Ask for more than there is."""
    return warn(str(len(bytearray(2**62))))


def return_nothing(_review: Review) -> Any:
    """Forget to answer."""


def return_a_coroutine(_review: Review) -> Any:
    """Answer with what raises once it is awaited."""

    async def later() -> Answer:
        raise ValueError(SECRET)

    return later()


def raise_unusual(_review: Review) -> Answer:
    """Raise what is not even an Exception."""
    raise BaseException(SECRET)  # noqa: TRY002 - on purpose


def kill_the_loop(_review: Review) -> Answer:
    """Close the files that everybody uses."""
    os.closerange(0, 256)
    return allow()


def deny_it(_review: Review) -> Answer:
    """Refuse, as any policy does."""
    return deny("not today", audit_annotations={"k": "v"})


def patch_it(review: Review) -> Answer:
    """Change, as any policy does."""
    return patch(review.object | {"changed": True}, warnings=("changed",))


def look_up(review: Review) -> Answer:
    """Say what the cluster holds, and whether the user may read it."""
    from pratique.cluster.authorization import AuthorizationAttributes

    names = ",".join(namespace["metadata"]["name"] for namespace in review.cluster.list("", "namespaces"))
    question = AuthorizationAttributes(user=review.user, verb="get", resource="namespaces", name="shop")
    return warn(f"{names} {review.authorizer.authorize(question).allowed}")


async def slow(_review: Review) -> Answer:
    """Take a while."""
    await asyncio.sleep(0.3)
    return allow()


async def crash_soon(_review: Review) -> Answer:
    """End the process while others are under way."""
    await asyncio.sleep(0.1)
    os._exit(3)


def say_pid(_review: Review) -> Answer:
    """Say which process this is, and what it knows of the service's flags."""
    return warn(str(os.getpid()), ",".join(name for name in os.environ if name.startswith("PRATIQUE_")))


CONTROLLERS = [
    controller(handler)
    for handler in (
        spin, spin_async, block, block_async, hold_the_interpreter, recurse, exit_python,
        interrupt, exit_at_once, segfault, abort, exhaust_memory, return_nothing, return_a_coroutine, raise_unusual,
        kill_the_loop, deny_it, patch_it, look_up, slow, say_pid,
        crash_soon,
    )
]  # fmt: skip
