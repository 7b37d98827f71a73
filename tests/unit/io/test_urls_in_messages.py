"""Passwords in the URLs of messages."""

from __future__ import annotations

import pytest

from tfx_gnn.io.urls_in_messages import hide_passwords_of_urls


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("got 'mysql://ann:hu@sh/@host/shop', not", "got 'mysql://ann:***@host/shop', not"),
        ("a://b:c@d and e://f:g@h", "a://b:***@d and e://f:***@h"),
        ("gs://bucket/table@2.csv and ann@host: no password", "gs://bucket/table@2.csv and ann@host: no password"),
        ("http://host:80/path and x@y", "http://host:80/path and x@y"),
        ("got 'me:p@w@h/db', not", "got 'me:***@h/db', not"),
        ('"postgresql:/me:pw@h:5432/db"', '"postgresql:***@h:5432/db"'),
        ("got 'host=h password=hush user=me'", "got 'host=h password=*** user=me'"),
        ("'localhost:5000/image@sha256:12' at 12:30", "'localhost:5000/image@sha256:12' at 12:30"),
        ("'gs://bucket/table@2.csv'", "'gs://bucket/table@2.csv'"),
    ],
)
def test_passwords_are_hidden_and_nothing_else(message, shown):
    assert hide_passwords_of_urls(message) == shown
