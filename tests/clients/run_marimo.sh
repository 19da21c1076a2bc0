#!/bin/sh
# marimo's agents panel (PyPI), through stdio-to-ws (npm), in a browser. Needs npx.
. "$(dirname "$0")/common.sh"
need npx "it comes with Node"
venv marimo "$python" marimo==0.25.2
cp "$root/editor-configs/marimo/marimo.toml" "$place/work/marimo.toml"
: >"$place/work/notebook.py"
npm_config_yes=true sh "$root/editor-configs/marimo/bridge.sh" >"$place/bridge.log" 2>&1 &
bridge=$!
trap 'kill "$bridge" 2>/dev/null || true; judge' EXIT
look \
    "the agents panel offers Claude; choosing it connects (the bridge's log is $place/bridge.log)" \
    "a prompt carries the notebook's rules as a resource, and is answered" \
    "'replace \"hello\" with \"good day\" in greeting.py' asks with a diff" \
    "a failure of the model is a sentence in the chat and not an error page"
marimo edit --no-token ${MARIMO_OPTIONS:-} notebook.py
