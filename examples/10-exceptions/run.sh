#!/bin/sh
# Reviews the same Deployment in two namespaces, one of which has an exception.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
pratique review --admission-control ValidatingAdmissionPolicy \
    --config policies.yaml --config exceptions.yaml --output "${1:-text}" input.yaml
