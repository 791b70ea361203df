#!/bin/sh
# Install what `pratique review` and `pratique check` need, exactly as it is locked, in a new virtual environment:
#
#   scripts/install_locked.sh FOLDER        with PYTHON=<interpreter>, if that is not python3
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
# -I: the modules of the folder that this runs in are not for us to run
"${PYTHON:-python3}" -I -m venv --clear -- "$1"
pip() {
  "$environment/bin/python" -I -m pip --disable-pip-version-check --no-input --quiet "$@"
}
environment=$1
pip install --require-hashes --requirement "$root/scripts/requirements/offline.txt"
pip install --no-deps --no-build-isolation "$root"
