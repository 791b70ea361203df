#!/bin/sh
# Installs the policy's package into a folder of its own, and reviews two Pods with it.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
needs hatchling hatchling
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
python -m pip install --quiet --no-deps --no-build-isolation --target "$packages" .
PYTHONPATH="$packages" pratique review --admission-control CostCentre,RequireTeam \
    --output "${1:-text}" input.yaml
