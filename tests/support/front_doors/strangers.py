"""A process that opens many connections of strangers: ``python -m support.front_doors.strangers PLAN``.

They are a process of their own, so that what they cost here is not taken for what they cost a front door.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import json
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from support.forked_commands import ForkedCommand
from support.front_doors.reviews import review_body

KNOWN, FOREIGN = "known", "foreign"
"""The certificates that they may show: one that may call, and one of another authority. In files ``NAME.pem``."""
OPENED = "all are open"
_TEXT = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
_BODY = review_body(name="hang")


def _post(body: bytes) -> bytes:
    return _TEXT + b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(body), body)


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """What a stranger does: whether it shakes hands, what it shows, and what it sends."""

    shakes_hands: bool
    shows: str | None
    sends: bytes


KINDS = {
    "silent": Kind(shakes_hands=False, shows=None, sends=b""),
    "in plain text": Kind(shakes_hands=False, shows=None, sends=_post(_BODY)),
    "without a certificate": Kind(shakes_hands=True, shows=None, sends=_post(_BODY)),
    "with a foreign certificate": Kind(shakes_hands=True, shows=FOREIGN, sends=_post(_BODY)),
    "known and silent": Kind(shakes_hands=True, shows=KNOWN, sends=b""),
    "known, and its review hangs": Kind(shakes_hands=True, shows=KNOWN, sends=_post(_BODY)),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """Where they go, how many of them, and within what time."""

    port: int
    folder: str
    """Has ``ca.pem``, and the certificates that they show."""
    count: int
    seconds: float


@dataclasses.dataclass
class Strangers:
    """Strangers who are at it."""

    process: subprocess.Popen[str]

    def became(self) -> dict[str, dict[str, int]]:
        """Wait until the front door has done with all of them; how each kind ended, and how often."""
        assert self.process.stdout is not None
        ended: dict[str, dict[str, int]] = json.loads(self.process.stdout.readline())
        return ended


@contextlib.contextmanager
def strangers(plan: Plan) -> Iterator[Strangers]:
    """Let them come, until they are done with."""
    command = [sys.executable, "-m", "support.front_doors.strangers", json.dumps(dataclasses.asdict(plan))]
    with ForkedCommand(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Strangers(process)
        finally:
            process.kill()


async def _come(plan: Plan) -> dict[str, collections.Counter[str]]:
    contexts = {shows: _context(Path(plan.folder), shows) for shows in (None, KNOWN, FOREIGN)}
    ended: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in KINDS}
    clock = asyncio.get_running_loop().time
    began = clock()
    async with asyncio.TaskGroup() as tasks:
        for number in range(plan.count):
            await asyncio.sleep(began + plan.seconds * number / plan.count - clock())
            name = list(KINDS)[number % len(KINDS)]
            kind = KINDS[name]
            context = contexts[kind.shows] if kind.shakes_hands else None
            tasks.create_task(_be(plan.port, kind, context, ended[name].update))
    return ended


async def _be(
    port: int, kind: Kind, context: ssl.SSLContext | None, tell: Callable[[list[str]], object]
) -> None:
    """Run the plan, and wait for its result."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        try:
            writer.write(kind.sends)
            said = await reader.read()
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    except OSError as error:  # of which errors of TLS are some
        tell(["refused" if isinstance(error, ssl.SSLError) else type(error).__name__])
    else:
        tell([said.split(b" ", 2)[1].decode() if said.startswith(b"HTTP/") else "closed"])


def _context(folder: Path, shows: str | None) -> ssl.SSLContext:
    made = ssl.create_default_context(cafile=folder / "ca.pem")
    if shows is not None:
        made.load_cert_chain(folder / f"{shows}.pem")
    return made


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_come(Plan(**json.loads(sys.argv[1]))))), flush=True)  # noqa: T201 - the answer
