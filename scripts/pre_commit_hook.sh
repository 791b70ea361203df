#!/bin/sh
# What pre-commit runs: pratique, installed beside this file on first use, with a command, its flags, `--` and files.
#
# The files are what a commit changes, and anybody can name one like a flag. Behind `--` none is one, so it has to be
# there: hooks have it as their `args`, and so must whoever gives them others.
set -eu
for argument; do
  [ "$argument" != -- ] || separated=yes
done
if [ -z "${separated-}" ]; then
  echo "pratique: the args of a hook end with --, so that no file is taken for a flag: args: [..., --]" >&2
  exit 2
fi
root=$(cd "$(dirname "$0")/.." && pwd)
environment=$root/.pre-commit-environment
if [ ! -e "$environment/installed" ]; then
  "$root/scripts/install_locked.sh" "$environment" >&2
  touch "$environment/installed"
fi
exec "$environment/bin/pratique" "$@"
