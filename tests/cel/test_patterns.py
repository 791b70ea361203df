"""Regular expressions never delay a review, whatever the pattern and the text."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

SCRIPT = Path(__file__).with_name("evil_patterns.py")
MINUTES = 2
"""Linear time takes seconds for all of them together; each of them would take another engine longer than there is."""


def test_no_regular_expression_takes_more_than_linear_time() -> None:
    done = subprocess.run(
        [sys.executable, SCRIPT], check=True, capture_output=True, text=True, timeout=MINUTES * 60
    )
    found = Counter(json.loads(done.stdout))
    assert found.total() >= 50
    assert set(found) <= {
        "matches",
        "does not match",
        "CompilationError",
        "EvaluationError",
        "OutOfBudgetError",
    }
    assert found["does not match"] >= 20
