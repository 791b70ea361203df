"""What a service says that it decides by is bounded before it is believed."""

from __future__ import annotations

from pratique.admission.v1.digest_pb2 import Inputs
from pratique.configuration.input_digests import InputDigests
from pratique.rpc.handlers import inputs_from_messages


def test_held_inputs_are_read_in_their_order() -> None:
    messages = [Inputs(digest=f"{n}", chain="a", configuration="b", cluster="c") for n in range(3)]
    assert inputs_from_messages(messages) == tuple(InputDigests(f"{n}", "a", "b", "c") for n in range(3))


def test_at_most_16_held_inputs_are_read() -> None:
    assert len(inputs_from_messages(Inputs(digest=f"{n}") for n in range(100_000))) == 16


def test_inputs_with_a_digest_over_128_characters_are_ignored() -> None:
    messages = [Inputs(digest="x" * 129), Inputs(digest="a", cluster="x" * 10_000), Inputs(digest="b")]
    assert inputs_from_messages(messages) == (InputDigests("b", "", "", ""),)
