#!/usr/bin/env bash
# Make an image for compose.yaml's ledger of Debian's PostgreSQL, where postgres:17-alpine cannot be pulled:
#
#   scripts/make_base_image.sh pratique-base
#   scripts/make_ledger_image.sh pratique-ledger pratique-base --network host
#   LEDGER_IMAGE=pratique-ledger docker compose up
#
# The base is any of Debian's releases; what follows it goes to `docker build`.
set -euo pipefail

name=${1:?usage: make_ledger_image.sh NAME BASE [DOCKER BUILD FLAGS]}
base=${2:?usage: make_ledger_image.sh NAME BASE [DOCKER BUILD FLAGS]}
command -v docker >/dev/null || { echo "make_ledger_image.sh: docker is not installed" >&2; exit 2; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
docker build --quiet --tag "$name" --build-arg "BASE_IMAGE=$base" "${@:3}" \
  "$(dirname "${BASH_SOURCE[0]}")/ledger_image" >"$log" 2>&1 || { tail -n 5 "$log" >&2; exit 3; }
echo "made $name"
