#!/usr/bin/env python3
# ruff: noqa: T201 - a command speaks to whoever runs it
"""Write what a lock installs as a software bill of materials: CycloneDX 1.6, in JSON, to standard output.

Without an argument the lock is ``scripts/requirements/run.txt``, which is what the image and ``pip install`` get::

    scripts/write_sbom.py >sbom.cdx.json
    scripts/write_sbom.py scripts/requirements/build.txt >build.cdx.json

Every package that the lock names is a component, with all of the hashes that pip accepts for it: one for each file in
which its release comes. Nothing is asked of any index, and nothing depends on the time: the same lock gives the same
bytes, the serial number included.
"""

from __future__ import annotations

import itertools
import json
import pathlib
import re
import sys
import tomllib
import uuid
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[1]

_ENTRY = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>[^\s;\\]+)(?: ; (?P<marker>[^\\\n]+?))?(?: \\)?$")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_NAMES = re.compile(r"[-_.]+")


def components_of(lock: str) -> list[dict[str, Any]]:
    """Read the packages that a lock names, by their names.

    Raises:
        ValueError: a line is none that ``uv pip compile`` writes, or a package has no hash.
    """
    lines = [line for line in lock.splitlines() if line and not line.startswith("#")]
    components: list[dict[str, Any]] = []
    for line in lines:
        if found := _HASH.search(line):
            components[-1]["hashes"].append({"alg": "SHA-256", "content": found[1]})
        elif entry := _ENTRY.match(line):
            components.append(_component(**entry.groupdict()))
        else:
            raise ValueError(f"no line of a lock: {line}")
    if bare := [each["name"] for each in components if not each["hashes"]]:
        raise ValueError(f"no hash for {', '.join(bare)}")
    return sorted(components, key=lambda each: str(each["bom-ref"]))


def _component(name: str, version: str, marker: str | None) -> dict[str, Any]:
    purl = f"pkg:pypi/{name}@{version}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
    }
    if marker:
        # installed only where this holds
        component["scope"] = "optional"
        component["properties"] = [{"name": "python:environment-marker", "value": marker}]
    component["hashes"] = []
    return component


def bill_of(lock: str, project: dict[str, Any]) -> dict[str, Any]:
    """Make the bill of a lock; ``project`` is that table of ``pyproject.toml``."""
    components = components_of(lock)
    purl = f"pkg:pypi/{project['name']}@{project['version']}"
    asked_for = [*project["dependencies"], *itertools.chain(*project["optional-dependencies"].values())]
    direct = {_NAMES.sub("-", re.split(r"[<>=~;\s\[]", each)[0]).lower() for each in asked_for}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, purl + lock)}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": purl,
                "name": project["name"],
                "version": project["version"],
                "description": project["description"],
                "licenses": [{"license": {"id": project["license"]}}],
                "purl": purl,
            }
        },
        "components": components,
        # who of the others needs whom, a lock does not say
        "dependencies": [
            {"ref": purl, "dependsOn": [each["bom-ref"] for each in components if each["name"] in direct]}
        ],
    }


def main(arguments: list[str]) -> None:
    """Write the bill of the lock that is named."""
    lock = pathlib.Path(arguments[0]) if arguments else ROOT / "scripts" / "requirements" / "run.txt"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    print(json.dumps(bill_of(lock.read_text(), project), indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
