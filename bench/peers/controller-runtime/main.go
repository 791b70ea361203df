// The restricted level of the Pod Security Standards, and a sidecar, as webhooks of controller-runtime: its webhook server
// with two handlers, as its documentation has it, and no manager, because no controller runs beside them.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

type handler struct {
	decoder admission.Decoder
}

type validator struct{ handler }

// Handle refuses what the restricted level refuses.
func (v validator) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := v.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if found := problems(pod); len(found) > 0 {
		return admission.Denied(strings.Join(found, "; "))
	}
	return admission.Allowed("")
}

type mutator struct{ handler }

// Handle labels a Pod, and gives it a sidecar unless it has one.
func (m mutator) Handle(_ context.Context, request admission.Request) admission.Response {
	pod := &corev1.Pod{}
	if err := m.decoder.Decode(request, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	addSidecar(pod)
	changed, err := json.Marshal(pod)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(request.Object.Raw, changed)
}

func main() {
	port := flag.Int("port", 9443, "where to listen")
	certificate := flag.String("tls-cert-file", "", "the certificate")
	key := flag.String("tls-private-key-file", "", "its key, in the same folder")
	flag.Parse()
	ctrl.SetLogger(zap.New())

	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		panic(err)
	}
	decoding := handler{admission.NewDecoder(scheme)}
	server := webhook.NewServer(webhook.Options{
		Host:     "127.0.0.1",
		Port:     *port,
		CertDir:  filepath.Dir(*certificate),
		CertName: filepath.Base(*certificate),
		KeyName:  filepath.Base(*key),
	})
	server.Register("/validate", &webhook.Admission{Handler: validator{decoding}})
	server.Register("/mutate", &webhook.Admission{Handler: mutator{decoding}})
	if err := server.Start(ctrl.SetupSignalHandler()); err != nil {
		ctrl.Log.Error(err, "the server ended")
		os.Exit(1)
	}
}
