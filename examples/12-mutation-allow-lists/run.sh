#!/bin/sh
# Reviews a Deployment and a Service, whose policies change more than they may.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
pratique review --admission-control MutatingAdmissionPolicy \
    --config policies.yaml --config allow-lists.yaml --output "${1:-text}" input.yaml
