# Sourced by each run.sh, in its folder: finds the programs of a checkout, or says how to get them.
# `needs MODULE PACKAGE` says how to get what one example needs besides.
PATH="$PWD/../../.venv/bin:$PATH"
command -v pratique >/dev/null || {
    echo "$0: pratique is not installed: run 'make up' once, or pip install '.[services,prove]'" >&2
    exit 127
}
needs() {
    python -c "import $1" 2>/dev/null || {
        echo "$0: this example needs $2 as well: $(command -v python) -m pip install $2" >&2
        exit 127
    }
}
