"""Reviews of several sizes: the Pod of ``review.json``, with as many environment variables as it takes.

Variables make many small values, as large objects have them; one long string would be easier on whoever parses it.
"""

from __future__ import annotations

import json
from pathlib import Path

from measures import REVIEW

BYTES = {
    "2 KB": 1_800,
    "10 KB": 10_000,
    "100 KB": 100_000,
    "500 KB": 500_000,
    "1 MB": 1_000_000,
    "5 MB": 5_000_000,
}
"""At least. The first one is the review as it is, which has a few more."""
_VALUE = "x" * 64


def write_payloads(folder: Path) -> dict[str, Path]:
    """Write a file for each size; gives the files by the names of the sizes."""
    return {name: _write(folder / f"{size}.json", size) for name, size in BYTES.items()}


def _write(path: Path, size: int) -> Path:
    document = json.loads(REVIEW.read_text())
    container = document["request"]["object"]["spec"]["containers"][0]
    missing = size - len(_compact(document))
    number = len(container["env"])
    while missing > 0:
        variable = {"name": f"VARIABLE_{number:06}", "value": _VALUE}
        container["env"].append(variable)
        missing -= len(_compact(variable)) + 1
        number += 1
    path.write_bytes(_compact(document))
    return path


def _compact(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()
