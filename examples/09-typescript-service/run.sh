#!/bin/sh
# Installs and builds the service, starts it, and checks that it keeps the contract.
set -eu
cd "$(dirname "$0")"
. ../environment.sh

npm ci --silent --no-audit --no-fund --ignore-scripts
npx --no-install tsc

node build/service.js &
trap 'kill $!' EXIT
pratique verify 127.0.0.1:18909 --controller labels.example.com --timeout 20s -o "${1:-text}"
