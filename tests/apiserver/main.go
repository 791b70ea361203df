// Command kube-apiserver is Kubernetes' own, of the release that go.mod requires: the judge of what Pratique decides.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() {
	os.Exit(cli.Run(app.NewAPIServerCommand()))
}
