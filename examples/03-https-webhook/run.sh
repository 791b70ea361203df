#!/bin/sh
# Makes a certificate, starts the webhook, and reviews two Pods with it.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
mkdir -p local
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=localhost -addext subjectAltName=DNS:localhost \
    -keyout local/key.pem -out local/cert.pem 2>/dev/null
sed "s/CA_BUNDLE/$(base64 <local/cert.pem | tr -d '\n')/" config.template.yaml >local/config.yaml
ready=$(mktemp)
python serve.py >"$ready" &
trap 'kill $!; rm -rf "$ready" local' EXIT
until grep -q ready "$ready"; do kill -0 $!; sleep 0.1; done
pratique review --admission-control MutatingAdmissionWebhook,ValidatingAdmissionWebhook \
    --config local/config.yaml --output "${1:-text}" input.yaml
