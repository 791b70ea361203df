"""Bytes to the objects of a cluster, and all that is looked up in it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from fuzzing import clusters
from fuzzing.seed_files import files
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import encode
from pratique.cluster.files import load_cluster


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """Name the file."""
    file = folder / "cluster.yaml"

    def attempt(data: bytes) -> bool:
        file.write_bytes(data)
        try:
            store = load_cluster([file])
        except ConfigurationError as error:
            assert str(file) in str(error)  # noqa: PT017 - what matters is that it is the right one
            return False
        for group, resource in (("", "pods"), ("", "namespaces"), ("", "limitranges")):
            for found in store.list(group, resource):
                encode(found)
        return True

    yield attempt


def seeds() -> Iterator[bytes]:
    """Clusters of the examples, manifests, and the cluster of the target of reviews."""
    yield from files("*/cluster.yaml", "manifests/*.yaml")
    yield b"---\n".join(encode(one) for one in clusters.OBJECTS)
    yield encode({"apiVersion": "v1", "kind": "List", "items": clusters.OBJECTS[:3]})
    yield (
        b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: as.example.com}\n"
        b"spec:\n  group: example.com\n  names: {plural: as, kind: A}\n  scope: Namespaced\n"
        b"  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]\n"
        b"---\napiVersion: example.com/v1\nkind: A\nmetadata: {name: a, namespace: test}\n"
    )
