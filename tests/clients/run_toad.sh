#!/bin/sh
# Toad (PyPI batrachian-toad) in this terminal. Needs Python 3.14 or newer, as python3.14 or $TOAD_PYTHON.
. "$(dirname "$0")/common.sh"
toad_python=${TOAD_PYTHON:-python3.14}
need "$toad_python" "Python 3.14 or newer; set TOAD_PYTHON to its path"
venv toad "$toad_python" batrachian-toad
look \
    "'read greeting.py' shows a tool call with the file's text" \
    "'replace \"hello\" with \"good day\" in greeting.py' opens a diff; allowed, the file changes; rejected, it does not" \
    "'run sleep 60' shows a terminal; Esc Esc ends it, and the next prompt works" \
    "ctrl+o lists the modes ask, edit, plan, auto; '/' lists our commands" \
    "after leaving, ctrl+r in the store screen shows the session again"
printf 'Enter starts Toad. '
read -r _
sh "$root/editor-configs/toad/pattern.sh" "$place/work"
