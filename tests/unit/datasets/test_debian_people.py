from __future__ import annotations

import pytest

from tfx_gnn.datasets.debian_people import is_team, number_maintainers, parse_people


@pytest.mark.parametrize(
    ("name", "address", "expected"),
    [
        ("Debian Example Team", "example@example.org", True),
        ("Example Maintainers", "example@example.org", True),
        ("Debian Example", "debian-example@lists.debian.org", True),
        ("Debian Example", "team+example@tracker.debian.org", True),
        ("Example", "example-devel@example.org", True),
        ("Ann Example", "ann@example.org", False),
        ("Ann Example (Debian packages)", "ann@example.org", False),
        ("Ann Groupa", "ann@example.org", False),
        ("Ann Example", "ann+debian-packages@example.org", False),
        ("Ann Example", "thing@packages.debian.org", False),
    ],
)
def test_teams_are_told_from_people(name, address, expected):
    assert is_team(name, address) is expected


def test_people_and_teams_of_doubtful_names_become_numbers():
    maintainers = number_maintainers(
        [
            "Ann Example <Ann@Example.org>",
            "Bob Example (Example Team) <team+b@tracker.debian.org>",
            "Carl Example for the Example Team <carl@lists.debian.org>",
            "Example Team <z@lists.debian.org>",
            "Dora Example <dora@lists.debian.org>",
            '"Example, Eve" <eve@example.org>,',
        ]
    )

    assert maintainers.names == (
        "person-0000",
        "team-0001",
        "team-0002",
        "person-0003",
        "team-0004",
        "Example Team",
    )
    assert maintainers.is_team == (False, True, True, False, True, True)


def test_an_address_is_one_maintainer_under_its_most_frequent_name():
    maintainers = number_maintainers(
        ["B Team <a@lists.x.org>", "A Team <A@lists.x.org>", "A Team <a@lists.x.org>", "A Team <b@lists.x.org>"]
    )

    assert maintainers.names == ("A Team", "A Team (2)")
    assert maintainers.find("Anyone <B@lists.x.org>, A Team <a@lists.x.org>, New <c@lists.x.org>") == [1, 0]


def test_commas_in_names_and_line_ends_part_nobody():
    assert parse_people('"Example, Ann" <ann@x.org>,\nBob Example <Bob@x.org> , <c@x.org>') == [
        ("Example, Ann", "ann@x.org"),
        ("Bob Example", "bob@x.org"),
        ("", "c@x.org"),
    ]


def test_no_address_is_an_error_that_tells_no_name():
    with pytest.raises(ValueError, match="got a field of 11 characters without an address") as error:
        number_maintainers(["Ann Example"])

    assert "Ann" not in str(error.value)
