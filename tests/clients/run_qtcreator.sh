#!/bin/sh
# Qt Creator 20 or newer with its plugin ACP Client, on a display (DISPLAY, or a virtual one: xvfb-run sh run_qtcreator.sh).
. "$(dirname "$0")/common.sh"
need qtcreator "version 20 or newer, for example from Debian sid: apt-get install --no-install-recommends qtcreator"
if [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ]; then
    echo "run_qtcreator.sh needs a display; without one: xvfb-run sh $0" >&2
    exit 2
fi
look \
    "Preferences, AI, ACP Servers, Add, Custom takes: Name Pattern, Executable $place/bin/pattern-acp, Arguments acp" \
    "Tools, ACP Client, Show Agentic AI Chat in Side Panel connects, and shows mode and model" \
    "'read greeting.py' shows line 1 too (Qt Creator counts lines from 0 when it is asked for some)" \
    "'replace \"hello\" with \"good day\" in greeting.py' asks with a diff, and the open editor shows the change" \
    "'run sleep 60', then Stop: the turn ends as cancelled though Qt Creator never answers what was asked" \
    "the built-in documentation server, which it passes unasked and which may fail, does no harm" \
    "after a new start, Connect lists the session and shows it again"
qtcreator -load acpclient -notour -no-crashcheck -settingspath "$place/settings" "$place/work/greeting.py"
