"""What an object may take of validation, and how much of what is wrong with it is told."""

from __future__ import annotations

import pytest

from pratique.apimachinery.field_errors import MAX_ERROR_CHARACTERS, MAX_ERRORS
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.statuses import Status
from pratique.registry.custom_resources import schema_validation, value_validation
from pratique.registry.custom_resources.correlation import Correlation
from pratique.registry.custom_resources.schema_validation import LEFT_OUT, SchemaValidator
from pratique.registry.custom_resources.structural import structural
from pratique.registry.custom_resources.value_validation import ERRORS_LEFT_OUT, plain, told
from pratique.registry.validation.kind_validation import TooMuchWorkError
from support.manifest_decisions import decide_manifest

_TEXT: JSONObject = {"type": "string"}


def _refusal(items: JSONObject, value: list[JSON]) -> Status | None:
    """Why a list is refused whose definition has a schema of its items."""
    schema = {"type": "object", "properties": {"list": {"type": "array", "items": items}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"}
    definition: JSONObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    ship: JSONObject = {
        "apiVersion": "example.com/v1",
        "kind": "Ship",
        "metadata": {"name": "a", "namespace": "shop"},
        "list": value,
    }
    return decide_manifest(ship, definitions=[definition]).status


def _errors(items: JSONObject, value: list[JSON]) -> list[str]:
    validator = SchemaValidator({"type": "array", "items": items})
    return [str(error) for error in validator.errors(value, path="f")]


def _alternatives(count: int, schema: JSONObject | None = None) -> JSONObject:
    """A schema of so many alternatives, of which only the last one is for anything."""
    return {"type": "object", "anyOf": [*([schema or {"required": ["x"]}] * (count - 1)), {}]}


def test_the_errors_of_very_many_missing_fields_are_not_all_told() -> None:
    refused = _refusal({"type": "object", "required": [f"n{number}" for number in range(500)]}, [{}] * 500)
    assert refused is not None
    assert refused.details is not None
    assert (refused.code, len(refused.details.causes)) == (422, MAX_ERRORS + 1)
    assert [(cause.field, cause.message) for cause in refused.details.causes[-2:]] == [
        ("list[19].n499", "Required value"),
        ("<nil>", f'Invalid value: "": {ERRORS_LEFT_OUT}'),
    ]


def test_very_long_errors_are_not_all_told() -> None:
    refused = _refusal({**_TEXT, "enum": [f"value-{number}" for number in range(20_000)]}, ["x"] * 60)
    assert refused is not None
    assert refused.details is not None
    assert len(refused.message) < MAX_ERROR_CHARACTERS + 400_000
    assert refused.details.causes[-1].message.endswith(ERRORS_LEFT_OUT)


@pytest.mark.parametrize(("limit", "value"), [("MAX_ERRORS", 3), ("MAX_ERROR_CHARACTERS", 98)])
def test_errors_are_told_up_to_a_limit(limit: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [plain(f"error {number}").error for number in range(4)]
    assert told(errors) == errors
    monkeypatch.setattr(value_validation, limit, value)
    assert told(errors[:3]) == errors[:3]
    assert told(errors) == [*errors[:3], plain(ERRORS_LEFT_OUT).error]


def test_an_object_with_more_steps_than_any_real_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema_validation, "MAXIMUM_STEPS", 10_000)
    assert _refusal(_alternatives(100), [{}] * 90) is None
    refused = _refusal(_alternatives(100), [{}] * 100)
    assert refused is not None
    assert (refused.code, refused.reason) == (413, "RequestEntityTooLarge")
    assert refused.message == "Request entity too large: holding it against its schema takes too many steps"


def test_a_long_text_is_not_matched_with_a_large_pattern() -> None:
    pattern = {**_TEXT, "pattern": "[a-z]{1000}" * 20}
    assert _errors(pattern, ["a" * 20_000]) == []
    with pytest.raises(TooMuchWorkError):
        _errors(pattern, ["a" * 100_000])


_INNER: JSONObject = {"type": "object", "properties": {"y": {"type": "array", "items": {"maximum": 1}}}}


@pytest.mark.parametrize(
    ("schema", "value", "copies"),
    [
        (_alternatives(20), {}, 500),
        (_alternatives(20, _INNER), {"y": [2] * 20}, 25),
        ({"oneOf": [{"allOf": [{"required": ["x"]}] * 20}, {}]}, {}, 500),
        ({"not": {"anyOf": [{"required": ["x"]}] * 20}}, {}, 500),
        ({"enum": [*range(1000), 1000.5]}, 1000.5, 10),
        ({"type": "object", "additionalProperties": _alternatives(20)}, {"a": {}}, 500),
        ({"properties": {"a": {"properties": {"b": _alternatives(20)}}}}, {"a": {"b": {}}}, 500),
        ({"type": "array", "items": _alternatives(20)}, [{}], 500),
    ],
)
def test_what_a_value_is_held_against_counts(
    schema: JSONObject, value: JSON, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_validation, "MAXIMUM_STEPS", 10_000)
    assert _errors(schema, [value] * (copies // 3)) == []
    with pytest.raises(TooMuchWorkError):
        _errors(schema, [value] * copies)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, _TEXT]}, 1),
        ({**_TEXT, "enum": [str(number) for number in range(999)]}, "1"),
        ({**_TEXT, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "maxLength": 63}, "a" * 63),
    ],
)
def test_what_a_schema_of_the_usual_kind_takes_does_not_count(
    schema: JSONObject, value: JSON, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_validation, "MAXIMUM_STEPS", 0)
    assert _errors(schema, [value] * 1000) == []


