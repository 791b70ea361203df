"""A release of Pratique whose contract has more than this one's: a copy of the tree, with new fields that it sends."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
FIELD = "of_the_next_release"
_PARTS = ("services", "services/mutator", "services/validator", "services/frontdoor")
_SENT = ("mutate_request", "validate_request", "mutate_response", "validate_response")
_SENDING = f"""

def _with_new_field(make):
    def made(*arguments, **named):
        message = make(*arguments, **named)
        message.{FIELD} = "said"
        return message

    return made


for _name in {_SENT}:
    globals()[_name] = _with_new_field(globals()[_name])
"""


def make_next_release(folder: Path) -> dict[str, str]:
    """Make the copy, and return the environment in which ``python -m pratique_cli`` runs it.

    Every message of the contract has one field more, and each request and response of the two phases says something in
    it, which this release has never heard of.
    """
    left_out = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "services", folder / "services", ignore=left_out)
    shutil.copytree(ROOT / "proto", folder / "proto")
    (folder / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "generate_protos.py", folder / "scripts")
    for contract in (folder / "proto").rglob("*.proto"):
        text = re.sub(r"(?m)^(message \w+ \{)", rf"\1 string {FIELD} = 1000;", contract.read_text())
        contract.write_text(text)
    with (folder / "services/pratique/rpc/messages.py").open("a") as messages:
        messages.write(_SENDING)
    subprocess.run(
        [sys.executable, folder / "scripts" / "generate_protos.py"], check=True, stdout=subprocess.DEVNULL
    )
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    return kept | {"PYTHONPATH": os.pathsep.join(str(folder / part) for part in _PARTS)}
