#!/bin/sh
# Jupyter AI 3 (PyPI) in JupyterLab, in a browser. The first run downloads about 300 MB.
. "$(dirname "$0")/common.sh"
venv jupyter-ai "$python" jupyterlab jupyter-ai==3.2.0 jupyter-ai-acp-client==0.3.3
mkdir -p "$place/work/.jupyter/personas"
cp "$root"/editor-configs/jupyter-ai/pattern* "$place/work/.jupyter/personas/"
look \
    "a new chat knows @Pattern, and '@Pattern read greeting.py' answers with the file" \
    "'@Pattern replace \"hello\" with \"good day\" in greeting.py' shows buttons; each does what it says" \
    "'@Pattern run sleep 60' can be stopped, and the next prompt works" \
    "mode and model can be chosen below the chat; a second chat is a second session of one process" \
    "its MCP server on localhost, which it passes unasked and which may fail, does no harm"
jupyter lab --IdentityProvider.token= ${JUPYTER_OPTIONS:-}
