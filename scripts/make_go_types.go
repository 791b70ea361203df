// Command make_go_types writes what OpenAPI does not say of Kubernetes' types, read by reflection:
//
//	services/pratique/cluster/go_types.json              the types that the API is written in
//	services/pratique/registry/internal_types.json       the internal types that validation sees and prints
//
// Run it in the module of the API server, whose release is the one described, with the folder of the package:
//
//	cd tests/apiserver && go run ../../scripts/make_go_types.go ../../services/pratique
//
// A type is written as Go's reflect prints it, but for
//
//	@api.core.v1.Container    a struct, by the name that built_in.json has for it
//	v1.ServiceType=string     a type with a name, and what it is
//
// Before the type of a field stand “?“ if Go omits it when it is empty, “!“ if it omits a zero struct, and the names
// of the structs that the field is embedded with: “ProbeHandler>?@api.core.v1.TCPSocketAction“.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/install"
	"k8s.io/apimachinery/pkg/runtime"
	aggregator "k8s.io/kube-aggregator/pkg/apis/apiregistration/install"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/admission/install"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	_ "k8s.io/kubernetes/pkg/apis/apiserverinternal/install"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/authentication/install"
	_ "k8s.io/kubernetes/pkg/apis/authorization/install"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install"
	_ "k8s.io/kubernetes/pkg/apis/batch/install"
	_ "k8s.io/kubernetes/pkg/apis/certificates/install"
	_ "k8s.io/kubernetes/pkg/apis/coordination/install"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	_ "k8s.io/kubernetes/pkg/apis/discovery/install"
	_ "k8s.io/kubernetes/pkg/apis/events/install"
	_ "k8s.io/kubernetes/pkg/apis/extensions/install"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install"
	_ "k8s.io/kubernetes/pkg/apis/imagepolicy/install"
	_ "k8s.io/kubernetes/pkg/apis/lifecycle/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	_ "k8s.io/kubernetes/pkg/apis/resource/install"
	_ "k8s.io/kubernetes/pkg/apis/scheduling/install"
	_ "k8s.io/kubernetes/pkg/apis/storage/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
)

type field struct{ Name, Type string }

// structs are the fields of every struct by its name.
type structs map[string][]field

var (
	renamed   = map[string]string{}
	shortened = strings.NewReplacer("k8s.io/kubernetes/pkg/apis/", "", "k8s.io/", "", "apimachinery/pkg/apis/", "", "/", ".")
	opaque    = map[string]bool{
		"v1.Time": true, "v1.MicroTime": true, "v1.Duration": true, "resource.Quantity": true, "intstr.IntOrString": true,
		"runtime.RawExtension": true, "v1.FieldsV1": true, "time.Duration": true, "time.Time": true, "runtime.Unknown": true,
		"v1.JSON": true, "apiextensions.JSON": true,
	}
)

func name(t reflect.Type) string { return shortened.Replace(t.PkgPath()) + "." + t.Name() }

func (s structs) written(t reflect.Type) string {
	text := t.String()
	if opaque[text] {
		return text
	}
	what := ""
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + s.written(t.Elem())
	case reflect.Struct:
		s.add(t)
		return "@" + name(t)
	case reflect.Slice:
		what = "[]" + s.written(t.Elem())
	case reflect.Map:
		what = "map[" + t.Key().String() + "]" + s.written(t.Elem())
	default:
		what = t.Kind().String()
	}
	if t.Name() == "" || t.PkgPath() == "" {
		return what
	}
	return text + "=" + what
}

func (s structs) add(t reflect.Type) {
	if _, known := s[name(t)]; known {
		return
	}
	s[name(t)] = nil
	s[name(t)] = s.fields(t)
}

func (s structs) fields(t reflect.Type) []field {
	found := []field{}
	for i := range t.NumField() {
		member := t.Field(i)
		tag := member.Tag.Get("json")
		parts := strings.Split(tag, ",")
		if tag == "-" || !member.IsExported() {
			continue
		}
		if member.Anonymous && parts[0] == "" {
			found = append(found, field{">" + member.Name, s.written(member.Type)})
			continue
		}
		label := parts[0]
		if label == "" {
			label = member.Name
		}
		mark := ""
		for _, option := range parts[1:] {
			mark += map[string]string{"omitempty": "?", "omitzero": "!"}[option]
		}
		if !member.Anonymous && tag != "" && !strings.EqualFold(label, member.Name) {
			renamed[t.Name()+"."+member.Name] = label
		}
		found = append(found, field{label, mark + s.written(member.Type)})
	}
	return found
}

func (s structs) write(path string) {
	names := []string{}
	for name := range s {
		names = append(names, name)
	}
	sort.Strings(names)
	out := &bytes.Buffer{}
	out.WriteString("{")
	for i, name := range names {
		if i > 0 {
			out.WriteString(",")
		}
		fmt.Fprintf(out, "\n%q:{", name)
		for j, field := range s[name] {
			if j > 0 {
				out.WriteString(",")
			}
			fmt.Fprintf(out, "%s:%s", quoted(field.Name), quoted(field.Type))
		}
		out.WriteString("}")
	}
	out.WriteString("\n}\n")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		panic(err)
	}
}

func quoted(text string) string {
	out := &bytes.Buffer{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text)
	return strings.TrimSpace(out.String())
}

// described names the types of all kinds that built_in.json knows.
func described(folder string) map[string]bool {
	content, err := os.ReadFile(filepath.Join(folder, "cluster", "built_in.json"))
	if err != nil {
		panic(err)
	}
	var file struct{ Kinds map[string]string }
	if err := json.Unmarshal(content, &file); err != nil {
		panic(err)
	}
	kinds := map[string]bool{}
	for _, name := range file.Kinds {
		kinds[name] = true
	}
	return kinds
}

func main() {
	folder := os.Args[1]
	scheme := runtime.NewScheme()
	apiextensions.Install(scheme)
	aggregator.Install(scheme)
	wanted := described(folder)
	external, internal := structs{}, structs{}
	for _, known := range []map[string]map[string]reflect.Type{typesOf(scheme), typesOf(legacyscheme.Scheme)} {
		for _, t := range known["external"] {
			if wanted[name(t)] {
				external.add(t)
			}
		}
		for _, t := range known["internal"] {
			if !strings.HasSuffix(t.Name(), "List") && !strings.HasSuffix(t.Name(), "Options") {
				internal.add(t)
			}
		}
	}
	for label, name := range renamed {
		internal["renamed"] = append(internal["renamed"], field{label, name})
	}
	slices.SortFunc(internal["renamed"], func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	external.write(filepath.Join(folder, "cluster", "go_types.json"))
	internal.write(filepath.Join(folder, "registry", "internal_types.json"))
}

func typesOf(scheme *runtime.Scheme) map[string]map[string]reflect.Type {
	found := map[string]map[string]reflect.Type{"external": {}, "internal": {}}
	for kind, t := range scheme.AllKnownTypes() {
		which := "external"
		if kind.Version == runtime.APIVersionInternal {
			which = "internal"
		}
		found[which][kind.String()] = t
	}
	return found
}
