"""How many calls may be made again, as gRPC counts it for calls by themselves.

https://github.com/grpc/proposal/blob/master/A6-client-retries.md#throttling-configuration.
"""

from __future__ import annotations

MOST_TOKENS = 600
"""Each failed call costs a token, and calls are made again while more than half are left. 600 is what a kube-apiserver
with default flags has in flight: when one of two replicas dies, the 300 calls that it had can be made again."""
MOST_ATTEMPTS = 4
"""How often gRPC makes a call by itself, the first time included."""
TOKEN_RATIO = 0.1
"""What each call that comes through brings back: in the long run at most a tenth of the calls is made again."""


class RetryBudget:
    """The tokens of one service."""

    def __init__(self) -> None:
        """Start with all of them."""
        self._tokens: float = MOST_TOKENS

    def spend(self, attempts: int = 1) -> bool:
        """Count attempts that failed; tells whether another may be made."""
        self._tokens = max(0.0, self._tokens - attempts)
        return self._tokens > MOST_TOKENS / 2

    def earn(self) -> None:
        """Count a call that came through."""
        self._tokens = min(MOST_TOKENS, self._tokens + TOKEN_RATIO)
