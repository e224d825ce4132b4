"""A plan as text, JSON, YAML or XML, laid out as PostgreSQL lays out its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape

from pgrepl.statements.explaining.options import kilobytes
from pgrepl.types.json import escape_json

if TYPE_CHECKING:
    from pgrepl.ground.memory import TriggerCalls
    from pgrepl.statements.explaining.options import ExplainOptions
    from pgrepl.statements.explaining.plan import Explained, PlanNode

# there are no buffers and no WAL: PostgreSQL's text leaves out what is 0, the other formats show it
_BLOCKS = ("Hit", "Read", "Dirtied", "Written")
_NO_BUFFERS = {
    f"{kind} {what} Blocks": 0
    for kind, counted in (("Shared", _BLOCKS), ("Local", _BLOCKS), ("Temp", ("Read", "Written")))
    for what in counted
}
_NO_WAL = {"WAL Records": 0, "WAL FPI": 0, "WAL Bytes": 0}

Times = dict[str, float]
_PLANNING = "Planning Time"


def _text(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    lines = list(_node_lines(explained.plan, options, None))
    lines += [line for block in explained.appendix for line in block.splitlines()]
    if explained.settings:
        lines.append("Settings: " + ", ".join(f"{name} = '{value}'" for name, value in explained.settings.items()))
    if explained.memory is not None:
        used, allocated = kilobytes(explained.memory.used), kilobytes(explained.memory.allocated)
        lines += ["Planning:", f"  Memory: used={used}kB  allocated={allocated}kB"]
    said = {name: f"{name}: {seconds * 1000:.3f} ms" for name, seconds in times.items()}
    planning = [said.pop(_PLANNING)] if _PLANNING in said else []
    serialized = _serialization_lines(explained, options)
    return [*lines, *planning, *_trigger_lines(explained, options), *serialized, *said.values()]


def _serialization_lines(explained: Explained, options: ExplainOptions) -> Iterator[str]:
    """What EXPLAIN says of SERIALIZE (ExplainPrintSerialize)."""
    made = explained.serialization
    if made is not None:
        time = f"time={made.seconds * 1000:.3f} ms  " if options.timing else ""
        yield f"Serialization: {time}output={kilobytes(made.size)}kB  format={made.format}"


def _trigger_lines(explained: Explained, options: ExplainOptions) -> Iterator[str]:
    """The lines of EXPLAIN ANALYZE about triggers (report_triggers)."""
    verbose = options.flag("verbose")
    for each in explained.triggers:
        name = f" {each.name}" if verbose or not each.is_constraint else ""
        constraint = f" for constraint {each.name}" if each.is_constraint else ""
        table = f" on {each.relation}" if explained.names_tables else ""
        time = f"time={each.total * 1000:.3f} " if options.timing else ""
        yield f"Trigger{name}{constraint}{table}: {time}calls={each.calls}"


def _node_lines(node: PlanNode, options: ExplainOptions, arrow: int | None) -> Iterator[str]:
    """`arrow`: how far its arrow is from the margin; the top node has none."""
    yield f"{'' if arrow is None else ' ' * arrow + '->  '}{node.title}{_measured(node, options)}"
    inner = 2 if arrow is None else arrow + 6
    if node.engine is not None:
        yield f"{' ' * inner}Engine: {node.engine}"
    for name, value in node.details.items():
        yield f"{' ' * inner}{name}: {', '.join(value) if isinstance(value, list) else value}"
        removed, any_at_all = _removed(node, name)
        if any_at_all:
            yield f"{' ' * inner}Rows Removed by {name}: {removed}"
    for child in node.children:
        if child.label:
            yield f"{' ' * inner}{child.label}"
        yield from _node_lines(child, options, inner + 2 if child.label else inner)


def _measured(node: PlanNode, options: ExplainOptions) -> str:
    text = ""
    if node.rows is not None and options.flag("costs", True):
        text += f"  (rows={node.rows})"
    actual = node.actual
    if actual is None:
        return text
    if not actual.loops:
        return f"{text} (never executed)"
    time = ""
    if actual.startup is not None and actual.total is not None:
        time = f"time={actual.startup * 1000:.3f}..{actual.total * 1000:.3f} "
    return f"{text} (actual {time}rows={actual.rows} loops={actual.loops})"


def _removed(node: PlanNode, name: str) -> tuple[int, bool]:
    """The rows that a filter has removed, and whether it has removed any."""
    return node.actual.removed.get(name, (0, False)) if node.actual is not None else (0, False)


def _as_data(explained: Explained, times: Times, options: ExplainOptions) -> dict[str, Any]:
    data: dict[str, Any] = {"Plan": _node_data(explained.plan, options)}
    if explained.appendix:
        data["Physical Plan"] = list(explained.appendix)
    if explained.settings:
        data["Settings"] = explained.settings
    planning: dict[str, Any] = dict(_NO_BUFFERS) if options.flag("buffers") else {}
    if explained.memory is not None:
        planning["Memory Used"] = kilobytes(explained.memory.used)
        planning["Memory Allocated"] = kilobytes(explained.memory.allocated)
    if planning:
        data["Planning"] = planning
    said = {name: round(seconds * 1000, 3) for name, seconds in times.items()}
    if _PLANNING in said:
        data[_PLANNING] = said.pop(_PLANNING)
    if options.analyze:
        data["Triggers"] = [_trigger_data(each, options) for each in explained.triggers]
    made = explained.serialization
    if made is not None:
        time = {"Time": round(made.seconds * 1000, 3)} if options.timing else {}
        volume = {"Output Volume": kilobytes(made.size), "Format": made.format}
        data["Serialization"] = time | volume | (_NO_BUFFERS if options.flag("buffers") else {})
    return data | said


def _trigger_data(each: TriggerCalls, options: ExplainOptions) -> dict[str, Any]:
    data: dict[str, Any] = {"Trigger Name": each.name}
    if each.is_constraint:
        data["Constraint Name"] = each.name
    data["Relation"] = each.relation
    if options.timing:
        data["Time"] = round(each.total * 1000, 3)
    return data | {"Calls": each.calls}


def _node_data(node: PlanNode, options: ExplainOptions, relationship: str = "") -> dict[str, Any]:
    kind, *named = (node.named or {"Node Type": node.title}).items()
    data: dict[str, Any] = dict([kind])
    if relationship:
        data["Parent Relationship"] = relationship
    if node.label:
        data["Subplan Name"] = node.label
    data |= named
    if node.rows is not None and options.flag("costs", True):
        data["Plan Rows"] = node.rows
    actual = node.actual
    if actual is not None and actual.startup is not None and actual.total is not None:
        data["Actual Startup Time"] = round(actual.startup * 1000, 3)
        data["Actual Total Time"] = round(actual.total * 1000, 3)
    if actual is not None:
        data |= {"Actual Rows": actual.rows, "Actual Loops": actual.loops}
    if node.engine is not None:
        data |= {"Engine": node.engine.engine.value, "Engine Reason": node.engine.reason}
        if node.engine.rows:
            data |= {"Rows to Read": node.engine.rows, "Bytes to Read": node.engine.bytes}
    for name, value in node.details.items():
        data[name] = value
        if _removed(node, name)[1]:
            data[f"Rows Removed by {name}"] = _removed(node, name)[0]
    if options.flag("buffers"):
        data |= _NO_BUFFERS
    if options.flag("wal"):
        data |= _NO_WAL
    if node.children:
        data["Plans"] = [_node_data(child, options, how) for child, how in _related(node)]
    return data


def _related(node: PlanNode) -> Iterator[tuple[PlanNode, str]]:
    """The nodes below one, each with what it is to it."""
    kind = node.named.get("Node Type", node.title)
    sides = iter(("Outer", "Inner"))
    for child in node.children:
        if child.label:
            yield child, "InitPlan" if child.label.startswith("CTE ") else "SubPlan"
        elif kind in ("Append", "SetOp"):
            yield child, "Member"
        else:
            yield child, "Subquery" if kind == "Subquery Scan" else next(sides)


# --- JSON -------------------------------------------------------------------------------------------------------------


def _json(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    return ["\n".join(_json_lines([_as_data(explained, times, options)], 0))]


def _json_lines(value: Any, depth: int) -> list[str]:
    inner = "  " * (depth + 1)
    if isinstance(value, dict):
        parts = [[f"{inner}{escape_json(key)}: ", _json_lines(item, depth + 1)] for key, item in value.items()]
        return ["{", *_joined(parts), "  " * depth + "}"]
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return ["[", *_joined([[inner, _json_lines(item, depth + 1)] for item in value]), "  " * depth + "]"]
    if value == []:
        return ["[", "  " * depth + "]"]
    if isinstance(value, list):
        return ["[" + ", ".join(escape_json(item) for item in value) + "]"]
    return [_scalar(value)]


def _joined(parts: list[list[Any]]) -> list[str]:
    lines: list[str] = []
    for number, (head, rest) in enumerate(parts, 1):
        lines += [head + rest[0], *rest[1:]]
        if number < len(parts):
            lines[-1] += ","
    return lines


def _scalar(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value) if isinstance(value, int) else escape_json(value)


# --- YAML, XML --------------------------------------------------------------------------------------------------------


def _yaml(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    lines = _yaml_lines(_as_data(explained, times, options), 2)
    return ["\n".join(["- " + lines[0][2:], *lines[1:]])]


def _yaml_lines(data: dict[str, Any], indent: int) -> list[str]:
    lines = []
    for key, value in data.items():
        head = " " * indent + key + ": "
        if isinstance(value, dict):
            lines += [head, *_yaml_lines(value, indent + 2)]
        elif isinstance(value, list):
            lines.append(head)
            for item in value:
                if isinstance(item, dict):
                    inner = _yaml_lines(item, indent + 4)
                    lines += [" " * (indent + 2) + "- " + inner[0].lstrip(), *inner[1:]]
                else:
                    lines.append(" " * (indent + 2) + "- " + escape_json(item))
        else:
            lines.append(f"{head}{_scalar(value)}")
    return lines


def _xml(explained: Explained, times: Times, options: ExplainOptions) -> list[str]:
    lines = ['<explain xmlns="http://www.postgresql.org/2009/explain">', "  <Query>"]
    lines += _xml_lines(_as_data(explained, times, options), 2)
    return ["\n".join([*lines, "  </Query>", "</explain>"])]


def _xml_lines(data: dict[str, Any], depth: int) -> list[str]:
    lines = []
    indent = "  " * depth
    for key, value in data.items():
        tag = key.replace(" ", "-")
        if isinstance(value, dict):
            lines += [f"{indent}<{tag}>", *_xml_lines(value, depth + 1), f"{indent}</{tag}>"]
        elif isinstance(value, list):
            lines.append(f"{indent}<{tag}>")
            for item in value:
                if isinstance(item, dict):
                    one = tag.removesuffix("s")
                    lines += [f"{indent}  <{one}>", *_xml_lines(item, depth + 2), f"{indent}  </{one}>"]
                else:
                    lines.append(f"{indent}  <Item>{escape(item)}</Item>")
            lines.append(f"{indent}</{tag}>")
        else:
            text = f"{value:.3f}" if isinstance(value, float) else escape(str(value))
            lines.append(f"{indent}<{tag}>{text}</{tag}>")
    return lines


WRITERS: dict[str, Callable[[Explained, Times, ExplainOptions], list[str]]] = {
    "text": _text,
    "json": _json,
    "yaml": _yaml,
    "xml": _xml,
}
