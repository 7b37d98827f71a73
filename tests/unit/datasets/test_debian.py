"""A small archive, written by hand, with every kind of relation."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tfx_gnn.datasets.debian import build_debian_graph
from tfx_gnn.datasets.debian_tables import split_of
from tfx_gnn.graph.schema.schema_io import read_schema
from tfx_gnn.tables.graph_tables import read_tables

PACKAGES = """\
Package: app
Version: 2.0-1
Installed-Size: 120
Maintainer: Ann Example <ann@example.org>
Architecture: amd64
Depends: lib (>= 1.0), lib (<< 2), first | lib, data:any | virtual-data, gone (= 1), mta
Pre-Depends: lib, data
Recommends: app, data | doc | gone
Suggests: doc
Conflicts: mta, app, old (<< 1)
Multi-Arch: foreign
Homepage: https://example.org/
Tag: use::editing, role::program, use::editing
Section: universe/editors
Priority: optional
Size: 1000

Package: data
Source: app (2.0-0)
Version: 2.0-1
Maintainer: Example Team <team@lists.example.org>
Architecture: all
Enhances: app
Breaks: app (<< 1)
Replaces: app (<< 1), old-data
Provides: virtual-data (= 2), mta, data
Essential: yes
Multi-Arch: no
Tag: role::app-data
Section: editors
Priority: required
Size: 5

Package: doc
Source: lost
Version: 1.9
Maintainer: Ann Example <Ann@example.org>
Architecture: all
Provides: lib
Section: doc
Priority: optional
Size: 7

Package: lib
Version: 1.10
Maintainer: Bob Example <bob@example.org>
Architecture: amd64
Section: libs
Priority: optional
Size: 3

Package: lib
Version: 1.9
Maintainer: Carl Example <carl@example.org>
Architecture: amd64
Section: oldlibs
Priority: extra
Size: 3
Depends: app
"""
SOURCES = """\
Package: app
Binary: app, data
Version: 2.0-1
Uploaders: Bob Example <bob@example.org>, "Team, Example" <team@lists.example.org>, Dora <dora@example.org>
Build-Depends: lib <!nocheck>, first [arm64] | data (>= 1)
Build-Depends-Indep: doc, data
Build-Depends-Arch: mta
Standards-Version: 4.6.2
Format: 3.0 (quilt)
Vcs-Git: https://example.org/app.git
Testsuite: autopkgtest
Section: editors

Package: lib
Binary: lib
Version: 1.10
Format: 1.0
Section: libs

Package: unused
Binary: unused
Version: 1
Format: 1.0
Section: libs
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("debian")
    (folder / "Packages").write_text(PACKAGES)
    (folder / "Sources").write_text(SOURCES)
    report = build_debian_graph(
        str(folder / "tables"), packages=[str(folder / "Packages")], sources=[str(folder / "Sources")]
    )
    return folder / "tables", report


def _rows(built, name: str) -> list[dict]:
    return pq.read_table(built[0] / f"{name}.parquet").to_pylist()


def _edges(built, name: str, *columns: str) -> list[tuple]:
    return [tuple(row[column] for column in ("source", "target", *columns)) for row in _rows(built, f"edge_{name}")]


def test_packages_are_the_newest_versions_by_name(built):
    app, data, doc, lib = _rows(built, "node_package")

    assert app == {
        "package": "app", "section": "editors", "priority": "optional", "arch_all": 0, "multi_arch": "foreign",
        "essential": 0, "installed_size_kib": 120, "size_bytes": 1000, "n_versions": 1, "version": "2.0-1",
        "has_homepage": 1, "n_depends_clauses": 6, "n_recommends_clauses": 2, "n_suggests_clauses": 1,
        "n_provides_clauses": 0, "n_tags": 2, "split": split_of("app"), "split_by_source": split_of("app"),
    }  # fmt: skip
    assert (data["essential"], data["arch_all"], data["multi_arch"], data["installed_size_kib"]) == (1, 1, "none", 0)
    assert (data["split"], data["split_by_source"]) == (split_of("data"), split_of("app"))
    assert doc["package"] == "doc"
    assert (lib["version"], lib["section"], lib["n_versions"]) == ("1.10", "libs", 2)


def test_splits_are_tenths_of_a_hash():
    names = [f"name-{number}" for number in range(1000)]
    tenths = {name: int(hashlib.sha256(name.encode()).hexdigest()[:8], 16) % 10 for name in names}

    assert {split_of(name) for name in names if tenths[name] < 8} == {"train"}
    assert {split_of(name) for name in names if tenths[name] == 8} == {"val"}
    assert {split_of(name) for name in names if tenths[name] == 9} == {"test"}


