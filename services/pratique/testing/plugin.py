"""The plugin of pytest: fixtures to ask policies.

pytest loads it wherever Pratique is installed, so it imports nothing until a test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pratique.admission.reviews import Review
    from pratique.testing.chains import PolicyChain
    from pratique_frontdoor.chain.decisions import Decision


@pytest.fixture(scope="session")
def pratique_review() -> Callable[..., Review]:
    """:func:`pratique.testing.make_review`: the review of a manifest."""
    from pratique.testing.reviews import make_review  # noqa: PLC0415 - only tests of policies need it

    return make_review


@pytest.fixture(scope="session")
def pratique_admit() -> Callable[..., Decision]:
    """:func:`pratique.testing.admit`: what one policy decides about a manifest or review."""
    from pratique.testing.chains import admit  # noqa: PLC0415 - only tests of policies need it

    return admit


@pytest.fixture(scope="session")
def pratique_chain() -> type[PolicyChain]:
    """:class:`pratique.testing.PolicyChain`: a whole chain with policies of one's own."""
    from pratique.testing.chains import PolicyChain  # noqa: PLC0415 - only tests of policies need it

    return PolicyChain
