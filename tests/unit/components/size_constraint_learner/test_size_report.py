from __future__ import annotations

import matplotlib as mpl
import pytest

from tfx_gnn.components.size_constraint_learner.size_report import (
    padded_work,
    render_size_report,
    sorted_budgets,
    write_size_report,
)
from tfx_gnn.reports.report_page import REPORT_FILE

ODD_NAMES = ('<script>alert("x")</script>&', "two\nlines {{ x }} {% if", "$\\frac{a\u202e'", "ü" * 120, "]]>-->")


@pytest.fixture(scope="module")
def content(size_constraints_by_hand):
    lost = size_constraints_by_hand.lost
    losses = (lost("games", 0.012), lost("kernel", 0.4), lost("web", 0.051), lost("0", 0.0, slicing="degree"))
    return size_constraints_by_hand.made_content(losses=losses, warnings=("`kernel` loses 40%.",))


@pytest.fixture(scope="module")
def page(content):
    return render_size_report(content)


@pytest.fixture(scope="module")
def read(page, read_page):
    return read_page(page)


def test_the_page_needs_nothing_from_elsewhere(page, read):
    assert not {"script", "link", "img", "iframe", "object"} & read.tags
    assert all(link.startswith("#") for link in read.links)
    assert page.replace("http://www.w3.org/1999/xlink", "").replace("http://www.w3.org/2000/svg", "").find("://") < 0


def test_ids_are_unique_and_links_lead_to_them(page, read):
    assert len(read.ids) == len(set(read.ids))
    assert {link[1:] for link in read.links} <= set(read.ids)
    assert {part.partition(")")[0] for part in page.split("url(#")[1:]} <= set(read.ids)


def test_equal_contents_give_equal_pages_whatever_the_users_settings(page, content):
    with mpl.rc_context({"svg.hashsalt": "mine", "font.size": 30, "axes.facecolor": "red"}):
        again = render_size_report(content)

    assert again == page


def test_each_budget_is_a_row_with_what_it_costs(read):
    rows = {row[0]: row[1:] for row in read.tables[0]}

    # 2 x (100 + 100 + 50) nodes and edges for 2.5 graphs.
    assert rows["packing_2"] == ["97.0%", "200", "2.5", "100%", "100%", "none", "3", "400", "100", "2 KiB"]
    assert rows["fit_or_skip_2_0.99"][3:6] == ["99.00%", "⚠ not what was asked: 98.60%", "1.40%"]
    assert rows["tight_4"] == ["12.5%", "250", "4", "100%", "100%", "none", "5", "800", "200", "4 KiB"]
    assert list(rows)[1:4] == ["packing_2", "fit_or_skip_2_0.99", "tight_2"]


def test_slices_are_sorted_and_those_above_the_limit_are_marked(read):
    by_label, by_degree = read.tables[1:3]

    assert by_label == [
        ["label class", "graphs", "fit_or_skip_2_0.99", "fit_or_skip_4_0.99"],
        ["kernel", "100", "⚠ above the limit: 40.00%", "unknown"],
        ["web", "100", "⚠ above the limit: 5.10%", "unknown"],
        ["games", "100", "1.20%", "unknown"],
    ]
    assert by_degree[1:] == [["0", "100", "0%", "unknown"]]


def test_each_set_has_its_room_and_a_drawing_with_a_title(page, read):
    room = {row[0]: row[1:] for row in read.tables[3]}

    assert list(room) == ["set", "_readout node set", "package node set", "depends edge set"]
    assert room["_readout node set"][0] == "200 97.0% ≥ 1 a component"
    assert room["depends edge set"][0] == "100 48.5%"
    assert page.count("<svg") == page.count('role="img"') == 3
    assert "Node set package: fraction of graphs by number of items</title>" in page
    sizes = {row[0]: row[1:] for row in read.tables[4]}
    assert sizes["half have at most"] == ["3", "3"]
    assert sizes["largest"] == ["2,000", "2,000"]
    assert sizes["mean"] == ["205", "205"]
    assert sizes["room, packing"] == ["80 for a graph"]