def test_sources_are_those_of_packages_and_a_missing_one_says_so(built):
    app, lib, lost = _rows(built, "node_source")

    assert app == {
        "source": "app", "n_binaries_listed": 2, "section": "editors", "format": "(quilt)",
        "standards_version": "4.6.2", "has_vcs": 1, "has_testsuite": 1, "n_uploaders": 3,
        "n_build_depends": 5, "missing": 0,
    }  # fmt: skip
    assert (lib["format"], lib["standards_version"], lib["has_vcs"], lib["missing"]) == ("1.0", "none", 0, 0)
    assert lost == {
        "source": "lost", "n_binaries_listed": 0, "section": "none", "format": "none", "standards_version": "none",
        "has_vcs": 0, "has_testsuite": 0, "n_uploaders": 0, "n_build_depends": 0, "missing": 1,
    }  # fmt: skip


def test_people_are_numbers_and_nobodys_name_or_address_is_written(built):
    assert _rows(built, "node_maintainer") == [
        {"maintainer": "person-0000", "is_team": 0},
        {"maintainer": "person-0001", "is_team": 0},
        {"maintainer": "Example Team", "is_team": 1},
    ]
    assert _edges(built, "maintained_by") == [
        ("app", "person-0000"), ("data", "Example Team"), ("doc", "person-0000"), ("lib", "person-0001"),
    ]  # fmt: skip
    assert _edges(built, "uploaded_by") == [("app", "person-0001"), ("app", "Example Team")]
    rows = [pq.read_table(path).to_pylist() for path in sorted(Path(built[0]).glob("*.parquet"))]
    written = repr(rows) + (built[0] / "graph_schema.pbtxt").read_text()
    assert [text for text in ("Ann", "Bob", "Dora", "@") if text in written] == []


def test_tags_and_virtual_packages_are_nodes(built):
    assert _rows(built, "node_tag") == [
        {"tag": "role::app-data", "facet": "role"},
        {"tag": "role::program", "facet": "role"},
        {"tag": "use::editing", "facet": "use"},
    ]
    assert _edges(built, "tagged") == [("app", "role::program"), ("app", "use::editing"), ("data", "role::app-data")]
    assert _rows(built, "node_virtual") == [{"virtual": "mta"}, {"virtual": "virtual-data"}]


def test_clauses_that_name_a_target_again_make_one_edge(built):
    columns = ("alternative", "n_alternatives", "versioned", "pre_depends")

    # lib is named four times: twice with versions, once as second choice, once before unpacking.
    assert _edges(built, "depends", *columns) == [("app", "data", 0, 1, 0, 1), ("app", "lib", 0, 1, 1, 1)]
    assert _edges(built, "depends_virtual", *columns) == [
        ("app", "mta", 0, 1, 0, 0),
        ("app", "virtual-data", 1, 2, 0, 0),
    ]


@pytest.mark.parametrize(
    ("kind", "edges"),
    [
        ("recommends", [("app", "data", 0, 3, 0), ("app", "doc", 1, 3, 0)]),
        ("suggests", [("app", "doc", 0, 1, 0)]),
        ("enhances", [("data", "app", 0, 1, 0)]),
        ("conflicts_virtual", [("app", "mta", 0, 1, 0)]),
        ("breaks", [("data", "app", 0, 1, 1)]),
        ("replaces", [("data", "app", 0, 1, 1)]),
        ("build_depends", [("app", "data", 0, 1, 1), ("app", "doc", 0, 1, 0), ("app", "lib", 0, 1, 0)]),
    ],
)
def test_each_relation_has_its_edges(built, kind, edges):
    assert _edges(built, kind, "alternative", "n_alternatives", "versioned") == edges


def test_provides_lead_to_packages_and_to_virtual_packages(built):
    assert _edges(built, "provides", "versioned") == [("doc", "lib", 0)]
    assert _edges(built, "provides_virtual", "versioned") == [("data", "mta", 0), ("data", "virtual-data", 1)]


def test_build_dependencies_say_whether_every_build_needs_them(built):
    assert _edges(built, "build_depends", "indep_or_arch") == [("app", "data", 0), ("app", "doc", 1), ("app", "lib", 0)]


def test_packages_lead_to_their_sources(built):
    assert _edges(built, "built_from") == [("app", "app"), ("data", "app"), ("doc", "lost"), ("lib", "lib")]


