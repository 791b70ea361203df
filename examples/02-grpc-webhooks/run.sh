#!/bin/sh
# Starts the services, and reviews two Pods with them.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
needs grpc_tools grpcio-tools
ready=$(mktemp)
python serve.py >"$ready" &
trap 'kill $!; rm -f "$ready"' EXIT
until grep -q ready "$ready"; do kill -0 $!; sleep 0.1; done
pratique review --admission-control MutatingAdmissionWebhook,ValidatingAdmissionWebhook \
    --config config.yaml --output "${1:-text}" input.yaml