def test_the_search_for_errors_ends_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    value: list[JSON] = [1] * 300
    found = _errors(_TEXT, value)
    assert len(found) == 300
    monkeypatch.setattr(schema_validation, "MAXIMUM_ERROR_STEPS", 500)
    begun = _errors(_TEXT, value)
    assert begun[-1] == str(LEFT_OUT)
    assert begun[:-1] == found[: len(begun) - 1]
    assert 40 < len(begun) < 100


def test_what_is_valid_counts_in_the_search_for_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    value: list[JSON] = [*["x"] * 300, 1]
    monkeypatch.setattr(schema_validation, "MAXIMUM_ERROR_STEPS", 400)
    assert len(_errors(_TEXT, value)) == 1
    monkeypatch.setattr(schema_validation, "MAXIMUM_ERROR_STEPS", 200)
    assert _errors(_TEXT, value) == [str(LEFT_OUT)]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": _TEXT}, [1] * 300),
        ({"required": [f"n{number}" for number in range(300)]}, {}),
    ],
)
def test_one_error_more_is_kept_than_is_told(
    schema: JSONObject, value: JSON, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_validation, "MAX_ERRORS", 10)
    assert len(SchemaValidator(schema).errors(value)) == 11


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
def test_what_the_search_has_not_seen_is_not_told(keyword: str, monkeypatch: pytest.MonkeyPatch) -> None:
    schema: JSONObject = {keyword: [{"items": _TEXT}], "not": {"items": {"maximum": 2}}}
    monkeypatch.setattr(schema_validation, "MAXIMUM_ERROR_STEPS", 10)
    told = [str(error) for error in SchemaValidator(schema).errors([1] * 300, path="f")]
    assert told[-1] == str(LEFT_OUT)
    assert not any("not)" in error or "anyOf" in error or "oneOf" in error for error in told)


def test_an_update_is_refused_if_its_errors_are_not_all_found(monkeypatch: pytest.MonkeyPatch) -> None:
    schema: JSONObject = {"type": "object", "properties": {"f": {"type": "array", "items": _TEXT}}}
    value: JSONObject = {"f": [1] * 300}
    correlation = Correlation(value, {"f": [*value["f"]]}, structural(schema))
    assert SchemaValidator(schema).errors(value, correlation) == []
    monkeypatch.setattr(schema_validation, "MAXIMUM_ERROR_STEPS", 500)
    assert SchemaValidator(schema).errors(value, correlation) == [LEFT_OUT]
