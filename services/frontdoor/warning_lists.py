"""Warning lists: which warnings reach the user, and how much of each.

Source: ``k8s.io/apiserver/pkg/endpoints/filters/warning.go`` and ``NewWarningHeader`` in
``k8s.io/apimachinery/pkg/util/net/http.go``. Lengths are in characters.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_CHARACTERS = 4096
"""Above this all warnings are cut short; once it is reached by cut ones, no more are added."""

MOST_CHARACTERS_OF_ONE = 256
"""The length to which each is then cut."""

# Control characters, and halves of surrogate pairs, which stand for text that was no valid UTF-8.
_UNFIT = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def surviving_warnings(
    texts: Iterable[str], *, total: int = MOST_CHARACTERS, each: int = MOST_CHARACTERS_OF_ONE
) -> list[str]:
    """The warnings that the API server would show for ``texts``, given in the order in which they arose.

    Empty ones, repeated ones, and those that no header can hold are left out.
    """
    recorded: dict[str, None] = {}
    shown: list[str] = []
    written, truncating = 0, False
    for text in texts:
        if not text or text in recorded or (truncating and written >= total):
            continue
        recorded[text] = None
        # Cutting comes before the look at the characters: a cut may take the unfit ones away.
        short = text[:each] if truncating else text
        if _UNFIT.search(short):
            continue
        if truncating or written + len(short) <= total:
            shown.append(short)
            written += len(short)
        else:
            truncating = True
            shown = [cut for cut in (one[:each] for one in recorded) if not _UNFIT.search(cut)]
            written = sum(map(len, shown))
    return shown