def test_the_page_tells_where_it_comes_from(read):
    assert "10 graphs of train, 10 graphs of val." in " ".join(read.text.split())
    assert "3f" * 32 in read.text
    assert "a9" * 32 in read.text
    assert "1 warning" in read.text
    assert "kernel loses 40%." in " ".join(read.text.split())


def test_names_with_odd_characters_are_shown_as_they_are(size_constraints_by_hand, read_page):
    content = size_constraints_by_hand.made_content(
        node_sets=ODD_NAMES,
        edge_sets=ODD_NAMES,
        splits=ODD_NAMES[:2],
        losses=[size_constraints_by_hand.lost(ODD_NAMES[0], 0.2)],
        warnings=ODD_NAMES,
        label_feature=ODD_NAMES[0],
    )

    page = render_size_report(content)

    read = read_page(page)
    assert "script" not in read.tags
    assert len(read.ids) == len(set(read.ids))
    for name in ODD_NAMES:
        # Set in two tables or figures as node set and as edge set, and warned of.
        assert read.text.count(name) >= 5


def test_many_sets_and_classes_are_all_there_the_worst_in_view(size_constraints_by_hand, read_page):
    losses = [size_constraints_by_hand.lost(f"class {i}", i / 1000, num_graphs=i) for i in range(60)]
    names = tuple(f"set {i}" for i in range(20))

    page = render_size_report(
        size_constraints_by_hand.made_content(node_sets=names, edge_sets=names, losses=losses, splits=("a", "b", "c"))
    )

    read = read_page(page)
    assert page.count("<svg") == 40
    assert [row[0] for row in read.tables[1][1:4]] == ["class 59", "class 58", "class 57"]
    assert len(read.tables[1]) + len(read.tables[2]) == 60 + 2
    assert "The other 45 of 60, which lose at most 4.40%" in read.text


def test_what_was_not_asked_is_said(size_constraints_by_hand, read_page):
    without = size_constraints_by_hand.made_content(label_feature="")
    nothing_skips = size_constraints_by_hand.made_content()
    for name in ("fit_or_skip_2_0.99", "fit_or_skip_4_0.99"):
        del nothing_skips.budgets[name]

    text = " ".join(read_page(render_size_report(without)).text.split())
    assert "is not known: the learner reports it if it is given a label_feature." in text
    text = read_page(render_size_report(nothing_skips)).text
    assert "Nothing: no fit-or-skip budget was learned." in text
    assert "No warnings." in text


def test_the_split_that_is_trained_on_comes_first(size_constraints_by_hand, read_page):
    content = size_constraints_by_hand.made_content(splits=("a", "train", "b"), train_split="train")

    read = read_page(render_size_report(content))

    assert read.tables[-1][0] == ["items in a graph", "train", "a", "b"]
    assert "10 graphs of train, 10 graphs of a, 10 graphs of b." in " ".join(read.text.split())


def test_the_learners_own_batch_size_comes_first(size_constraints_by_hand):
    names = [budget.name for budget in sorted_budgets(size_constraints_by_hand.made_content())]

    assert names == ["packing_2", "fit_or_skip_2_0.99", "tight_2", "packing_4", "fit_or_skip_4_0.99", "tight_4"]


def test_padded_work_is_for_each_real_graph(size_constraints_by_hand):
    assert padded_work(size_constraints_by_hand.made_content().budgets["packing_4"]) == (400 + 400 + 200) / 5


def test_a_written_page_is_the_rendered_one(tmp_path, size_constraints_by_hand):
    path = tmp_path / REPORT_FILE
    content = size_constraints_by_hand.made_content(node_sets=("ü",), edge_sets=())

    write_size_report(content, str(path))

    assert path.read_text(encoding="utf-8") == render_size_report(content)
