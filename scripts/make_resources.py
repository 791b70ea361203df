#!/usr/bin/env python3
# ruff: noqa: T201 - a command speaks to whoever runs it
"""Make ``services/pratique/cluster/resources.json`` from the API descriptions that Kubernetes publishes.

Each argument is the source tree of one release, oldest first, as ``RELEASE=FOLDER``; the last one is the
release that counts as current::

    scripts/make_resources.py 1.10=kubernetes-1.10.0 1.11=kubernetes-1.11.0 … 1.36=kubernetes-1.36.3

A release after those that the file is of is added to it by ``--add`` alone; the folder may be that of the Go module::

    scripts/make_resources.py --add 1.37=$(go list -m -f '{{.Dir}}' k8s.io/kubernetes)

What is read of each tree (Kubernetes is licensed under Apache-2.0): ``api/discovery/*__*.json`` where it is
there (from 1.30 on), else ``api/openapi-spec/swagger.json``. What a release serves and no later one does is
written with the release that no longer has it.
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from typing import Any, NamedTuple, TypeAlias

Collected: TypeAlias = "dict[tuple[str, str, str], tuple[Entry, str | None]]"
"""Everything ever served, as the newest release has it, and the release that no longer has it."""
Served: TypeAlias = "dict[tuple[str, str, str], Entry]"
"""What a release serves, by group, version and resource; the resource may be ``pods/exec``."""

TARGET = pathlib.Path(__file__).parents[1] / "services" / "pratique" / "cluster" / "resources.json"

# The order in which an API server installs its groups, which is the order of equivalent resources:
# pkg/controlplane/instance.go StorageProviders; those of removed groups: pkg/master/master.go of 1.15.
# The last two are installed by servers of their own.
GROUPS = [
    "", "internal.apiserver.k8s.io", "auditregistration.k8s.io", "authentication.k8s.io",
    "authorization.k8s.io", "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io",
    "discovery.k8s.io", "extensions", "lifecycle.k8s.io", "networking.k8s.io", "node.k8s.io", "policy",
    "rbac.authorization.k8s.io", "scheduling.k8s.io", "settings.k8s.io", "storage.k8s.io",
    "storagemigration.k8s.io", "flowcontrol.apiserver.k8s.io", "apps", "admissionregistration.k8s.io",
    "events.k8s.io", "resource.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io",
]  # fmt: skip

# Served by no API server from 1.16 on unless --runtime-config asks for them, though 1.16 and 1.17 still
# describe them: the release that the deprecated API migration guide names counts.
OFF_SINCE_1_16 = re.compile(r"apps/v1beta[12]/.*|extensions/v1beta1/(?!ingresses).*")

_PATH = re.compile(
    r"/(?:api/(?P<core>v1)|apis/(?P<group>[^/{]+)/(?P<version>[^/{]+))"
    r"(?P<namespaced>/namespaces/\{namespace\})?"
    r"/(?P<resource>[^/{]+)(?:/\{name\}(?:/(?P<subresource>[^/{]+))?)?/?"
)


class Entry(NamedTuple):
    """One resource or subresource of one release."""

    kind: str
    """``Pod``, or ``autoscaling/v1/Scale`` where its group and version are not the resource's own."""
    namespaced: bool


def read_discovery(folder: pathlib.Path) -> Served:
    """Read the ``APIResourceList`` documents of a release."""
    served: Served = {}
    for file in sorted(folder.glob("*__*.json")):
        document = json.loads(file.read_text())
        group, _, version = document.get("groupVersion", "").rpartition("/")
        for item in document.get("resources", ()):
            own = (item.get("group", group), item.get("version", version))
            kind = qualified(*own, item["kind"], group, version)
            served[group, version, item["name"]] = Entry(kind, item["namespaced"])
    return served


def read_swagger(file: pathlib.Path) -> Served:
    """Read the OpenAPI document of a release; its operations name the kinds."""
    served: Served = {}
    for path, item in json.loads(file.read_text())["paths"].items():
        match = _PATH.fullmatch(path)
        kind = next(filter(None, map(kind_of, item.values())), None)
        if match is None or kind is None:
            continue
        group, version = match["group"] or "", match["core"] or match["version"]
        name = "/".join(filter(None, (match["resource"], match["subresource"])))
        before = served.get((group, version, name))
        served[group, version, name] = Entry(
            qualified(kind["group"], kind["version"], kind["kind"], group, version),
            bool(match["namespaced"]) or (before is not None and before.namespaced),
        )
    return served


