"""The page of all options of the steps, from their dataclasses: type, default, and what the docstring says."""

from __future__ import annotations

import ast
import re

import griffe

# In the order of the flow.
_STEPS = (
    "SubgraphExampleGenOptions",
    "GraphSchemaGenOptions",
    "GraphExampleValidatorOptions",
    "GraphTransformOptions",
    "SizeConstraintLearnerOptions",
    "GraphTunerOptions",
    "GraphTrainerOptions",
    "GraphEvaluatorOptions",
    "GraphSkewValidatorOptions",
    "GraphPusherOptions",
)
_ABOUT = """# Options of the steps

Every option of every step, with its default. [Options of a pipeline](../options.md) says how to set them from a file or
the command line, and [Components and stages](components.md) has the classes.
"""


def page(package: griffe.Module) -> str:
    """The page's text."""
    classes = [package["components"][name].final_target for name in _STEPS]
    groups: dict[str, griffe.Class] = {}
    for step in classes:
        for attribute in _fields(step):
            if _is_group(attribute):
                group = step.module[str(attribute.annotation)]
                groups[group.name] = group.final_target if group.is_alias else group
    return "\n".join([_ABOUT, *(_section(options) for options in [*classes, *groups.values()])])


def _section(options: griffe.Class) -> str:
    parsed = options.docstring.parsed if options.docstring else []
    texts = [section.value for section in parsed if section.kind is griffe.DocstringSectionKind.text]
    meanings = {
        entry.name: " ".join(entry.description.split())
        for section in parsed
        if section.kind is griffe.DocstringSectionKind.attributes
        for entry in section.value
    }
    rows = [
        f"| `{field.name}` | {_type(field)} | {_default(field)} | {_cell(meanings.get(field.name, ''))} |"
        for field in _fields(options)
    ]
    lines = [
        f"## {options.name}",
        "",
        *texts,
        "",
        "| option | type | default | meaning |",
        "|---|---|---|---|",
        *rows,
        "",
    ]
    return "\n".join(lines)


def _fields(options: griffe.Class) -> list[griffe.Attribute]:
    return [
        member
        for member in options.all_members.values()
        if isinstance(member, griffe.Attribute)
        and member.annotation is not None
        and not member.name.startswith("_")
        and "property" not in member.labels
    ]


def _is_group(field: griffe.Attribute) -> bool:
    return str(field.value or "").startswith("option_group(")


def _type(field: griffe.Attribute) -> str:
    if _is_group(field):
        return f"[`{field.annotation}`](#{str(field.annotation).lower()})"
    return _cell(f"`{field.annotation}`")


def _default(field: griffe.Attribute) -> str:
    text = str(field.value) if field.value is not None else ""
    if not text:
        return "required"
    if _is_group(field):
        return "its own"
    return _cell(f"`{_spelled_out(text, field)}`")


def _spelled_out(text: str, field: griffe.Attribute) -> str:
    """The value of a constant of the same module, the default of a wrapped field, or the text as it is."""
    if text.startswith("grouped_option("):
        text = text.removeprefix("grouped_option(").split(",")[0].strip()
    if "default_factory=" in text:
        return text.split("default_factory=")[1].split(",")[0].rstrip(")") + "()"
    return _constant(field.module, text) if text.isidentifier() else text


def _constant(module: griffe.Module, name: str) -> str:
    """The literal that a module's name stands for, in this module or the one that it is imported from."""
    for statement in ast.parse("\n".join(module.lines)).body:
        if isinstance(statement, ast.ImportFrom) and any(alias.name == name for alias in statement.names):
            path = str(statement.module).split(".")[1:]
            return _constant(module.package[path], name)
        if isinstance(statement, ast.Assign):
            for target in statement.targets:
                pairs = (
                    zip(target.elts, statement.value.elts, strict=False)
                    if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple)
                    else [(target, statement.value)]
                )
                for named, value in pairs:
                    if isinstance(named, ast.Name) and named.id == name:
                        return ast.unparse(value)
    return name


def _cell(text: str) -> str:
    """Escapes what would end a cell; inside of backticks, nothing does."""
    return re.sub(r"`[^`]*`|\|", lambda found: "\\|" if found[0] == "|" else found[0], text)
