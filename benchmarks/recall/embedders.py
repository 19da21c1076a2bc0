"""The embedders that can be measured, by the names of the setting. `pattern-acp doctor` says where mpnet's parts go."""

from collections.abc import Callable
from functools import partial

from pattern_acp.bootstrap.embedding import MODELS
from pattern_acp.config.load import process_environment
from pattern_acp.config.paths import find_paths
from pattern_acp.memory.embeddings import Embedder, HashedNgrams
from pattern_acp.memory.local_embedders import DistilledMiniLm, MiniLm, has_runtime, is_installed
from pattern_acp.memory.mpnet import Mpnet, can_be_used

_FOLDER = find_paths(process_environment())[0].cache / MODELS

EMBEDDERS: dict[str, Callable[[], Embedder]] = {
    "hash": HashedNgrams,
    "distilled": DistilledMiniLm,
    "minilm": MiniLm,
    "mpnet": partial(Mpnet, _FOLDER),
}


def usable() -> list[str]:
    """Names of those that can be used here."""
    large = ["mpnet"] if has_runtime() and can_be_used(_FOLDER) else []
    return ["hash", "distilled", *(["minilm"] if is_installed() else []), *large]
