"""The lists of `[policy]` in the files of settings."""

from pathlib import Path

from pattern_acp.config.load import load
from pattern_acp.config.settings import Flags


def test_a_project_may_ask_and_deny_but_not_allow(tmp_path: Path):
    own, project = tmp_path / "own", tmp_path / "project"
    own.mkdir()
    (project / ".pattern").mkdir(parents=True)
    (own / "config.toml").write_text(
        '[policy]\nallow = ["run pytest *", "read ~/notes/**"]\ndeny = ["run git push # CI does it"]\n',
        encoding="utf-8",
    )
    (project / ".pattern" / "config.toml").write_text(
        '[policy]\nallow = ["run make"]\nask = ["fetch *"]\n', encoding="utf-8"
    )
    environ = {"PATTERN_ACP_HOME": str(own), "HOME": "/home/me"}
    loaded = load(Flags(), environ, project_dir=str(project))
    rules = loaded.settings.policy.rules
    assert [(str(rule), rule.layer) for rule in rules] == [
        ("allow run pytest *", "user"),
        ("allow read /home/me/notes/**", "user"),
        ("deny run git push", "user"),
        ("ask fetch *", "project"),
    ]
    assert rules[2].reason == "CI does it"
    assert [problem.sentence for problem in loaded.problems] == [
        "a project may only add rules to `ask` and `deny`; it is not used."
    ]


def test_a_list_that_is_none_and_an_unknown_list_are_problems(tmp_path: Path):
    (tmp_path / "config.toml").write_text('[policy]\nallow = "run make"\nforbid = []\n', encoding="utf-8")
    loaded = load(Flags(), {"PATTERN_ACP_HOME": str(tmp_path)}, project_dir=None)
    assert loaded.settings.policy.rules == ()
    assert {problem.key for problem in loaded.problems} == {"policy.allow", "policy.forbid"}
