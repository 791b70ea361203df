"""Readers: who may have read what was redacted, so that what they decided without it may be another decision."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.documents import list_files
from pratique_cli.replays.recorded import EXTRA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pratique.catalogues import Catalogue

_POLICIES = frozenset({"MutatingAdmissionPolicy", "ValidatingAdmissionPolicy"})
_READING = frozenset({"MutatingAdmissionWebhook", "ValidatingAdmissionWebhook", "PodPreset"})
_MENTIONS_EXTRA = re.compile(r"\bextra\b|\buserInfo\b(?!\s*\.\s*(?:username|groups|uid)\b)")


@dataclasses.dataclass(frozen=True, slots=True)
class Readers:
    """What controllers may read."""

    catalogue: Catalogue
    policies_read_extra: bool
    """Whether any of the policies that decide may read who else the user is said to be."""

    def read(self, controller: str, place: str) -> bool:
        """Tell whether a controller may have read a redacted place.

        Webhooks and policies may read all there is, and so may controllers of other packages. Of Pratique's own one
        compares variables of environments; the others read nothing that is redacted.
        """
        if controller in _POLICIES:
            return place != EXTRA or self.policies_read_extra
        if controller in _READING or controller in self.catalogue.origins:
            return True
        return self.catalogue.get(controller) is None


def mentions_extra(paths: Iterable[Path]) -> bool:
    """Tell whether the texts of configurations mention the ``extra`` of users, or users as a whole."""
    return any(
        _MENTIONS_EXTRA.search(Path(file).read_text("utf-8")) for path in paths for file in list_files(path)
    )
