#!/usr/bin/env bash
# Build kube-apiserver for the tests, once: of the release of Kubernetes that tests/apiserver/go.mod requires, into the
# user's cache, where tests/support/kubernetes_programs.py looks for it. It takes some 10 minutes on 2 cores and 2.5 GB.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tests/apiserver"

if [[ -n ${KUBEBUILDER_ASSETS:-} && -x $KUBEBUILDER_ASSETS/kube-apiserver ]]; then
  echo "the tests use $KUBEBUILDER_ASSETS/kube-apiserver"
  exit
fi
version=$(sed -n 's/^\tk8s\.io\/kubernetes v//p' go.mod)
program=${XDG_CACHE_HOME:-$HOME/.cache}/pratique/kubernetes/$version/kube-apiserver
if [[ ! -x $program ]]; then
  command -v go >/dev/null || {
    echo "no Go toolchain: kube-apiserver $version cannot be built" >&2
    exit 1
  }
  echo "building kube-apiserver $version, which takes some minutes"
  mkdir -p "${program%/*}"
  built=$(mktemp "$program.XXXXXX")
  trap 'rm -f "$built"' EXIT
  stamp=k8s.io/component-base/version
  IFS=. read -r major minor _ <<<"$version"
  go build -mod=readonly -trimpath -o "$built" \
    -ldflags "-s -w -X $stamp.gitVersion=v$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor" .
  chmod 755 "$built"
  mv "$built" "$program"
fi
echo "the tests use $program"
