"""Recall before a turn helps or is silent, measured on prompts over 310 facts (benchmarks/recall/prompts.txt)."""

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "recall" / "prompts.py"


@pytest.mark.slow
@pytest.mark.parametrize("embedder", ["words", "hash"])
def test_most_prompts_get_the_fact_that_helps_and_few_get_what_does_not(embedder: str):
    done = subprocess.run([sys.executable, str(SCRIPT), embedder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
