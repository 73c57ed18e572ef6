"""The build report as one self-contained page: no script, no external resource."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from sitsedge.compiler.report_figures import layer_pictures, pictures

_STYLE = (
    "body{font:15px/1.45 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;color:#1c2733}"
    "table{border-collapse:collapse;margin:.6rem 0 1.4rem;width:100%}"
    "th,td{border-bottom:1px solid #cfd8e0;padding:.3rem .6rem;text-align:right}"
    "th:first-child,td:first-child{text-align:left}th{background:#eef2f5}"
    "code{font-size:12px;overflow-wrap:anywhere}figure{margin:0}figcaption{font-size:12px;text-align:center}"
    ".figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(16rem,1fr));gap:1rem;margin:.6rem 0 1.4rem}"
    ".note{background:#fff6da;padding:.5rem .8rem}"
)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    def line(tag: str, cells: Sequence[object]) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(_text(cell))}</{tag}>" for cell in cells) + "</tr>"

    return f"<table>{line('th', head)}{''.join(line('td', row) for row in rows)}</table>"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _accuracy(report: dict[str, Any], part: str, title: str) -> str:
    entry = report["accuracy"][part]
    rows = [
        (name, o["unit"], o["span"], o["max_error"], o["mean_error"], o["rms_error"])
        for name, o in entry["outputs"].items()
    ]
    head = ("output", "unit", "span", "max error", "mean error", "rms error")
    return f"<h2>{title} ({entry['rows']} rows)</h2>" + _table(head, rows)


def _properties(report: dict[str, Any]) -> str:
    if not report["properties"]:
        return ""
    rows = [(p["property"], p["verdict"], p["method"], p["seconds"]) for p in report["properties"]]
    broken = "".join(
        f"<p>{escape(p['property'])} is broken: output {escape(_numbers(p['counterexample']['output']))} for "
        f"<code>{escape('; '.join(_inputs(row) for row in p['counterexample']['inputs']))}</code></p>"
        for p in report["properties"]
        if p["verdict"] == "refuted"
    )
    reached = "".join(
        f"<p>{escape(p['property'])} is undecided; proven is {escape(_numbers(p['proven_inside'][:1]))} to "
        f"{escape(_numbers(p['proven_inside'][1:]))}.</p>"
        for p in report["properties"]
        if "proven_inside" in p
    )
    return "<h2>Properties</h2>" + _table(("property", "verdict", "method", "seconds"), rows) + broken + reached


def _numbers(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.6g}" for value in values)


def _inputs(row: dict[str, float]) -> str:
    return ", ".join(f"{name} = {value:.6g}" for name, value in row.items())


def _layers(report: dict[str, Any]) -> str:
    """Errors of every layer, pictures of them, and what each got and why."""
    layers = report["layers"]
    errors = [
        (
            *(layer[key] for key in ("name", "kind")),
            "×".join(map(str, layer["shape"])),
            *layer["range"],
            *(layer["error"][part][figure] for part in ("calibration", "held_out") for figure in ("rms", "max")),
        )
        for layer in layers
    ]
    head = ("value", "node", "shape", "least", "largest", "rms", "max", "rms held out", "max held out")
    choices = [
        (
            layer["name"],
            layer["from"],
            "" if layer["bits"] is None else layer["bits"],
            layer["weight_bits"] if layer["operands"] and layer["weight_bits"] else "",
            layer["operands"] or "",
            "" if layer["saturates"] is None else layer["saturates"],
            "{} … {}".format(*layer["counts"]),
            layer["why"] + _scale(layer["remembered"]),
        )
        for layer in layers
    ]
    return (
        "<h2>Layers: error of the range on the calibration rows</h2>"
        + layer_pictures(layers)
        + _table(head, errors)
        + "<h2>Quantisation</h2>"
        + _table(("value", "from", "bits", "weight bits", "operands", "saturates", "proven counts", "why"), choices)
    )


def _scale(remembered: dict[str, Any] | None) -> str:
    if remembered is None:
        return ""
    if remembered["exact"]:
        return f"; counts have the model's own scale {remembered['scale']:.4g}"
    return f"; the model's own scale {remembered['scale']:.4g} is missed by up to {remembered['off']:.2g} of it"


def _goal(choice: dict[str, Any], *, class_output: bool) -> str:
    goal = choice["goal"]
    if class_output:
        return f"Another class than the float network's in {choice['rms_of_span']:.2%} of the calibration rows."
    return (
        f"Worst output on the calibration rows: rms {choice['rms_of_span']:.2%} and largest "
        f"{choice['max_of_span']:.2%} of its span; the goal is {goal['rms_of_span']:.2%} and {goal['max_of_span']:.2%}."
    )


def _weights(choice: dict[str, Any]) -> str:
    if "weight_bits" not in choice:
        return ""
    return f"Weights {choice['first_weight_bits']} / {choice['weight_bits']} bits. "


def _setup_text(proof: dict[str, Any]) -> str:
    if proof["development_key"]:
        return "Development key: nobody contributed to its set-up."
    return f"Key from a ceremony of {proof['contributors']} contributors."


def render(report: dict[str, Any]) -> bytes:
    """HTML of a report made by ``report.make_report``."""
    name = escape(report["name"])
    shape = "-".join(map(str, report["network"]))
    constraints, proof, choice = report["constraints"], report["proof"], report["quantisation"]
    bounds = [
        (output, b["unit"], *b["physical"], *b["limits"], b["proven_inside_limits"])
        for output, b in report["output_bounds"].items()
    ]
    layers = [(name, n) for name, n in zip(constraints["nodes"], constraints["layers"], strict=True) if n]
    layers += [("signals", constraints["fixed"]), ("total", constraints["total"])]
    passes = [(p["pass"], p["total"], ", ".join(f"{k} {v}" for k, v in p["nodes"].items())) for p in report["passes"]]
    digests = [(part, report["sizes"].get(part, ""), digest) for part, digest in report["digests"].items()]
    parts = (
        f"<h1>{name}</h1><p>{shape} network; integer model beside the float model.</p>",
        f'<p class="note">{escape(_setup_text(proof))} This report does not show {escape(report["not_shown"])}.</p>',
        *(f'<p class="note">{escape(text[:1].upper() + text[1:])}.</p>' for text in report["warnings"]),
        f"<p>Accuracy goal met: {_text(choice['goal_met'])}. {_goal(choice, class_output=report['class_output'])}</p>",
        _accuracy(report, "calibration", "Accuracy on calibration rows"),
        _accuracy(report, "held_out", "Accuracy on held-out rows"),
        pictures(report["figures"]),
        "<h2>Proven output bounds over the input box</h2>",
        _table(("output", "unit", "low", "high", "limit low", "limit high", "inside by proof"), bounds),
        _properties(report),
        "<h2>Circuit</h2>",
        _table(("part", "constraints"), layers),
        f"<p>Domain {constraints['domain_size']}; a proof took {proof['measured_ms']} ms on the build machine: "
        f"inline in cycles of {proof['inline_from_cycle_ms']} ms or more, deferred in shorter ones.</p>",
        _layers(report),
        f"<p>{_weights(choice)}</p>",
        "<h2>Passes</h2>",
        _table(("pass", "nodes", "operators"), passes),
        "<h2>Digests (SHA-256)</h2>",
        _table(("part", "bytes", "digest"), digests),
    )
    head = f'<meta charset="utf-8"><title>{name}</title><style>{_STYLE}</style>'
    return f'<!doctype html><html lang="en"><head>{head}</head><body>{"".join(parts)}</body></html>'.encode()
