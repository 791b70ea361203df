"""Generated names: a beginning that somebody chose, and an end that nobody did.

Source: ``k8s.io/apiserver/pkg/storage/names/generate.go`` and ``k8s.io/apimachinery/pkg/util/rand/rand.go``.
"""

from __future__ import annotations

import secrets

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""Without vowels, which leave nothing to be ashamed of, and without what looks like one."""
_RANDOM = 5
_MAXIMUM = 63
"""Characters of a DNS label."""


def generate_name(base: str) -> str:
    """Make a name that begins with ``base``, of 63 characters at most."""
    return base[: _MAXIMUM - _RANDOM] + "".join(secrets.choice(_ALPHABET) for _ in range(_RANDOM))
