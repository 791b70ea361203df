"""UIDs that stand for what they are made of."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.names import named_uid


@given(st.uuids(), st.text(st.characters(codec="utf-8")))
def test_a_named_uid_is_the_uuid_of_version_5(root: uuid.UUID, name: str) -> None:
    assert named_uid(str(root), name.encode()) == str(uuid.uuid5(root, name))
