#!/bin/sh
# Tests two policies written in CEL, and tells which of their expressions the cases put to use.
set -eu
cd "$(dirname "$0")"
. ../environment.sh
pratique test --coverage-threshold 100 --output "${1:-text}" .
