#!/bin/sh
# marimo speaks to agents over a WebSocket on ports that it knows; 3017 is the one that it lists as Claude.
exec npx stdio-to-ws "pattern-acp acp" --port 3017
