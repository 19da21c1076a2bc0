#!/bin/sh
# agent-shell in Emacs, in this terminal. Needs Emacs 29 or newer, and the folders of agent-shell, acp.el and shell-maker:
#   AGENT_SHELL_PATH=~/src/agent-shell:~/src/acp.el:~/src/shell-maker sh run_agent_shell.sh
. "$(dirname "$0")/common.sh"
need emacs "version 29 or newer"
if [ -z "${AGENT_SHELL_PATH:-}" ]; then
    echo "run_agent_shell.sh needs AGENT_SHELL_PATH: the folders of agent-shell, acp.el and shell-maker, with ':' between" >&2
    exit 2
fi
look \
    "M-x agent-shell, Pattern, answers 'read greeting.py'" \
    "'replace \"hello\" with \"good day\" in greeting.py' shows buttons: y allows, ! allows always, C-c C-c cancels" \
    "the title of the buffer becomes the first prompt; the model's use of tokens is shown"
printf 'Enter starts Emacs. '
read -r _
EMACSLOADPATH="$AGENT_SHELL_PATH:" emacs -nw -Q -l "$root/editor-configs/emacs-agent-shell/pattern.el" greeting.py
