"""What the documents name is there."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def test_the_readme_tours_eight_files_that_exist():
    section = (ROOT / "README.md").read_text().partition("## Eight files to read first")[2].partition("\n## ")[0]
    files = re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)
    assert len(files) == 8
    assert [name for name in files if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_and_paths_lead_somewhere(document):
    text = document.read_text()
    links = [link for link in re.findall(r"\]\(([^)#]+)[^)]*\)", text) if "://" not in link]
    assert [link for link in links if not (document.parent / link).exists()] == []
    paths = re.findall(r"`((?:src|tests|docs|examples|scripts|fuzz|bench)/[\w./*-]+)`", text)
    missing = [path for path in paths if not any(ROOT.glob(path.rstrip("/")))]
    assert missing == []


def test_every_key_of_the_configuration_is_documented():
    fields = (ROOT / "src" / "app" / "run_config_fields.h").read_text()
    keys = re.findall(r'visit\("([\w.]+)", c\.', fields)
    assert len(keys) > 40
    text = (ROOT / "docs" / "configuration.md").read_text()
    names = {part for name in re.findall(r"`([\w.]+)`", text) for part in (name, name.rpartition(".")[2])}
    assert [key for key in keys if key.rpartition(".")[2] not in names] == []
