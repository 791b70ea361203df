"""Bytes to what ``pratique review`` is given: documents of any kind, and the requests that they make."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing import clusters
from fuzzing.seed_files import files
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.requests import Operation
from pratique_cli.reviews.inputs import read_inputs
from pratique_cli.reviews.requests import RequestShape, review_of

SUFFIXES = ("yaml", "json", "jsonl")


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Make the cluster."""
    store = clusters.store()

    def attempt(data: bytes) -> bool:
        chosen = zlib.crc32(data)
        shape = RequestShape(operation=list(Operation)[chosen % 4], old=store)
        file = folder / f"manifest.{SUFFIXES[chosen % 3]}"
        file.write_bytes(data)
        understood = False
        for number, found in enumerate(read_inputs(file)):
            if isinstance(found, InputError):
                continue
            found.position(("metadata", "name"))
            try:
                review_of(found, store, number, shape)
                understood = True
            except InputError as error:
                assert str(file) in str(error)  # noqa: PT017 - what matters is that it is the right one
        return understood

    yield attempt


def seeds() -> Iterator[bytes]:
    """Manifests, reviews, and some of each form of YAML."""
    yield from files("manifests/*.yaml", "*/input.yaml", "*/*/pod.yaml", "reviews/*.json", "review.json")
    yield b"%YAML 1.1\n---\n&a {apiVersion: v1, kind: ConfigMap, metadata: {name: &b a}, data: {x: *b}}\n...\n"
    yield b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  <<: {x: 1}\n  y: |2-\n    z\n"
    yield b"{'apiVersion': v1, kind: Secret, metadata: {name: a}, x: !!binary aGk=, y: 0o7, z: .inf, w: 1:30}"
    yield b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"a"}}\n{"kind":"List","items":[]}\n'
    yield b"? [a, b]\n: !!set {c}\n"
