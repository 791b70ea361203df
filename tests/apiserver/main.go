// Command kube-apiserver is Kubernetes' own, of the release that go.mod requires: the judge of what Pratique decides.
package main

import (
	"os"
	"time"

	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// policyRefresh is how long it may not know of changed policies, in place of a second: tests change many, and wait.
const policyRefresh = 100 * time.Millisecond

func main() {
	generic.SetPolicyRefreshIntervalForTests(policyRefresh)
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
