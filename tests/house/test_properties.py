"""The properties that everything stands on are there; `make test-long` tries two thousand examples of each."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import settings

PROPERTIES = [
    "frontdoor/test_codec_properties.py::test_a_sent_review_decodes_to_itself",
    "frontdoor/test_codec_properties.py::test_an_encoded_answer_decodes_to_the_decision",
    "frontdoor/test_codec_properties.py::test_a_decision_document_is_consistent",
    "frontdoor/chain/test_chain_properties.py::test_the_composed_patch_turns_the_received_object_into_the_final_one",
    "rpc/test_review_messages.py::test_a_review_arrives_as_it_was_sent",
    "rpc/test_outcome_messages.py::test_an_outcome_arrives_as_it_was_sent",
    "apimachinery/patches/test_differences.py::test_a_diff_yields_the_other_document",
    "apimachinery/patches/test_patch_application.py::test_operations_that_rfc_6902_applies_are_applied",
    "apimachinery/test_durations.py::test_a_printed_duration_parses_back",
    "apimachinery/test_quantity_amounts.py::test_the_canonical_form_is_equal_and_stable",
    "apimachinery/test_selectors.py::test_a_selector_matches_what_all_its_requirements_match",
    "admission/rules/test_rule_matching.py::test_compiled_rules_match_as_plain_ones",
    "apimachinery/test_json_limits.py::test_any_json_encoding_of_a_value_is_read_as_that_value",
]


@pytest.mark.parametrize("property_", PROPERTIES, ids=lambda name: name.partition("::")[2])
def test_the_property_is_there(property_: str, root: Path) -> None:
    file, _, name = property_.partition("::")
    text = (root / "tests" / file).read_text("utf-8")
    assert re.search(rf"^@given\([^\n]*\)\ndef {name}\(", text, re.MULTILINE)


def test_long_runs_draw_two_thousand_examples_of_each() -> None:
    assert settings.get_profile("thorough").max_examples >= 2_000
