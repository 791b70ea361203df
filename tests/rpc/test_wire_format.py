"""How many fields an encoded answer may hold, counted before any of them is built."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Call
from pratique.admission.v1 import outcome_pb2
from pratique.admission.v1.validator_service_pb2 import ValidateResponse
from pratique.apimachinery.errors import BadAnswerError
from pratique.rpc import wire_format
from pratique.rpc.messages import read_outcome
from pratique.rpc.wire_format import FEW_FIELDS_BYTES, check_fields

Fill = Callable[[outcome_pb2.Outcome, int], None]


def fill_warnings(outcome: outcome_pb2.Outcome, count: int) -> None:
    outcome.warnings.extend([""] * count)


def fill_causes(outcome: outcome_pb2.Outcome, count: int) -> None:
    outcome.denied.status.details.causes.extend([outcome_pb2.StatusCause()] * count)


def fill_policies(outcome: outcome_pb2.Outcome, count: int) -> None:
    outcome.parts.extend([outcome_pb2.Part(name="p")] * (count // 2))


def fill_annotations(outcome: outcome_pb2.Outcome, count: int) -> None:
    outcome.audit_annotations.update({str(number): "" for number in range(count // 3)})


FILLS = [fill_warnings, fill_causes, fill_policies, fill_annotations]


def answer(fill: Fill, count: int) -> bytes:
    outcome = outcome_pb2.Outcome(controller="A", allowed=outcome_pb2.Allowed())
    fill(outcome, count)
    encoded: bytes = ValidateResponse(verdicts=[outcome], uid="u").SerializeToString()
    return encoded


FEWER_FIELDS = 40_000
"""Instead of MAX_FIELDS, so that answers are built soon; still so many that a service looks at each of them."""


@pytest.mark.parametrize("fill", FILLS)
def test_an_answer_with_too_many_fields_is_a_bad_answer(fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire_format, "MAX_FIELDS", FEWER_FIELDS)
    check_fields(answer(fill, FEWER_FIELDS - 100), ValidateResponse)
    too_many = answer(fill, FEWER_FIELDS + 100)
    assert len(too_many) > FEW_FIELDS_BYTES
    with pytest.raises(BadAnswerError, match=f"it holds more than {FEWER_FIELDS} fields"):
        check_fields(too_many, ValidateResponse)
    with pytest.raises(BadAnswerError, match=f"it holds more than {FEWER_FIELDS} fields"):
        read_outcome(too_many, Call("A"))


def test_a_long_patch_is_one_field() -> None:
    outcome = outcome_pb2.Outcome(patched=outcome_pb2.Patched(patch=b"x" * 16_000_000))
    check_fields(ValidateResponse(verdicts=[outcome]).SerializeToString(), ValidateResponse)


_LONG = answer(fill_warnings, 1_000)


@given(st.binary(max_size=12), st.integers(0, len(_LONG)))
def test_whatever_is_counted_protobuf_reads_or_both_refuse(more: bytes, cut: int) -> None:
    raw = _LONG[:cut] + more + _LONG
    try:
        check_fields(raw, ValidateResponse)
    except DecodeError:
        with pytest.raises(DecodeError):
            ValidateResponse.FromString(raw)
