"""Bytes to files of webhook configurations and policies, and to chains of what is in them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing import clusters
from fuzzing.seed_files import files, lines
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.engines.engine import open_local


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Make the cluster."""
    store = clusters.store()
    file = folder / "configuration.yaml"
    settings = ChainSettings(config=(file,))

    async def open_and_close() -> bool:
        try:
            engine = open_local(settings, store)
        except ConfigurationError as error:
            assert str(file) in str(error)  # noqa: PT017 - what matters is that it is the right one
            return False
        await engine.close()
        return True

    with asyncio.Runner() as loop:

        def attempt(data: bytes) -> bool:
            file.write_bytes(data)
            return loop.run(open_and_close())

        yield attempt


def seeds() -> Iterator[bytes]:
    """Configurations of the examples, and those of the vectors."""
    yield from files("*/policies.yaml", "*/config.yaml", "*/*/policies.yaml")
    for number, case in enumerate(lines("vectors/webhooks.jsonl")):
        if number % 3 == 0:
            for one in _configurations(case["input"]):
                yield json.dumps(one).replace("<ca>", "").encode()


def _configurations(value: JSON) -> Iterator[JSONObject]:
    if isinstance(value, dict) and str(value.get("kind")).endswith("WebhookConfiguration"):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _configurations(inner)
