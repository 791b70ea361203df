"""Bytes to expressions of CEL: compiled, and evaluated within their limits."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from fuzzing.seed_files import lines
from pratique.cel import costs
from pratique.cel.costs import Budget
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError, EvaluationError, OutOfBudgetError
from pratique.cel.expressions import compile_expression
from support.chains import POD

ENVIRONMENT = Environment(has_params=True, has_patches=True)
VARIABLES: dict[str, Any] = {
    "object": POD,
    "oldObject": None,
    "params": {"list": [3, 1, 2], "text": "a,b,ü", "number": 1.5, "map": {"": None}},
    "request": {"operation": "CREATE", "dryRun": False, "userInfo": {"username": "ann", "groups": []}},
    "namespaceObject": None,
}
COST = costs.PER_CALL_LIMIT // 10
"""What one evaluation may cost: a tenth of what is allowed, which a machine that is watched takes a second for."""


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """There is nothing to make."""
    yield attempt


def attempt(data: bytes) -> bool:
    """Compile and evaluate a text."""
    try:
        source = data.decode()
        expression = compile_expression(source, ENVIRONMENT)
    except (UnicodeDecodeError, CompilationError):
        return False
    with contextlib.suppress(EvaluationError, OutOfBudgetError):
        expression.evaluate(VARIABLES, Budget(COST))
    return True


def seeds() -> Iterator[bytes]:
    """Expressions of other projects' tests, and what is ours."""
    for number, case in enumerate(lines("data/cel/library_cases.jsonl")):
        if number % 5 == 0:
            yield case["expression"].encode()
    yield from (
        b"object.spec.containers.all(c, c.image.matches('^a(b|c)+$'))",
        b"object.metadata.?labels.app.orValue('') == params.text.split(',')[0]",
        b"[1, 2, 3].map(x, params.list.filter(y, y > x)).size() > 0 ? request.dryRun : has(params.map)",
        b"Object{spec: Object.spec{replicas: 1}}",
        b"[JSONPatch{op: 'add', path: '/a' + jsonpatch.escapeKey('~'), value: Object{metadata: Object.metadata{}}}]",
        b"timestamp('2001-01-01T00:00:00Z') - duration('1h') > timestamp(0)",
        b"'%s %d %.3f %x'.format([params, 1, 2.0, b'a'])",
        b"url('https://a.example.com:80/b?c=d').getQuery()",
    )
