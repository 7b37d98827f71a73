"""Options that are refused."""

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
        ({"max_pending_bytes": 5}, "`max_pending_bytes` must be at least `max_body_bytes`; got 5"),
    ],
)
def test_option_is_refused(option, message):
    with pytest.raises(ValueError, match=message):
        ServerOptions(**option)
