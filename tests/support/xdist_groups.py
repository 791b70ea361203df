"""Groups of tests that are run by one process, one after another, where several share the tests out.

By path, because the marker that pytest-xdist has for it does nothing with pytest 9.2: it changes ids of tests that are
not to be changed any more.
"""

from __future__ import annotations

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SHARING = (
    "tests/cli/test_kubernetes_document.py",
    "tests/cli/test_up.py",
    "tests/hosting/isolation/test_isolated_controllers.py",
    "tests/house/test_site.py",
    "tests/stack/telemetry/test_canaries.py",
    "tests/stack/test_checks.py",
    "tests/stack/test_fan_out.py",
    "tests/stack/test_provisioning.py",
    "tests/stack/test_python_policies.py",
    "tests/stack/test_replicas.py",
    "tests/stack/test_standalone.py",
    "tests/stack/test_tls.py",
)
"""Files whose tests share several processes, which each process that ran some of them would start for itself."""

ALONE = {
    "tests/containers/": "containers",  # one project of compose, and images of one name
    "tests/apiserver/webhooks/": "services",  # they listen on one address
    "tests/apiserver/test_kubernetes_document.py": "services",
    "tests/apiserver/": "kube-apiserver",  # one server for all tests of a run
    "tests/differential/": "differential",  # the same, and two more
    "tests/chaos/": "chaos",  # each of them keeps a machine busy
    "tests/console/": "console",  # one browser and one installation of axe-core for all tests of a run
    "tests/controllers/quota_ledgers/": "postgresql",  # one server for all tests of a run
    "tests/stack/test_quotas.py": "postgresql",
    "tests/house/test_readme.py": "readme",  # one stack for all that it shows
    "tests/stack/test_exceptions.py": "refusing stacks",  # those of support.shared_stacks, by chain
    "tests/stack/test_rollouts.py": "refusing stacks",
    "tests/stack/test_allow_lists.py": "changing stacks",
    "tests/stack/test_policies.py": "changing stacks",
    "tests/stack/test_reloading.py": "changing stacks",
    "tests/stack/telemetry/test_metrics.py": "metrics",  # one stack that shows them all
    "tests/stack/telemetry/test_observability_document.py": "metrics",
    **{path: path for path in SHARING},
}
"""The group of each test whose path begins so."""


class Groups(LoadScopeScheduling):  # type: ignore[misc] # it has no types
    """Gives a whole group to one process, and all other tests to any free process."""

    def _split_scope(self, nodeid: str) -> str:
        return next((group for path, group in ALONE.items() if nodeid.startswith(path)), nodeid)

    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give work to a process, and with the last of it the order to end.

        A process begins no test before it knows what comes after it. One that takes over the last work of another that
        died would wait for that without end.
        """
        super()._assign_work_unit(node)
        if not self.workqueue:
            node.shutdown()

    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a process, and return the test that it died of, which no other process is to die of in turn."""
        work = self.assigned_work[node]
        died_of = next(((tests, name) for tests in work.values() for name in tests if not tests[name]), None)
        if died_of:
            tests, name = died_of
            tests[name] = True
        self.assigned_work[node] = {scope: tests for scope, tests in work.items() if not all(tests.values())}
        super().remove_node(node)
        return died_of and died_of[1]
