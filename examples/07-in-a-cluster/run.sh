#!/bin/sh
# Tests what may run in the namespace of Pratique, without a cluster.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
pratique test --coverage-threshold 100 --output "${1:-text}" .
