"""Queries in PromQL."""

from __future__ import annotations

import re

import pytest
import re2  # type: ignore[import-untyped] # google-re2 comes without types
from hypothesis import given
from hypothesis import strategies as st

from pratique.controllers.usage_history import UsageQuery
from pratique.controllers.usage_history.prometheus import promql, promql_string

ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def query(
    image: str, *, resource: str = "cpu", any_tag: bool = False, namespace: str = "", days: int = 7
) -> str:
    return promql(
        UsageQuery(
            resource=resource,
            percentile=90,
            image=image,
            any_tag=any_tag,
            namespace=namespace,
            start=0,
            end=days * 86_400,
        )
    )


def unquoted(literal: str) -> str:
    """Parse a PromQL string, as Go's lexer does."""
    assert re.fullmatch(r'"(?:[^"\\\n]|\\[\\"n])*"', literal)
    return re.sub(r"\\.", lambda escape: ESCAPES[escape[0]], literal[1:-1])


def test_cpu_is_a_rate_in_millicores() -> None:
    series = 'container_cpu_usage_seconds_total{image="web:v1",namespace="shop"}'
    samples = f"(1000 * rate({series}[300s]))[604800s:300s]"
    assert query("web:v1", namespace="shop") == (
        f'label_replace(quantile(0.9, quantile_over_time(0.9, {samples})), "answer", "usage", "", "")'
        f' or label_replace(sum(count_over_time({samples})), "answer", "samples", "", "")'
    )


def test_memory_is_the_working_set_in_bytes() -> None:
    samples = '(container_memory_working_set_bytes{image="web:v1"})[2592000s:300s]'
    assert query("web:v1", resource="memory", days=30).count(samples) == 2


def test_any_tag_is_a_pattern() -> None:
    assert r'{image=~"shop\\/web([:@].*)?"}' in query("shop/web", any_tag=True)


@pytest.mark.parametrize(
    ("image", "matches"),
    [
        ("r.example.com:5000/web", True),
        ("r.example.com:5000/web:v1", True),
        ("r.example.com:5000/web@sha256:01", True),
        ("r.example.com:5000/web:v1@sha256:01", True),
        ("r.example.com:5000/web-2:v1", False),
        ("r.example.com:5000/web/admin", False),
        ("rXexample.com:5000/web", False),
        ("my/r.example.com:5000/web", False),
    ],
)
def test_the_pattern_matches_all_versions_of_an_image_and_nothing_else(image: str, *, matches: bool) -> None:
    found = re.search(r'image=~(".*?[^\\]")', query("r.example.com:5000/web", any_tag=True))
    assert found is not None
    assert bool(re2.fullmatch(unquoted(found[1]), image)) is matches


@given(st.text())
def test_a_promql_string_reads_back_as_written(text: str) -> None:
    assert unquoted(promql_string(text)) == text


@given(st.text(st.characters(codec="ascii"), min_size=1), st.booleans())
def test_no_image_name_escapes_its_string(image: str, any_tag: bool) -> None:  # noqa: FBT001 - drawn
    rest = re.sub(r'"(?:[^"\\\n]|\\[\\"n])*"', "TEXT", query(image, any_tag=any_tag))
    assert rest == re.sub(r'"(?:[^"\\\n]|\\[\\"n])*"', "TEXT", query("web", any_tag=any_tag))
