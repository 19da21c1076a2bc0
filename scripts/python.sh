# Sourced by the other scripts: sets $python to an absolute path. $PYTHON wins, then the project's own environment.
python=${PYTHON:-.venv/bin/python}
if [ -z "${PYTHON:-}" ] && [ ! -x "$python" ]; then
    python=.venv/Scripts/python.exe # Windows
fi
if ! python=$(command -v "$python"); then
    echo "There is no environment yet. Make one with: python3 -m venv .venv && .venv/bin/pip install -c constraints.txt -e '.[dev]'" >&2
    exit 2
fi
case $python in
/* | [A-Za-z]:*) ;;
*) python=$(pwd)/$python ;;
esac
