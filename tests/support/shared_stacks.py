"""Stacks that tests share: one for each chain in a process of the suite, whose configuration each file replaces."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable
from pathlib import Path

from pratique.apimachinery.json_values import JSONObject
from support.local_stacks import Stack, running, running_alone
from support.waiting import within

SERVICES, ONE_PROCESS = "services", "one process"
"""The ways to run a chain: ``pratique up`` with one validator, and ``pratique serve all``."""
WAYS = (SERVICES, ONE_PROCESS)
CHANGING_CHAIN = (
    "NamespaceLifecycle,DefaultTolerationSeconds,MutatingAdmissionPolicy,"
    "ValidatingAdmissionPolicy,ValidatingAdmissionWebhook"
)
"""For ``--admission-control``: it changes Pods, and denies only what a configuration denies."""
NAMESPACES = ("default", "other", "shop")
"""Those of the cluster of a stack that is new."""
_PATIENCE_SECONDS = 120.0


@dataclasses.dataclass(frozen=True, slots=True)
class SharedStack:
    """A running stack, and the folder from which it takes its files."""

    stack: Stack
    folder: Path

    def configure(self, *documents: JSONObject) -> None:
        """Replace its configuration in one step, as it may be reading that."""
        _replace(self.folder / "all.yaml", documents)

    def use_namespaces(self, *names: str) -> None:
        """Give it a cluster of these namespaces alone."""
        _replace(self.folder / "cluster.yaml", map(_namespace, names))


class SharedStacks:
    """Stacks by chain and way, each of which is started when it is first used, and runs on."""

    def __init__(self, folder: Path, ends: contextlib.ExitStack) -> None:
        """Keep files in a folder, and let all stacks end with ``ends``."""
        self._folder = folder
        self._ends = ends
        self._running: dict[tuple[str, str], SharedStack] = {}

    def of(self, way: str, chain: str, *documents: JSONObject, until: Callable[[Stack], bool]) -> SharedStack:
        """A stack with a chain that has taken up a configuration, which is what ``until`` shows."""
        shared = self._running.get((way, chain))
        if shared is None:
            shared = self._running[way, chain] = self._start(way, chain, documents)
        else:
            shared.configure(*documents)
        try:
            assert within(_PATIENCE_SECONDS, lambda: until(shared.stack))
        except (AssertionError, OSError) as error:
            code, log = shared.stack.process.poll(), shared.stack.log.read_text()[-2_000:]
            raise AssertionError(f"the stack of {way} ({code=}) did not take that up: {log}") from error
        return shared

    def _start(self, way: str, chain: str, documents: Iterable[JSONObject]) -> SharedStack:
        folder = self._folder / f"{len(self._running)}"
        folder.mkdir()
        _replace(folder / "all.yaml", documents)
        _replace(folder / "cluster.yaml", map(_namespace, NAMESPACES))
        files = ("--config", str(folder / "all.yaml"), "--cluster", str(folder / "cluster.yaml"))
        flags = ("--admission-control", chain, *files)
        starting = running("--validators", "1", *flags) if way == SERVICES else running_alone(*flags)
        return SharedStack(self._ends.enter_context(starting), folder)


def _namespace(name: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def _replace(file: Path, documents: Iterable[JSONObject]) -> None:
    new = file.with_suffix(".new")
    new.write_text("\n---\n".join(map(json.dumps, documents)))
    new.rename(file)
