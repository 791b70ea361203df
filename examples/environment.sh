# Sourced by each run.sh, in its folder: finds the programs of a checkout, or says how to get them.
PATH="$PWD/../../.venv/bin:$PATH"
command -v pratique >/dev/null || {
    echo "$0: pratique is not installed: run 'make up' once, or pip install '.[services,prove]'" >&2
    exit 127
}
