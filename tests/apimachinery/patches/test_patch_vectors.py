"""JSON Patch as the API server's library applies it, by its own cases."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patches import PatchError, apply_patch, decode_patch
from support import vector_cases

CASES = vector_cases.kind("jsonPatch")
FITTING = [case for case in CASES if "result" in case["expected"]]
UNFIT = [case for case in CASES if "error" in case["expected"]]


def test_all_vectors_are_present() -> None:
    assert len(FITTING) + len(UNFIT) == len(CASES) >= 16


@pytest.mark.parametrize("case", FITTING, ids=vector_cases.source)
def test_an_applicable_vector_changes_the_document(case: JSONObject) -> None:
    operations = decode_patch(case["input"]["patchText"].encode())
    assert apply_patch(case["input"]["document"], operations) == case["expected"]["result"]


@pytest.mark.parametrize("case", UNFIT, ids=vector_cases.source)
def test_an_inapplicable_vector_is_refused(case: JSONObject) -> None:
    operations = decode_patch(case["input"]["patchText"].encode())
    with pytest.raises(PatchError) as refusal:
        apply_patch(case["input"]["document"], operations)
    assert str(refusal.value) == case["expected"]["error"]
