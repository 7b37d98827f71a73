"""The check of a built site, on sites of two pages written by hand."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def check_site():
    spec = importlib.util.spec_from_file_location("check_site", ROOT / "infra" / "site" / "check_site.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def make_site(tmp_path):
    def make(body, *, found="training.html#tasks"):
        (tmp_path / "search").mkdir()
        (tmp_path / "search" / "search_index.json").write_text(
            json.dumps({"docs": [{"location": found, "title": "Tasks", "text": "On two GPUs."}]})
        )
        (tmp_path / "training.html").write_text('<h2 id="tasks">Tasks</h2>')
        (tmp_path / "index.html").write_text(f'<a href="training.html">t</a>{body}')
        return tmp_path

    return make


def test_a_site_whose_links_lead_somewhere_has_no_faults(check_site, make_site):
    site = make_site(
        '<a href="training.html#tasks">a</a><a href="https://example.org/x">b</a><img src="training.html">'
    )

    assert check_site.faults(site, {}) == []


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="trainin.html">a</a>', "link to 'trainin.html', which does not exist"),
        ('<a href="training.html#task">a</a>', "link to 'training.html#task', where training.html has no such anchor"),
        ('<a href="#here">a</a>', "link to '#here', where index.html has no such anchor"),
        ('<img src="missing.svg">', "link to 'missing.svg', which does not exist"),
        ('<script src="https://cdn.example/x.js"></script>', "loads https://cdn.example/x.js from elsewhere"),
        ('<link rel="preconnect" href="//fonts.example">', "loads //fonts.example from elsewhere"),
    ],
)
def test_a_link_to_nothing_and_what_comes_from_elsewhere_are_faults(check_site, make_site, body, fault):
    assert check_site.faults(make_site(body), {}) == [f"index.html: {fault}"]


def test_style_sheets_and_the_search_index_are_looked_at(check_site, make_site):
    site = make_site("", found="training.html#gone")
    (site / "site.css").write_text("a { background: url('//img.example/a.png') } b { background: url(a.png) }")

    assert check_site.faults(site, {}) == [
        "site.css: loads //img.example/a.png",
        "search: link to 'training.html#gone', where training.html has no such anchor",
    ]


def test_searches_find_their_pages(check_site, make_site):
    wanted = {"gpu": "training.html", "tasks two": "training.html", "TPU": "training.html"}

    assert check_site.faults(make_site(""), wanted) == ["search: 'TPU' does not find training.html"]


def test_pages_that_are_more_than_two_clicks_away_are_faults(check_site, make_site):
    site = make_site("")
    for name, link in (("training", "a"), ("a", "b"), ("b", "index")):
        with (site / f"{name}.html").open("a") as file:
            file.write(f'<a href="{link}.html">{link}</a>')

    assert check_site.faults(site, {}) == ["b.html: more than 2 clicks from index.html"]


def test_an_empty_folder_is_no_site(check_site, tmp_path):
    assert "Build the site first" in check_site.faults(tmp_path, {})[0]
