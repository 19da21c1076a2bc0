"""Templates that ship, and those that a person adds."""

from pathlib import Path

import pytest

from pattern_acp.domain.errors import ConfigError
from pattern_acp.memory.blocks import Permission, Scope, Tier
from pattern_acp.memory.document import BlockDocument
from pattern_acp.memory.errors import UnusableEditError
from pattern_acp.memory.schemas.types import ListSchema, LogSchema, MapSchema
from pattern_acp.memory.templates import load_templates

BUILT_IN = {
    "persona",
    "partner-profile",
    "project-conventions",
    "scratchpad",
    "observation-log",
    "decision-record",
}


def test_the_built_in_templates_are_those_of_the_contract():
    assert set(load_templates(None).usable) == BUILT_IN


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_block_can_be_made_of_every_built_in_template(name: str):
    template = load_templates(None).usable[name]
    spec = template.block("ada", "label", text="name: Ada" if name == "partner-profile" else "")
    document = BlockDocument.create("label", spec.text, peer=1, schema=spec.schema)
    assert len(document.text) <= spec.limit
    assert spec.description == template.description
    assert spec.key.owner == "ada"


def test_the_templates_say_what_their_names_promise():
    templates = load_templates(None).usable
    assert templates["partner-profile"].permission is Permission.PARTNER
    assert isinstance(templates["partner-profile"].schema, MapSchema)
    assert isinstance(templates["observation-log"].schema, LogSchema)
    assert templates["observation-log"].permission is Permission.APPEND
    assert isinstance(templates["decision-record"].schema, ListSchema)
    assert templates["scratchpad"].tier is Tier.WORKING
    assert templates["persona"].scope is Scope.PERSONA


def test_a_template_of_the_person_counts_before_a_built_in_one(tmp_path: Path):
    (tmp_path / "scratchpad.toml").write_text('description = "Mine."\nlimit = 100\n', encoding="utf-8")
    (tmp_path / "ideas.toml").write_text(
        'description = "Ideas."\n[schema]\nkind = "list"\nmax_items = 3\n', encoding="utf-8"
    )
    templates = load_templates(tmp_path).usable
    assert templates["scratchpad"].limit == 100
    assert templates["ideas"].schema == ListSchema(max_items=3)
    assert set(templates) == BUILT_IN | {"ideas"}


def test_a_folder_that_is_not_there_adds_nothing(tmp_path: Path):
    assert set(load_templates(tmp_path / "none").usable) == BUILT_IN


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("limit = 3", "description"),
        ('description = " "', "`description` is empty"),
        ('description = "x"\nlimit = 99999', "`limit` must be from 1 to 32000"),
        ('description = "x"\nscope = "all"', "scope"),
        ('description = "x"\npermission = "all"', "permission"),
        ('description = "x"\nsize = 1', "size"),
        ('description = "x"\n[schema]\nkind = "graph"', "graph"),
        ('description = "x"\n[schema]\nkind = "log"\nshown = 0', "`shown`"),
        (
            'description = "x"\n[schema]\nkind = "map"\n[[schema.fields]]\nname = "a"\nkind = "number"\ndefault = "b"',
            "`a` must be a number",
        ),
        ("description", "is no TOML"),
    ],
)
def test_a_file_that_is_no_template_is_named_with_its_problem(tmp_path: Path, text: str, problem: str):
    (tmp_path / "bad.toml").write_text(text, encoding="utf-8")
    templates = load_templates(tmp_path)
    with pytest.raises(ConfigError, match=r"bad\.toml") as caught:
        templates.named("bad", "label")
    assert problem in caught.value.sentence
    assert templates.named("scratchpad", "label").tier is Tier.WORKING, "the others are there all the same"


def test_an_unknown_template_is_named_with_those_there_are():
    with pytest.raises(UnusableEditError, match=r"no template 'x'; the templates are .*persona"):
        load_templates(None).named("x", "label")
