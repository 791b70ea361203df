"""Reviews whose objects no service has checked yet, and the stages that read them in the front door."""

from __future__ import annotations

import pytest

from pratique.admission.controllers import MUTATE, VALIDATE, Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ReviewError
from pratique.apimachinery.json_values import Document, encode
from support.chains import POD, pod_review
from support.scripted_webhooks import Script, decide

PHASES = [MUTATE, VALIDATE]


class CountedCheck:
    """Counts how often a text is checked."""

    def __init__(self, refused: str = "") -> None:
        self.passed = False
        self.runs = 0
        self._refused = refused

    def run(self) -> None:
        self.runs += 1
        if self._refused:
            raise ReviewError(self._refused)
        self.passed = True


def unchecked(check: CountedCheck) -> Review:
    return pod_review(object_document=Document.from_raw(encode(POD)).defer(check))


@pytest.mark.parametrize("phases", PHASES)
@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_no_webhook_gets_an_object_that_the_check_refuses(
    phases: frozenset[Phase], failure_policy: str
) -> None:
    webhook = Script("w.example.com", failure_policy=failure_policy)
    with pytest.raises(ReviewError, match="holds a member twice"):
        decide(unchecked(CountedCheck("holds a member twice")), [webhook], [webhook], phases=phases)
    assert webhook.calls == 0


@pytest.mark.parametrize("phases", PHASES)
def test_webhooks_get_an_object_that_was_checked_once(phases: frozenset[Phase]) -> None:
    webhooks = [Script("a.example.com"), Script("b.example.com")]
    check = CountedCheck()
    decision = decide(unchecked(check), webhooks, webhooks, phases=phases)
    assert decision.allowed
    assert [webhook.calls for webhook in webhooks] == [1, 1]
    assert check.runs == 1


def test_nothing_is_checked_for_stages_that_have_no_webhooks() -> None:
    check = CountedCheck()
    assert decide(unchecked(check)).allowed
    assert check.runs == 0
