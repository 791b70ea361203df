#!/usr/bin/env bash
# Build a program that tests need and that is a Go module, once: of the release that its go.mod requires, into the user's
# cache, where tests/support/go_programs.py looks for it.
#
#   scripts/build_for_tests.sh kube-apiserver     some 10 minutes on 2 cores, and 2.5 GB
#   scripts/build_for_tests.sh docker-compose     a minute after that: they share what they are made of, see tests/go.work
#   scripts/build_for_tests.sh helm               likewise
#   scripts/build_for_tests.sh cosign             some 5 minutes
#   scripts/build_for_tests.sh registry           some 3 minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../tests"

name=${1:-}
case $name in
kube-apiserver)
  cd apiserver
  module=k8s.io/kubernetes package=.
  ;;
docker-compose)
  cd containers/compose
  module=github.com/docker/compose/v2 package=$module/cmd
  ;;
helm)
  cd helm
  module=helm.sh/helm/v3 package=$module/cmd/helm
  ;;
cosign)
  cd images/cosign
  module=github.com/sigstore/cosign/v3 package=$module/cmd/cosign
  ;;
registry)
  cd images/distribution
  module=github.com/distribution/distribution/v3 package=$module/cmd/registry
  ;;
*)
  echo "usage: build_for_tests.sh kube-apiserver|docker-compose|helm|cosign|registry" >&2
  exit 2
  ;;
esac
if [[ $name == kube-apiserver && -x ${KUBEBUILDER_ASSETS:-}/$name ]]; then
  echo "the tests use $KUBEBUILDER_ASSETS/$name"
  exit
fi
version=$(awk -v module="$module" '$1 == module { print substr($2, 2) } $2 == module { print substr($3, 2) }' go.mod)
program=${XDG_CACHE_HOME:-$HOME/.cache}/pratique/$name/$version/$name
# A program of ours around the module is part of what is built; a copy of it lies beside the result.
is_built() {
  [[ -x $program ]] && { [[ ! -f main.go ]] || cmp -s main.go "$program.go"; }
}
if ! is_built; then
  command -v go >/dev/null || {
    echo "no Go toolchain: $name $version cannot be built" >&2
    exit 1
  }
  echo "building $name $version, which takes some minutes"
  mkdir -p "${program%/*}"
  built=$(mktemp "$program.XXXXXX")
  trap 'rm -f "$built"' EXIT
  IFS=. read -r major minor _ <<<"$version"
  stamp=k8s.io/component-base/version
  flags="-X $stamp.gitVersion=v$version -X $stamp.gitMajor=$major -X $stamp.gitMinor=$minor"
  case $name in
  docker-compose) flags="-X github.com/docker/compose/v2/internal.Version=v$version" ;;
  helm) flags="-X helm.sh/helm/v3/internal/version.version=v$version" ;;
  cosign | registry) flags='' && export GOWORK=off ;;
  esac
  # tests run beside it, and the machine may be somebody's desk; a larger heap saves what collects the compiler's garbage
  background=(nice -n 19)
  command -v ionice >/dev/null && background+=(ionice -c 3)
  CGO_ENABLED=0 GOGC=${GOGC:-400} "${background[@]}" \
    go build -v -mod=readonly -trimpath -ldflags "-s -w $flags" -o "$built" "$package" 2>&1 |
    awk -v name="$name" '/ / { print; next } ++compiled % 200 == 0 { print name ": " compiled " packages"; fflush() }'
  chmod 755 "$built"
  mv "$built" "$program"
  [[ ! -f main.go ]] || cp main.go "$program.go"
fi
echo "the tests use $program"