def test_everything_named_is_counted(built):
    _, report = built
    depends, conflicts, build = (report.relations[kind] for kind in ("depends", "conflicts", "build_depends"))

    assert report.num_nodes == {"maintainer": 3, "package": 4, "source": 3, "tag": 3, "virtual": 2}
    assert report.empty_sets == (
        "breaks_virtual", "conflicts", "enhances_virtual", "recommends_virtual", "replaces_virtual", "suggests_virtual",
    )  # fmt: skip
    assert (report.num_package_stanzas, report.num_source_stanzas) == (5, 3)
    assert (report.num_unused_sources, report.num_missing_sources) == (1, 1)
    # first and gone are nowhere; data is named in Pre-Depends again, lib three times.
    assert (depends.read, depends.to_packages, depends.to_virtual) == (10, 2, 2)
    assert (depends.repeated, depends.to_itself, depends.unknown) == (4, 0, 2)
    assert (conflicts.read, conflicts.to_virtual, conflicts.to_itself, conflicts.unknown) == (3, 1, 1, 1)
    assert (build.read, build.to_packages, build.repeated, build.unknown) == (6, 3, 1, 2)
    for counts in report.relations.values():
        parts = (counts.to_packages, counts.to_virtual, counts.repeated, counts.to_itself, counts.unknown)
        assert counts.read == sum(parts)


def test_the_schema_describes_every_file(built):
    folder, report = built
    schema = read_schema(str(folder / "graph_schema.pbtxt"))
    sets = {**schema.node_sets, **schema.edge_sets}

    assert {name: entry.metadata.cardinality for name, entry in sets.items()} == {
        **report.num_nodes,
        **report.num_edges,
    }
    assert {entry.metadata.filename for entry in sets.values()} == {path.name for path in folder.glob("*.parquet")}
    assert (schema.edge_sets["depends_virtual"].source, schema.edge_sets["depends_virtual"].target) == (
        "package",
        "virtual",
    )
    for entry in sets.values():
        columns = pq.read_schema(folder / entry.metadata.filename)
        for name, feature in entry.features.items():
            assert str(columns.field(name).type) == {7: "string", 9: "int64"}[feature.dtype]
    # What gives the label away is there for who asks, and no feature.
    assert not {"split", "split_by_source", "version"} & set(schema.node_sets["package"].features)
    assert "section" not in schema.node_sets["source"].features


def test_the_tables_are_read_as_a_graph(built):
    folder, report = built

    tables = read_tables(str(folder), extra_columns={"package": ("split_by_source",)})

    assert {name: table.num_nodes for name, table in tables.node_tables.items()} == report.num_nodes
    assert {name: table.num_edges for name, table in tables.edge_tables.items()} == report.num_edges
    packages = tables.node_tables["package"]
    assert packages.ids.to_pylist() == ["app", "data", "doc", "lib"]
    assert packages.extra_columns["split_by_source"].to_pylist()[1] == split_of("app")


def test_the_same_files_make_the_same_bytes(built, tmp_path):
    folder, _ = built
    build_debian_graph(
        str(tmp_path), packages=[str(folder.parent / "Packages")], sources=[str(folder.parent / "Sources")]
    )

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        path.name: path.read_bytes() for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    ("packages", "message"),
    [
        (PACKAGES.replace("Size: 1000", "Size: big"), "`Size` must be a number; got 'big' for package 'app'"),
        (PACKAGES.replace("Depends: lib (>=", "Depends: lib (("), "`text` must be relations like"),
        (
            PACKAGES.replace("Version: 1.9\nMaintainer: Ann", "Maintainer: Ann"),
            "`Version` must be given in every stanza",
        ),
        (PACKAGES.replace("<bob@example.org>", ""), "`Maintainer` must be a name and an address in <>"),
    ],
    ids=["size", "relation", "version", "maintainer"],
)
def test_damaged_stanzas_are_refused(tmp_path, packages, message):
    (tmp_path / "Packages").write_text(packages)
    (tmp_path / "Sources").write_text(SOURCES)

    with pytest.raises(ValueError, match=message):
        build_debian_graph(
            str(tmp_path / "tables"), packages=[str(tmp_path / "Packages")], sources=[str(tmp_path / "Sources")]
        )


def test_no_list_at_all_is_refused(tmp_path):
    with pytest.raises(ValueError, match="`sources` must be a list of at least one index file"):
        build_debian_graph(str(tmp_path), packages=["Packages"], sources=[])
