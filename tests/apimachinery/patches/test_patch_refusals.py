"""The errors of inapplicable patches, in the words of the API server's library."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.patches import operation, refused

MISSING = "does not apply: doc is missing path"
INVALID = "Unable to access invalid index"
WRONG_TYPE = "json: cannot unmarshal {} into Go value of type string"


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (operation("add", "/x/y", 1), f'add operation {MISSING}: "/x/y": missing value'),
        (operation("add", "/m/a/b", 1), f'add operation {MISSING}: "/m/a/b": missing value'),
        (operation("add", "/m/n/b", 1), f'add operation {MISSING}: "/m/n/b": missing value'),
        (operation("add", "/l/7/b", 1), f'add operation {MISSING}: "/l/7/b": missing value'),
        (operation("add", "/l/x/b", 1), f'add operation {MISSING}: "/l/x/b": missing value'),
        (operation("add", "noslash", 1), f'add operation {MISSING}: "noslash": missing value'),
        (
            operation("add", "/l/3", 1),
            f"error in add for path: '/l/3': {INVALID}: 3: invalid index referenced",
        ),
        (
            operation("add", "/l/-4", 1),
            f"error in add for path: '/l/-4': {INVALID}: -4: invalid index referenced",
        ),
        (
            operation("add", "/l/x", 1),
            (
                "error in add for path: '/l/x': value was not a proper array index: 'x':"
                ' strconv.Atoi: parsing "x": invalid syntax'
            ),
        ),
        (
            operation("add", "/l/1_0", 1),
            (
                "error in add for path: '/l/1_0': value was not a proper array index: '1_0':"
                ' strconv.Atoi: parsing "1_0": invalid syntax'
            ),
        ),
        (
            operation("add", "/l/9223372036854775808", 1),
            (
                "error in add for path: '/l/9223372036854775808': value was not a proper array index:"
                " '9223372036854775808': strconv.Atoi: parsing \"9223372036854775808\": value out of range"
            ),
        ),
        (operation("remove", ""), f'remove operation {MISSING}: "": missing value'),
        (
            operation("remove", "/m/x"),
            "error in remove for path: '/m/x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            operation("remove", "/l/2"),
            f"error in remove for path: '/l/2': {INVALID}: 2: invalid index referenced",
        ),
        (
            operation("remove", "/l/-"),
            "error in remove for path: '/l/-': strconv.Atoi: parsing \"-\": invalid syntax",
        ),
        (operation("replace", "/x/y", 1), f"replace operation {MISSING}: /x/y: missing value"),
        (
            operation("replace", "/l/2", 1),
            "replace operation does not apply: doc is missing key: /l/2: missing value",
        ),
        (
            operation("replace", "/l/-", 1),
            "replace operation does not apply: doc is missing key: /l/-: missing value",
        ),
        (operation("replace", "", 1), "replace operation value must be object or array: %!w(<nil>)"),
        (operation("replace", ""), "replace operation value must be object or array: %!w(<nil>)"),
        (
            operation("move", "/m/b", source="/x/y"),
            "move operation does not apply: doc is missing from path: /x/y: missing value",
        ),
        (
            operation("move", "/m/b", source="/m/x"),
            "error in move for path: 'x': Unable to remove nonexistent key: x: missing value",
        ),
        (
            operation("move", "/m/b", source="/l/2"),
            f"error in move for path: '2': {INVALID}: 2: invalid index referenced",
        ),
        (
            operation("move", "/m/b/c", source="/m"),
            "move operation does not apply: doc is missing destination path: /m/b/c: missing value",
        ),
        (
            operation("move", "/l/2", source="/l/0"),
            f"error in move for path: '/l/2': {INVALID}: 2: invalid index referenced",
        ),
        (
            operation("copy", "/m/b", source="/x/y"),
            "copy operation does not apply: doc is missing from path: /x/y: missing value",
        ),
        (
            operation("copy", "/m/b", source="/l/2"),
            f"error in copy for from: '/l/2': {INVALID}: 2: invalid index referenced",
        ),
        (
            operation("copy", "/x/y", source="/m"),
            "copy operation does not apply: doc is missing destination path: /x/y: missing value",
        ),
        (
            operation("copy", "/l/5", source="/m"),
            f"error while adding value during copy: {INVALID}: 5: invalid index referenced",
        ),
        (operation("test", "/x/y", 1), "test operation does not apply: is missing path: /x/y: missing value"),
        (operation("test", "/m/a", "2"), "testing value /m/a failed: test failed"),
        (operation("test", "/m/a"), "testing value /m/a failed: test failed"),
        (operation("test", "/m/x", 1), "testing value /m/x failed: test failed"),
        (operation("test", "/deep/l/0/k", 1.0), "testing value /deep/l/0/k failed: test failed"),
        (operation("test", "/deep/l/0/k", True), "testing value /deep/l/0/k failed: test failed"),
        (operation("test", "", {}), "testing value  failed: test failed"),
        (
            operation("test", "/l/2", 1),
            f"error in test for path: '/l/2': {INVALID}: 2: invalid index referenced",
        ),
        ({}, "Unexpected kind: unknown"),
        ({"op": 1, "path": "/a"}, "Unexpected kind: unknown"),
        (operation("merge", "/a"), "Unexpected kind: merge"),
        ({"op": "add"}, "add operation failed to decode path: missing value"),
        ({"op": "add", "path": 1}, "add operation failed to decode path: missing value"),
        ({"op": "remove", "path": None}, "remove operation failed to decode path: missing value"),
        (
            {"op": "replace"},
            "replace operation failed to decode path: operation missing path field: missing value",
        ),
        (
            {"op": "test", "path": {}},
            f"test operation failed to decode path: {WRONG_TYPE.format('object')}",
        ),
        (
            {"op": "move", "path": "/a"},
            "move operation failed to decode from: operation, missing from field: missing value",
        ),
        (
            {"op": "copy", "path": "/a", "from": []},
            f"copy operation failed to decode from: {WRONG_TYPE.format('array')}",
        ),
        (
            {"op": "move", "from": "/m/a"},
            "move operation failed to decode path: operation missing path field: missing value",
        ),
        ({"op": "copy", "from": "/m/a"}, "copy operation failed to decode path: missing value"),
    ],
)
def test_an_inapplicable_operation_is_refused_in_gos_words(written: JSONObject, expected: str) -> None:
    assert refused(written) == expected


def test_the_first_failing_operation_ends_the_patch() -> None:
    assert "/m/x" in refused(operation("remove", "/m/x"), operation("merge", "/a"))
