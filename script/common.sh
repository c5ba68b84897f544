# Sourced by the scripts beside it: the tree, the environment, and how it is made. Works from any folder.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
bin=$venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '== %s\n' "$*" >&2; }

# The first interpreter that is new enough; prints its path.
find_python() {
    local name
    for name in python3 python3.11 python3.12 python3.13 python3.14; do
        if "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$name" -c 'import sys; print(getattr(sys, "_base_executable", sys.executable))'
            return
        fi
    done
    say "Python 3.11 or newer is needed; none of python3, python3.11 … python3.14 is one"
    return 1
}

# Does $venv run, and was it made here (a copied environment runs the scripts of the old place)?
venv_is_usable() {
    [ -x "$bin/python" ] && [ "$("$bin/python" -c 'import sys; print(sys.prefix)' 2>/dev/null)" = "$venv" ] &&
        grep -qF "$bin/python" "$bin/pip"
}
