#!/bin/bash
# Serve the database that POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB name; the first time, make it.
set -euo pipefail

if [[ ! -s $PGDATA/PG_VERSION ]]; then
  initdb --pgdata="$PGDATA" --encoding=UTF8 --locale=C.UTF-8 --username="$POSTGRES_USER" \
    --pwfile=<(echo "$POSTGRES_PASSWORD") --auth-local=trust --auth-host=scram-sha-256 >/dev/null
  echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE \"$POSTGRES_DB\"" | postgres --single -D "$PGDATA" postgres >/dev/null
fi
exec postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql
