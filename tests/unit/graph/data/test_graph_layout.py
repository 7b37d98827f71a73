from __future__ import annotations

import pytest

from tfx_gnn import EdgeLayout, FieldRule, GraphLayout


@pytest.mark.parametrize(("axis", "increment"), [(True, None), ("0", None), (0, 5), (0, ()), (0, ("a", 1))])
def test_rules_check_themselves(axis, increment):
    with pytest.raises(TypeError, match=r"`(axis|increment)` must"):
        FieldRule(axis=axis, increment=increment)


def test_layouts_check_themselves():
    with pytest.raises(ValueError, match="got 't' in 'e'"):
        GraphLayout(node_sets={"s": {"x": "x"}}, edge_sets={"e": EdgeLayout(source="s", target="t")})
    with pytest.raises(ValueError, match="got none for 's'"):
        GraphLayout(node_sets={"s": {}})
    with pytest.raises(TypeError, match="must hold EdgeLayouts"):
        GraphLayout(edge_sets={"e": ("s", "t")})
