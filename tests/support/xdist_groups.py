"""Groups of tests that are run by one process, one after another, where several share the tests out.

By path, because the marker that pytest-xdist has for it does nothing with pytest 9.2: it changes ids of tests that are
not to be changed any more.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling

ALONE = {
    "tests/containers/": "containers",  # one project of compose, and images of one name
    "tests/apiserver/": "kube-apiserver",  # one server for all tests of a run
    "tests/differential/": "differential",  # the same, and two more
    "tests/chaos/": "chaos",  # each of them keeps a machine busy
    "tests/console/": "console",  # one browser and one installation of axe-core for all tests of a run
    "tests/controllers/quota_ledgers/": "postgresql",  # one server for all tests of a run
    "tests/stack/test_quotas.py": "postgresql",
    "tests/house/test_readme.py": "readme",  # one stack for all that it shows
}
"""The group of each test whose path begins so."""


class Groups(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Gives a whole group to one process, and all other tests to any free process."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for path, group in ALONE.items() if nodeid.startswith(path)), nodeid)
