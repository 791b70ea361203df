from __future__ import annotations

import io

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import NULL, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.patches import apply_patch
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.source_documents import JsonOrigin, SourceDocument, SourceText
from pratique.apimachinery.statuses import Status, failure
from pratique_cli.outputs import ReviewCounts, ReviewedDocument
from pratique_cli.outputs.texts import TextOutput
from pratique_cli.terminal import Palette
from pratique_frontdoor.chain.decisions import Decision, Step

POD: JSONObject = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": {"nodeName": "a"}}
WRITTEN = SourceDocument(POD, "pod.yaml", 0, 3, JsonOrigin(SourceText(b"", "pod.yaml"), 0))
PATCH: tuple[JSONObject, ...] = ({"op": "replace", "path": "/spec/nodeName", "value": "b"},)


def review(document: JSONObject | None = None, **changes: object) -> Review:
    values: dict[str, object] = {
        "uid": "1",
        "operation": Operation.CREATE,
        "kind": GroupVersionKind("", "v1", "Pod"),
        "resource": GroupVersionResource("", "v1", "pods"),
        "name": "web",
        "namespace": "shop",
        "object_document": Document.from_data(document or POD),
    }
    return Review(**(values | changes))  # type: ignore[arg-type]  # each test changes another field


def step(
    outcome: StepOutcome, reason: str = "", patch: tuple[JSONObject, ...] = (), **changes: object
) -> Step:
    values: dict[str, object] = {"controller": "LimitRanger", "phase": Phase.MUTATE, "name": "LimitRanger"}
    return Step(outcome=outcome, reason=reason, patch=patch, **(values | changes))  # type: ignore[arg-type]  # as above


def admitted(*steps: Step, warnings: tuple[str, ...] = ()) -> Decision:
    patch = tuple(operation for item in steps for operation in item.patch)
    document = Document.from_data(apply_patch(POD, patch))
    return Decision(
        uid="1", allowed=True, object_document=document, patch=patch, steps=steps, warnings=warnings
    )


def denied(status: Status, *steps: Step) -> Decision:
    return Decision(uid="1", allowed=False, status=status, steps=steps)


def text_of(
    decision: Decision, asked: Review | None = None, *, palette: Palette | None = None, verbose: bool = False
) -> str:
    stream = io.StringIO()
    output = TextOutput(stream, palette or Palette(), verbose=verbose)
    output.write(ReviewedDocument(WRITTEN, asked or review(), decision))
    return stream.getvalue()


def test_a_decision_starts_with_verdict_object_and_location() -> None:
    assert text_of(admitted()).splitlines()[0] == "✓ admitted  Pod shop/web  (pod.yaml:3)"


def test_a_denial_shows_its_code() -> None:
    status = failure(403, "Forbidden", 'pods "web" is forbidden: no')
    first, second, *_ = text_of(denied(status)).splitlines()
    assert first == "✗ denied    Pod shop/web  403 Forbidden  (pod.yaml:3)"
    assert second.strip() == 'pods "web" is forbidden: no'


def test_a_reason_given_by_a_step_is_not_repeated() -> None:
    status = failure(400, "", "it will not do")
    text = text_of(denied(status, step(StepOutcome.DENIED, "it will not do")))
    assert text.count("it will not do") == 1


@pytest.mark.parametrize(
    ("changes", "subject"),
    [
        ({}, "Pod shop/web"),
        ({"operation": Operation.UPDATE}, "UPDATE Pod shop/web"),
        ({"operation": Operation.DELETE, "object_document": NULL}, "DELETE Pod shop/web"),
        ({"subresource": "status", "operation": Operation.UPDATE}, "UPDATE Pod/status shop/web"),
        ({"namespace": ""}, "Pod web"),
        ({"name": ""}, "Pod shop/web"),
        (
            {"name": "", "object_document": Document.from_data({"metadata": {"generateName": "web-"}})},
            "Pod shop/web-…",
        ),
        ({"name": "", "object_document": NULL}, "Pod shop/without a name"),
    ],
)
def test_the_headline_names_the_reviewed_object(changes: dict[str, object], subject: str) -> None:
    assert f"  {subject}  (" in text_of(admitted(), review(None, **changes))


def test_a_step_lists_its_changes() -> None:
    text = text_of(admitted(step(StepOutcome.MUTATED, patch=PATCH)))
    assert "    ~ mutate    LimitRanger  mutated\n" in text
    assert '          ~ spec.nodeName: "a" → "b"\n' in text


