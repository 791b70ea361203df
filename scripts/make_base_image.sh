#!/usr/bin/env bash
# Make a base for `make image` of Debian's packages, where no image can be pulled. As root:
#
#   scripts/make_base_image.sh pratique-base
#   make image BASE_IMAGE=pratique-base ARGS='--network host'
#
# SUITE is Debian's release (bookworm), MIRROR where its packages are (debootstrap's own choice). PLATFORM is that of the
# image, as Docker names it; one that is not this machine's, such as linux/arm64, needs qemu-user-static. Where pip is told
# of certificates of the host's own (PIP_CERT or SSL_CERT_FILE), the base trusts those, too: behind a proxy, nothing else
# does.
set -euo pipefail

name=${1:?usage: make_base_image.sh NAME}
for command in debootstrap docker; do
  command -v "$command" >/dev/null || { echo "make_base_image.sh: $command is not installed" >&2; exit 2; }
done
((EUID == 0)) || { echo "make_base_image.sh: debootstrap needs root" >&2; exit 2; }

platform=()
arch=()
if [[ -n ${PLATFORM:-} ]]; then
  platform=(--platform "$PLATFORM")
  arch=(--arch="${PLATFORM#linux/}") # Debian's names of linux/amd64 and linux/arm64 are Docker's
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

debootstrap "${arch[@]}" --variant=minbase --include=python3-venv,ca-certificates "${SUITE:-bookworm}" "$root" ${MIRROR:+"$MIRROR"} \
  >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; rm -f "$root.log"; exit 3; }
rm -rf "$root.log" "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/*

change=()
bundle=${PIP_CERT:-${SSL_CERT_FILE:-}}
if [[ -n $bundle ]]; then
  cat "$bundle" >"$root/etc/ssl/certs/ca-certificates.crt"
  change=(--change 'ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt')
fi
tar -C "$root" -c . | docker import "${platform[@]}" "${change[@]}" - "$name" >/dev/null
echo "made $name"
