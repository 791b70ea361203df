#!/bin/sh
# Reviews two Deployments with two policies written in CEL.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
pratique review --admission-control MutatingAdmissionPolicy,ValidatingAdmissionPolicy \
    --config policies.yaml --cluster cluster.yaml --output "${1:-text}" input.yaml