def test_the_diff_follows_the_steps() -> None:
    text = text_of(admitted(step(StepOutcome.MUTATED, patch=PATCH)))
    assert text.index("    -  nodeName: a\n") > text.index("mutated")
    assert "    +  nodeName: b\n" in text


def test_a_webhook_is_named_with_its_configuration() -> None:
    hook = step(
        StepOutcome.FAILED_OPEN,
        "it is down",
        name="a.example.com",
        configuration="hooks",
        controller="Webhooks",
    )
    text = text_of(admitted(hook))
    assert "! mutate    Webhooks a.example.com (hooks)  failedOpen\n          it is down\n" in text


def test_skipped_steps_are_folded_into_one_line_unless_verbose() -> None:
    steps = [step(StepOutcome.SKIPPED, f"because {n}", name=f"hook-{n}") for n in "ab"]
    folded = text_of(admitted(*steps))
    assert "    · 2 skipped: LimitRanger hook-a, LimitRanger hook-b (-vv says why)\n" in folded
    assert "because" not in folded
    verbose = text_of(admitted(*steps), verbose=True)
    assert "LimitRanger hook-b  skipped  because b\n" in verbose


def test_reinvocation_is_shown() -> None:
    assert "unchanged  (reinvoked)" in text_of(admitted(step(StepOutcome.UNCHANGED, round=1)))


def test_verbose_shows_where_a_step_ran_and_for_how_long() -> None:
    ran = step(StepOutcome.ALLOWED, endpoint="grpc://127.0.0.1:9002", duration_seconds=0.00123)
    assert "allowed  (1.2 ms, grpc://127.0.0.1:9002)" in text_of(admitted(ran), verbose=True)


def test_warnings_are_shown() -> None:
    assert "    ! warning: old API\n" in text_of(admitted(warnings=("old API",)))


def test_the_values_of_secrets_are_hidden() -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"key": "c2VjcmV0"}}
    patch: JSONObject = {"op": "replace", "path": "/data/key", "value": "b3RoZXI="}
    decision = Decision(
        uid="1",
        allowed=True,
        object_document=Document.from_data(apply_patch(secret, [patch])),
        patch=(patch,),
        steps=(step(StepOutcome.MUTATED, patch=(patch,)),),
    )
    text = text_of(decision, review(secret))
    assert "~ data.key\n" in text
    assert "c2VjcmV0" not in text
    assert "b3RoZXI=" not in text


def test_long_values_are_cut_to_the_width_of_the_terminal() -> None:
    patch: JSONObject = {"op": "add", "path": "/spec/nodeName", "value": "b" * 500}
    decision = Decision(uid="1", allowed=True, steps=(step(StepOutcome.MUTATED, patch=(patch,)),))
    lines = text_of(decision, palette=Palette(width=80)).splitlines()
    assert max(map(len, lines)) <= 80
    assert "…" in lines[2]


def test_control_characters_never_reach_the_terminal() -> None:
    evil = "\x1b]0;owned\x07"
    text = text_of(
        denied(failure(400, "", evil), step(StepOutcome.DENIED, evil, name=evil)),
        review(name=evil, namespace=evil),
    )
    assert "\x1b" not in text
    assert "\x07" not in text


def test_colours_are_used_if_the_terminal_has_them() -> None:
    text = text_of(admitted(step(StepOutcome.MUTATED, patch=PATCH)), palette=Palette(colour=True))
    assert "\x1b[32m\x1b[1m✓ admitted\x1b[0m" in text
    assert "\x1b[31m-  nodeName: a\x1b[0m" in text


def test_only_ascii_is_written_to_an_ascii_terminal() -> None:
    text = text_of(admitted(step(StepOutcome.MUTATED, patch=PATCH)), palette=Palette(unicode=False))
    assert text.isascii()
    assert '"a" -> "b"' in text


@pytest.mark.parametrize(
    ("tally", "line"),
    [
        (ReviewCounts(admitted=2), "2 reviewed, 2 admitted, 0 denied\n"),
        (ReviewCounts(1, 2, 3, 4), "3 reviewed, 1 admitted, 2 denied, 4 undecided, 3 unreadable\n"),
    ],
)
def test_the_last_line_gives_the_counts(tally: ReviewCounts, line: str) -> None:
    stream = io.StringIO()
    TextOutput(stream, Palette()).finish(tally)
    assert stream.getvalue() == line
