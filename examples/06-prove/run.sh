#!/bin/sh
# Installs the mutators' package into a folder of its own, proves those that are idempotent, and then the others.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
needs hatchling hatchling
needs hypothesis hypothesis
packages=$(mktemp -d)
trap 'rm -rf "$packages"' EXIT
python -m pip install --quiet --no-deps --no-build-isolation --target "$packages" .
PYTHONPATH="$packages" pratique prove --admission-control \
    RunAsNonRoot,DefaultLimits,SidecarOnce,MutatingAdmissionPolicy \
    --examples 50 --output "${1:-text}" good
PYTHONPATH="$packages" pratique prove --admission-control \
    SidecarByTime,EnvOrNothing,SidecarBlindly,MutatingAdmissionPolicy \
    --examples 50 --output "${1:-text}" bad
