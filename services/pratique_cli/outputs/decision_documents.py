"""Decision documents, as ``json``, ``jsonl`` and ``yaml`` write them: with blames where they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.decisions import to_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontdoor.decisions import Decision
    from pratique.json_values import JSONObject
    from pratique.reviews import Review
    from pratique_cli.outputs import Reviewed


def decision_document(reviewed: Reviewed, *, blame: bool) -> JSONObject:
    """Make the document of a decision, and with ``blame`` the member of that name in it and in each Pod's."""
    document = to_document(reviewed.decision)
    if blame:
        from frontdoor.blames import blame_document, blame_of  # noqa: PLC0415 - only for those who want to know

        both = ((reviewed.review, reviewed.decision, document), *_pods(reviewed, document))
        for review, decision, told in both:
            told["blame"] = blame_document(blame_of(decision, review.object_document.data), decision)
    return document


def _pods(reviewed: Reviewed, document: JSONObject) -> Iterator[tuple[Review, Decision, JSONObject]]:
    for expansion, told in zip(reviewed.expanded, document["expanded"], strict=True):
        yield expansion.review, expansion.decision, told
