"""Bad answers: what breaks the contract, and patches that cannot be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.errors import BadAnswerError
from pratique.patches import PatchDecodeError, decode_patch

if TYPE_CHECKING:
    from pratique.json_values import JSONObject


def bad_answer(text: str) -> BadAnswerError:
    """The error of an answer that breaks the contract, as ``mutating/dispatcher.go`` words it."""
    return BadAnswerError(f"received invalid webhook response: {text}")


def read_operations(patch: bytes) -> tuple[JSONObject, ...]:
    """Read a JSON Patch.

    Raises:
        BadAnswerError: it is none.
    """
    try:
        return tuple(decode_patch(patch))
    except PatchDecodeError as error:
        raise BadAnswerError(f"received undecodable patch in webhook response: {error}") from None
