"""Reloads of policies in Python: their files are watched, and what has changed is tried before anything restarts."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sys
import traceback
from collections.abc import AsyncGenerator, Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeAlias

from watchfiles import awatch

from pratique.apimachinery.errors import ConfigurationError
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_cli.loading import check_chain

_States: TypeAlias = Mapping[Path, tuple[int, int]]
"""The modification time in nanoseconds and the size of each file."""

_DEBOUNCE_MILLISECONDS = 100
_POLL_MILLISECONDS = 2000
"""How often to look for changes without events."""
_SETTLED_SECONDS = 0.3
"""How long files must stay unchanged: editors and formatters write one after another."""
_TRIAL_SECONDS = 60.0
"""How long policies may take to be imported and checked."""


class PolicyFiles:
    """The Python files of the installed policies."""

    def __init__(self, origins: Iterable[str]) -> None:
        """Find them by the entry points ``module:attribute`` of loaded policies.

        A policy in a package has the package's files; one in a module has the Python files in the module's folder.
        """
        tops = {origin.partition(":")[0].partition(".")[0] for origin in origins}
        modules = [sys.modules[top] for top in sorted(tops) if top in sys.modules]
        self._packages = [Path(path) for module in modules for path in getattr(module, "__path__", ())]
        self._folders = [
            Path(module.__file__).parent
            for module in modules
            if not hasattr(module, "__path__") and module.__file__ is not None
        ]

    def folders(self) -> list[Path]:
        """The folders that hold the files, as they are now."""
        nested = [Path(folder) for package in self._packages for folder, _, _ in os.walk(package)]
        found = [folder for folder in [*self._folders, *nested] if folder.name != "__pycache__"]
        return [folder for folder in dict.fromkeys(found) if folder.is_dir()]

    def states(self) -> _States:
        """The state of each file."""
        found: dict[Path, tuple[int, int]] = {}
        for folder in self.folders():
            for path in folder.glob("*.py"):
                with contextlib.suppress(OSError):  # it may have gone meanwhile
                    status = path.stat()
                    found[path] = (status.st_mtime_ns, status.st_size)
        return found

    async def changes(self) -> AsyncGenerator[list[Path]]:
        """Yield the files that were changed, added or removed, once they have stayed unchanged for a moment."""
        seen = self.states()
        while True:
            await self._until_differs(seen)
            settled = await self._settled()
            changed = [path for path in {**seen, **settled} if seen.get(path) != settled.get(path)]
            seen = settled
            if changed:
                yield sorted(changed)

    async def _until_differs(self, seen: _States) -> None:
        while await asyncio.to_thread(self.states) == seen:
            hints = awatch(
                *self.folders(),
                watch_filter=None,
                recursive=False,
                debounce=_DEBOUNCE_MILLISECONDS,
                rust_timeout=_POLL_MILLISECONDS,
                yield_on_timeout=True,
            )
            async with contextlib.aclosing(hints):
                await anext(hints, None)

    async def _settled(self) -> _States:
        last: _States = {}
        while (current := await asyncio.to_thread(self.states)) != last:
            last = current
            await asyncio.sleep(_SETTLED_SECONDS)
        return last


def find_policy_problem(chain: ChainSettings, files: Iterable[Path]) -> str | None:
    """Load the policies in a new process, and check the chain with them; None if nothing is wrong.

    The problem names the file and line, if it arose in one of ``files``. This blocks for some seconds.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    trial = context.Process(target=_try, args=(sender, chain, frozenset(map(str, files))), daemon=True)
    trial.start()
    sender.close()
    try:
        if not receiver.poll(_TRIAL_SECONDS):
            return f"the policies are not imported after {_TRIAL_SECONDS:g} s"
        problem: str | None = receiver.recv()
    except EOFError:
        return "the process that imported the policies ended"
    else:
        return problem
    finally:
        trial.kill()
        trial.join()
        receiver.close()


def _try(sender: Connection, chain: ChainSettings, files: frozenset[str]) -> None:
    # Standard output has the line that says that the stack is ready, and nothing that policies print.
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.dont_write_bytecode = True
    problem = None
    try:
        load_catalogue()
        check_chain(chain)
    except ConfigurationError as error:
        place = _place(error.__cause__, files)
        problem = f"{place}: {error}" if place else str(error)
    sender.send(problem)


def _place(error: BaseException | None, files: frozenset[str]) -> str:
    """Where an error arose in the files, as ``team.py:7``; empty if it is not known."""
    if error is None:
        return ""
    if isinstance(error, SyntaxError) and error.filename in files:
        return f"{error.filename}:{error.lineno}"
    frames = traceback.StackSummary.extract(traceback.walk_tb(error.__traceback__), lookup_lines=False)
    places = [f"{frame.filename}:{frame.lineno}" for frame in frames if frame.filename in files]
    return places[-1] if places else ""
