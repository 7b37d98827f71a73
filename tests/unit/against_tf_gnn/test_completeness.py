"""Every public name of tensorflow-gnn is compared, or is known not to be comparable."""

import operator
import re
from pathlib import Path

import tfx_gnn

NAMES = Path(__file__).parents[2] / "hygiene" / "public_names.txt"

CONSTANTS = {
    *("CONTEXT", "DEFAULT_STATE_NAME", "EDGES", "HIDDEN_STATE", "NODES", "SIZE_NAME", "SOURCE", "SOURCE_NAME"),
    *("TARGET", "TARGET_NAME"),
}
#: For type annotations; they do nothing.
ALIASES = {
    *("EdgeSetName", "Field", "FieldName", "FieldOrFields", "FieldSpec", "Fields", "FieldsSpec"),
    *("IncidentNodeOrContextTag", "IncidentNodeTag", "NodeSetName", "SetName", "SetType"),
}
#: Compared field by field in tests/unit/graph/test_schema.py.
MESSAGES = {
    *("Feature", "proto.BigQuery", "proto.Context", "proto.EdgeSet", "proto.Feature", "proto.GraphType"),
    *("proto.Metadata", "proto.NodeSet", "proto.OriginInfo", "proto.SetType"),
}
#: Errors; the names of their types are compared wherever one is raised.
ERRORS = {"ValidationError"}


def exists(library, name):
    try:
        operator.attrgetter(name)(library)
    except AttributeError:
        return False
    return True


def test_every_public_name_of_tf_gnn_is_compared(oracle):
    lines = NAMES.read_text().splitlines()
    names = {line for line in lines if line and not line.startswith("#") and exists(oracle, line)}
    tests = [path.read_text() for path in Path(__file__).parent.glob("test_*.py") if path.name != Path(__file__).name]
    used = {*re.findall(r"\.([A-Za-z_]+)", "\n".join(tests)), *re.findall(r'"(Parse\w*Example)"', "\n".join(tests))}

    missing = {name for name in names if name.split(".")[-1] not in used}

    assert len(names) > 140
    assert missing <= CONSTANTS | ALIASES | MESSAGES | ERRORS, sorted(missing - CONSTANTS - ALIASES - MESSAGES - ERRORS)


def test_constants_are_those_of_tf_gnn(oracle):
    assert {name: getattr(tfx_gnn, name) for name in CONSTANTS} == {name: getattr(oracle, name) for name in CONSTANTS}
