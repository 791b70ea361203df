"""Generated names."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.names import generate_name, uuid5

ENDS = set("bcdfghjklmnpqrstvwxz2456789")


@given(st.text("abc-", max_size=80))
def test_a_generated_name_has_its_prefix_and_fits_a_label(base: str) -> None:
    name = generate_name(base)
    assert name[:-5] == base[:58]
    assert set(name[-5:]) <= ENDS


def test_generated_names_differ() -> None:
    assert len({generate_name("a-") for _ in range(50)}) > 1


@given(st.uuids(), st.text())
def test_a_uuid_of_a_name_is_that_of_the_standard_library(namespace: uuid.UUID, name: str) -> None:
    assert uuid5(namespace.bytes, name.encode()) == str(uuid.uuid5(namespace, name))
