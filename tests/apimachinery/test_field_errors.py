"""Field errors in the API server's words."""

from __future__ import annotations

import pytest

from pratique.apimachinery import field_errors
from pratique.apimachinery.field_errors import OMITTED, ROOT, FieldError, FieldPath, GoLiteral
from pratique.apimachinery.statuses import StatusCause

NAME = ROOT / "webhooks" / 0 / "name"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (ROOT, ""),
        (ROOT / "metadata" / "name", "metadata.name"),
        (NAME, "webhooks[0].name"),
        (ROOT / 3 / 4, "[3][4]"),
        ((ROOT / "values" / 0).key("tier"), "values[0][tier]"),
        ((ROOT / "capacity").key("a.b/c") / "value", "capacity[a.b/c].value"),
    ],
)
def test_a_field_path_prints_with_dots_and_brackets(path: FieldPath, text: str) -> None:
    assert str(path) == text


def test_field_paths_are_equal_by_their_steps_alone() -> None:
    whole = FieldPath(("webhooks", 0, "name"))
    assert whole == NAME == FieldPath(("webhooks", 0)) / "name" != ROOT / "webhooks" / 0
    assert (whole != NAME) is False
    assert {whole: 1}[NAME] == 1
    assert NAME.steps == whole.steps


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (field_errors.required(NAME), "webhooks[0].name: Required value"),
        (field_errors.required(NAME, "give one"), "webhooks[0].name: Required value: give one"),
        (field_errors.invalid(NAME, 'a"b', "no"), 'webhooks[0].name: Invalid value: "a\\"b": no'),
        (field_errors.invalid(NAME, 31, "no"), "webhooks[0].name: Invalid value: 31: no"),
        (field_errors.invalid(NAME, True, "no"), "webhooks[0].name: Invalid value: true: no"),
        (field_errors.invalid(NAME, None, "no"), "webhooks[0].name: Invalid value: null: no"),
        (
            field_errors.invalid(NAME, ("*/*", "a"), "no"),
            'webhooks[0].name: Invalid value: ["*/*","a"]: no',
        ),
        (field_errors.invalid(NAME, [], "no"), "webhooks[0].name: Invalid value: []: no"),
        (field_errors.invalid(NAME, {"a": [1]}, "no"), 'webhooks[0].name: Invalid value: {"a":[1]}: no'),
        (field_errors.invalid(NAME, OMITTED, "no"), "webhooks[0].name: Invalid value: no"),
        (field_errors.invalid(NAME, GoLiteral("x{}"), "no"), "webhooks[0].name: Invalid value: x{}: no"),
        (field_errors.type_invalid(NAME, "string", "no"), 'webhooks[0].name: Invalid value: "string": no'),
        (
            field_errors.not_supported(NAME, "other", ("Fail", "Ignore")),
            'webhooks[0].name: Unsupported value: "other": supported values: "Fail", "Ignore"',
        ),
        (field_errors.not_supported(NAME, "other", ()), 'webhooks[0].name: Unsupported value: "other"'),
        (field_errors.duplicate(NAME, "a"), 'webhooks[0].name: Duplicate value: "a"'),
        (field_errors.forbidden(NAME, "not here"), "webhooks[0].name: Forbidden: not here"),
        (field_errors.not_found(NAME, "a"), 'webhooks[0].name: Not found: "a"'),
        (field_errors.too_long(NAME, 1), "webhooks[0].name: Too long: may not be more than 1 byte"),
        (field_errors.too_long(NAME, 9), "webhooks[0].name: Too long: may not be more than 9 bytes"),
        (field_errors.too_many(NAME, 2, 1), "webhooks[0].name: Too many: 2: must have at most 1 item"),
        (field_errors.too_many(NAME, 65, 64), "webhooks[0].name: Too many: 65: must have at most 64 items"),
        (field_errors.too_few(NAME, 0, 1), "webhooks[0].name: Too few: 0: must have at least 1 item"),
        (field_errors.too_few(NAME, 1, 2), "webhooks[0].name: Too few: 1: must have at least 2 items"),
        (field_errors.too_short(NAME, 1), "webhooks[0].name: Too short: must be at least 1 character"),
        (
            field_errors.too_many_characters(NAME, 9),
            "webhooks[0].name: Too long: may not be more than 9 characters",
        ),
    ],
)
def test_an_error_prints_word_for_word(error: FieldError, text: str) -> None:
    assert str(error) == text


def test_several_errors_print_in_brackets_without_duplicates() -> None:
    missing, forbidden = field_errors.required(NAME), field_errors.forbidden(NAME, "no")
    assert field_errors.join([missing, missing]) == str(missing)
    assert field_errors.join([missing, forbidden, missing]) == f"[{missing}, {forbidden}]"


def test_an_error_is_a_cause_in_a_status() -> None:
    cause = field_errors.not_supported(NAME, "other", ("Fail",)).cause
    assert cause == StatusCause(
        reason="FieldValueNotSupported",
        message='Unsupported value: "other": supported values: "Fail"',
        field="webhooks[0].name",
    )
