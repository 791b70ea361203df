"""Configurations are defaulted and validated as in Kubernetes' own tests."""

from __future__ import annotations

import re

import msgspec
import pytest

from pratique.apimachinery.field_errors import join
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.configuration.admissionregistration import (
    WebhookConfigurationDocument,
    apply_webhook_defaults,
    decode_webhook_configuration,
)
from pratique.configuration.expression_validation import check_match_condition
from pratique.configuration.webhook_validation import (
    ValidationOptions,
    update_validation_options,
    validate_configuration,
    validation_options,
)
from support.vector_cases import kind, source


def decode(case: JSONObject, member: str) -> WebhookConfigurationDocument:
    document = decode_webhook_configuration(case["input"][member])
    return apply_webhook_defaults(document) if case["input"]["applyDefaults"] else document


def strictness(case: JSONObject, new: WebhookConfigurationDocument) -> ValidationOptions:
    if case["input"]["operation"] == "create":
        return validation_options(new.version, check_match_condition)
    return update_validation_options(new, decode(case, "oldConfiguration"), check_match_condition)


def as_json(text: str) -> str:
    """A text with its lists of strings as they have been since 1.34: in JSON, and not in Go."""
    return re.sub(r"\[\]string\{(.*?)\}", lambda found: f"[{found[1]}]".replace('", "', '","'), text)


@pytest.mark.parametrize("case", kind("validation"), ids=source)
def test_a_configuration_is_validated_as_in_kubernetes(case: JSONObject) -> None:
    document = decode(case, "configuration")
    errors = validate_configuration(document, strictness(case, document))
    assert (not errors) is case["expected"]["valid"]
    assert as_json(case["expected"].get("errorContains", "")) in join(errors)


@pytest.mark.parametrize("case", kind("defaulting"), ids=source)
def test_a_configuration_is_defaulted_as_in_kubernetes(case: JSONObject) -> None:
    written = msgspec.to_builtins(apply_webhook_defaults(decode_webhook_configuration(case["input"])))
    assert_holds(msgspec.json.decode(msgspec.json.encode(written)), case["expected"])


def assert_holds(found: JSON, expected: JSON) -> None:
    """Assert that ``found`` has ``expected`` and otherwise only empty lists."""
    if isinstance(expected, dict) and expected:
        for member in expected:
            assert_holds(found[member], expected[member])
        others = {member for member in found.keys() - expected.keys() if found[member] not in ([], {})}
        assert others <= {"apiVersion", "kind"}
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for found_item, expected_item in zip(found, expected, strict=True):
            assert_holds(found_item, expected_item)
    else:
        assert found == expected
