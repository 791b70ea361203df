#!/bin/sh
# Reviews the same Deployment in a canary's namespace and in another one.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
pratique review --admission-control ValidatingAdmissionPolicy \
    --config policies.yaml --config rollouts.yaml --output "${1:-text}" input.yaml
