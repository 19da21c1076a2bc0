#!/bin/sh
# chuk-acp's command line client (PyPI), by itself: it sends string ids, promises nothing, and never answers a request.
. "$(dirname "$0")/common.sh"
venv chuk-acp "$python" chuk-acp==0.3.2

echo "== a read, which needs no permission"
chuk-acp client pattern-acp --cwd "$place/work" -p "read greeting.py" | tee "$place/answer"
grep -q "def greet" "$place/answer"
echo "== the answer holds the file"
