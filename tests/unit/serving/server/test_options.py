"""Options that are refused."""

import dataclasses

import pytest

from tfx_gnn.serving.server.options import ServerOptions


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"port": 65536}, r"`port` must be in \[0, 65536\); got 65536"),
        ({"model_name": "a/b"}, "`model_name` must be letters, .*got 'a/b'"),
        ({"num_model_threads": 0}, "`num_model_threads` must be at least 1; got 0"),
        ({"max_delay_ms": -1.0}, "`max_delay_ms` must be at least 0 and finite; got -1.0"),
        ({"timeout_seconds": float("inf")}, "`timeout_seconds` must be above 0 and finite; got inf"),
        ({"max_id_bytes": 0}, "`max_id_bytes` must be at least 1; got 0"),
        ({"max_client_connections": 0}, "`max_client_connections` must be at least 1; got 0"),
        ({"head_seconds": 0.0}, "`head_seconds` must be above 0 and finite; got 0.0"),
        ({"body_seconds": float("nan")}, "`body_seconds` must be above 0 and finite; got nan"),
        (
            {"host": "0.0.0.0"},
            "`host` must be an address of this machine alone, .*got '0.0.0.0'. Name a file of tokens",
        ),
        ({"host": ""}, "`host` must be an address of this machine alone, .*got ''"),
        ({"host": "::"}, "`host` must be an address of this machine alone, .*got '::'"),
        ({"host": "10.1.2.3"}, "got '10.1.2.3'"),
        ({"host": "graph.example.com"}, "got 'graph.example.com'"),
        ({"host": "localhost.example.com"}, "got 'localhost.example.com'"),
        ({"token_file": "tokens", "without_tokens": True}, "`without_tokens` must be left out with `token_file`"),
        ({"allowed_hosts": ["a.example:80"]}, "`allowed_hosts` must each be a name .* got 'a.example:80'"),
        ({"allowed_hosts": ["http://a.example"]}, "got 'http://a.example'"),
        ({"allowed_hosts": ["a.*"]}, "got 'a.\\*'"),
        ({"allowed_origins": ["a.example"]}, "`allowed_origins` must each be of the form https://.*got 'a.example'"),
        ({"allowed_origins": ["https://a.example/"]}, "got 'https://a.example/'"),
        ({"max_pending_bytes": 5}, "`max_pending_bytes` must be at least `max_body_bytes`; got 5"),
    ],
)
def test_option_is_refused(option, message):
    with pytest.raises(ValueError, match=message):
        ServerOptions(**option)


@pytest.mark.parametrize(
    "options",
    [
        {"host": "localhost"},
        {"host": "127.0.0.2"},
        {"host": "::1"},
        {"host": "0.0.0.0", "token_file": "tokens"},
        {"host": "0.0.0.0", "without_tokens": True},
        {"allowed_hosts": ["*"], "allowed_origins": ["*"]},
        {
            "allowed_hosts": ["*.a-b.example", "a_b", "10.1.2.3", "fe80::1"],
            "allowed_origins": ["http://[::1]:80", "null"],
        },
    ],
)
def test_option_is_taken(options):
    assert dataclasses.asdict(ServerOptions(**options)).items() >= options.items()
