"""How pages write objects: as YAML that reads like a manifest, each line with the path of its field."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest
import yaml

from pratique_frontdoor.console.presentation import object_lines

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
