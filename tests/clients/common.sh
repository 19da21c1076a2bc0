# Sourced by the scripts beside it. Makes a project to work in and a `pattern-acp` that keeps what it and the client say:
#   $root      this repository           $python    its environment's Python (or $PYTHON)
#   $place     a new folder: work/ is the project, home/ the agent's files, recordings/ what was said
# The model is `offline` unless PATTERN_ACP_MODEL or a key says otherwise.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tests/clients
cd "$root"
. "$root/scripts/python.sh"

cache=${TMPDIR:-/tmp}/pattern-acp-clients
mkdir -p "$cache"
place=$(mktemp -d "$cache/run-XXXXXX")
mkdir "$place/work" "$place/home" "$place/bin"
printf 'def greet(name):\n    return "hello " + name\n' >"$place/work/greeting.py"
printf 'Tests are run with: python -m unittest\n' >"$place/work/AGENTS.md"
git init -q "$place/work" 2>/dev/null || true

cat >"$place/bin/pattern-acp" <<END
#!/bin/sh
exec "$python" -m tests.support.recorder "$place/recordings" "$python" -m pattern_acp "\$@"
END
chmod +x "$place/bin/pattern-acp"
PATH=$place/bin:$PATH
PATTERN_ACP_HOME=$place/home
export PATH PATTERN_ACP_HOME
if [ -z "${PATTERN_ACP_MODEL:-}${ANTHROPIC_API_KEY:-}${OPENAI_API_KEY:-}" ]; then
    export PATTERN_ACP_MODEL=offline/offline
fi
cd "$place/work"

# need PROGRAM WHERE-FROM: leave with a sentence when the program is missing.
need() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "$(basename "$0") needs $1: $2" >&2
    exit 2
}

# venv NAME PYTHON PACKAGE…: an environment that is kept for the next time; its programs come first on the PATH.
venv() {
    venv_dir=$cache/$1 venv_python=$2
    shift 2
    if [ ! -e "$venv_dir/ready" ]; then
        "$venv_python" -m venv "$venv_dir"
        "$venv_dir/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
        touch "$venv_dir/ready"
    fi
    PATH=$place/bin:$venv_dir/bin:$PATH
}

# look LINE…: what a person should try, and see.
look() {
    echo "The project is $place/work. Try, and look whether:"
    for line in "$@"; do
        echo "  - $line"
    done
}

# judge: hold every line that the agent wrote against the SDK and the schema of ACP.
judge() {
    (cd "$root" && "$python" -c 'import sys, pathlib; from tests.support.process import judge_recordings
print(judge_recordings(pathlib.Path(sys.argv[1])), "lines of the agent, all of them sound")' "$place/recordings") ||
        echo "The recordings in $place/recordings hold the line that is not." >&2
}
trap judge EXIT
