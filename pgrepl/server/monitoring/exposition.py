"""Metrics in Prometheus' text format 0.0.4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER = "gauge", "counter"


@dataclass
class Family:
    """A metric with its samples. The name of a counter ends in _total."""

    name: str
    help: str
    samples: list[tuple[Mapping[str, str], float]] = field(default_factory=list)

    @property
    def kind(self) -> str:
        return COUNTER if self.name.endswith("_total") else GAUGE

    def add(self, value: float | None, **labels: str) -> None:
        """Add a sample; None: the value is not known."""
        if value is not None:
            self.samples.append((labels, value))


def text(families: Iterable[Family]) -> str:
    """The page. A family without samples is left out."""
    lines = []
    for family in families:
        if family.samples:
            lines.append(f"# HELP {family.name} {_escaped(family.help)}")
            lines.append(f"# TYPE {family.name} {family.kind}")
            lines += [f"{family.name}{_labels(labels)} {_number(value)}" for labels, value in family.samples]
    return "".join(line + "\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    inside = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels.items())
    return f"{{{inside}}}" if inside else ""


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(value: str) -> str:
    return _escaped(value).replace('"', '\\"')


def _number(value: float) -> str:
    return repr(value) if isinstance(value, float) else str(int(value))