def kind_of(operation: Any) -> dict[str, str] | None:
    """The kind of a swagger operation."""
    return operation.get("x-kubernetes-group-version-kind") if isinstance(operation, dict) else None


def qualified(group: str, version: str, kind: str, home_group: str, home_version: str) -> str:
    """Write a kind, with group and version where they are not those of its resource."""
    return kind if (group, version) == (home_group, home_version) else f"{group}/{version}/{kind}"


def read_release(folder: pathlib.Path) -> Served:
    """Read what a release serves."""
    discovery = folder / "api" / "discovery"
    if discovery.is_dir():
        return read_discovery(discovery)
    return read_swagger(folder / "api" / "openapi-spec" / "swagger.json")


def off_by_default(release: str, key: tuple[str, str, str]) -> bool:
    """True where the release describes what its server no longer serves."""
    minor = int(release.split(".")[1])
    return minor >= 16 and OFF_SINCE_1_16.fullmatch("/".join(key)) is not None


def collect(releases: list[tuple[str, Served]], before: Collected) -> Collected:
    """Add releases to what was collected before."""
    collected = before
    for release, served in releases:
        collected = {
            key: (entry, release if gone is None and key not in served else gone)
            for key, (entry, gone) in collected.items()
        }
        collected |= {key: (entry, None) for key, entry in served.items()}
    return collected


def read_collected() -> Collected:
    """Read what the file has."""
    collected: Collected = {}
    for group, version, name, kind, namespaced, gone, subresources in json.loads(TARGET.read_text())[
        "resources"
    ]:
        collected[group, version, name] = (Entry(kind, namespaced), gone)
        for subresource, its_kind in subresources.items():
            collected[group, version, f"{name}/{subresource}"] = (Entry(its_kind, namespaced), gone)
    return collected


def version_order(version: str) -> tuple[int, int, int]:
    """Stable before beta before alpha, and the newest of each first, as kube-aware version sorting has it."""
    match = re.fullmatch(r"v(\d+)(?:(alpha|beta)(\d+))?", version)
    if match is None:
        raise ValueError(f"not a Kubernetes API version: {version}")
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return stage, -int(match[1]), -int(match[3] or 0)


def rows(collected: Collected) -> list[list[Any]]:
    """One row for each resource, in the order in which an API server registers them."""
    order = sorted(
        (key for key in collected if "/" not in key[2]),
        key=lambda key: (GROUPS.index(key[0]), version_order(key[1]), key[2]),
    )
    return [row(key, collected) for key in order]


def row(key: tuple[str, str, str], collected: dict[Any, tuple[Entry, str | None]]) -> list[Any]:
    """The row of one resource: group, version, resource, kind, namespaced, removed in, subresources."""
    entry, gone = collected[key]
    subresources = {
        name.partition("/")[2]: sub.kind
        for (group, version, name), (sub, sub_gone) in sorted(collected.items())
        if (group, version) == key[:2] and name.startswith(key[2] + "/") and (gone or not sub_gone)
    }
    return [*key, entry.kind, entry.namespaced, gone, subresources]


def main(arguments: list[str]) -> int:
    """Write the catalogue; the exit code."""
    adds = arguments[:1] == ["--add"]
    if not arguments[adds:] or not all("=" in argument for argument in arguments[adds:]):
        print(__doc__, file=sys.stderr)
        return 2
    releases: list[tuple[str, Served]] = []
    for argument in arguments[adds:]:
        release, _, folder = argument.partition("=")
        served = read_release(pathlib.Path(folder))
        kept = {key: entry for key, entry in served.items() if not off_by_default(release, key)}
        releases.append((release, kept))
    collected = collect(releases, read_collected() if adds else {})
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows(collected))
    found = re.search(r"Kubernetes (\S+) to", TARGET.read_text()) if adds else None
    first, last = found[1] if found else releases[0][0], releases[-1][0]
    head = {
        "origin": f"api/discovery and api/openapi-spec of Kubernetes {first} to {last}",
        "license": "Apache-2.0, Copyright The Kubernetes Authors",
        "made_by": "scripts/make_resources.py",
    }
    TARGET.write_text(f'{json.dumps(head)[:-1]}, "resources": [\n{lines}\n]}}\n')
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
