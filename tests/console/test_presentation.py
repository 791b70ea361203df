"""How pages write objects: as YAML that reads like a manifest, each line with the path of its field."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import yaml

from pratique_frontdoor.console.presentation import object_lines, patch_size_text

POD = {
    "spec": {
        "containers": [
            {"name": "web", "args": ["-v", ""], "ports": [{"containerPort": 80}, {}]},
            {"env": [], "name": "log"},
        ]
    }
}


def test_items_of_lists_begin_behind_their_dash() -> None:
    assert "\n".join(line.text for line in object_lines(POD)) == textwrap.dedent("""\
        spec:
          containers:
            - name: web
              args:
                - "-v"
                - ""
              ports:
                - containerPort: 80
                - {}
            - env: []
              name: log""")


def test_each_line_has_the_path_of_the_field_that_it_shows() -> None:
    paths = [line.path for line in object_lines(POD)]
    assert paths[:3] == [("spec",), ("spec", "containers"), ("spec", "containers", 0, "name")]
    assert ("spec", "containers", 0, "ports", 1) in paths


@pytest.mark.parametrize(
    "value",
    [
        POD,
        {"a": [["b", ["c"]], [{"d": [[]]}], " e", "no", "- f", "1e3", None, 1.5, True]},
        {"- x": {"": [{"y: z": "#"}]}},
    ],
)
def test_what_is_shown_reads_back_as_the_object(value: Any) -> None:
    assert yaml.safe_load("\n".join(line.text for line in object_lines(value))) == value


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([], ""),
        (["x"], "1 change, 38 B"),
        (["x", "é"], "2 changes, 76 B"),
        (["x" * 10_240], "1 change, 10 KiB"),
    ],
)
def test_the_size_of_a_patch_is_that_of_its_changes_and_bytes(values: list[str], text: str) -> None:
    patch: list[Any] = [{"op": "add", "path": "/a", "value": value} for value in values]
    assert patch_size_text(patch) == text
