"""Nothing of the pages is unused: every stylesheet class, template and macro."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TEMPLATES = {path.name: path.read_text() for path in sorted((ROOT / "templates").glob("*.*"))}
SCRIPTS = [path.read_text() for path in sorted((ROOT / "static").glob("*.js"))]
MODULES = [path.read_text() for path in sorted((ROOT / "web").rglob("*.py"))]
# Modules whose words become classes: the sides of a drawing, the sign of a number.
GIVING = [
    (ROOT / "web" / "site" / name).read_text()
    for name in ("charts.py", "figures.py", "pictures.py", "paper_pages.py")
]
# The sides of a trade come out of the database.
SIDES = {"buy", "sell"}
# An attribute may hold expressions with quotes of their own.
CLASSES = re.compile(r'class="((?:\{\{.*?\}\}|\{%.*?%\}|[^"])*)"', re.S)
NAME = re.compile(r"[A-Za-z_][\w-]*")
# Before an expression that ends the name: trust-{{ trust.key }}.
BEGINNING = re.compile(r"([A-Za-z_][\w-]*-)(?=\{[{%]|\"? ?~)")
# Where a script names classes.
SCRIPTED = re.compile(r"""(?:classList\.\w+\(|className = )["'`]([\w -]+)""")
# A string of a module that may be one: a word or a few, and no sentence.
FEW_WORDS = re.compile(r"[a-z][a-z -]{0,19}")
SELECTOR = re.compile(r"\.(-?[A-Za-z_][\w-]*)")


def list_selected():
    """The classes that the stylesheet selects."""
    css = re.sub(r"/\*.*?\*/", "", (ROOT / "static" / "candor.css").read_text(), flags=re.S)
    # What stands in braces without braces inside is declarations.
    return {*SELECTOR.findall(re.sub(r"\{[^{}]*\}", "{}", css))}


def list_strings(source):
    """The texts of a module's strings."""
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


def list_written():
    """The classes that pages may have, and the beginnings of those that are put together."""
    attributes = [text for html in TEMPLATES.values() for text in CLASSES.findall(html)]
    told = [text for one in GIVING for text in list_strings(one) if FEW_WORDS.fullmatch(text)]
    scripted = [text for script in SCRIPTS for text in SCRIPTED.findall(script)]
    names = {name for text in (*attributes, *told, *scripted) for name in NAME.findall(text)}
    return names | SIDES, {one for text in attributes for one in BEGINNING.findall(text)}


def test_each_stylesheet_class_is_used():
    names, beginnings = list_written()
    unused = {
        one for one in list_selected() - names if not one.startswith(tuple(beginnings or {" "}))
    }
    assert not unused, sorted(unused)


def test_each_template_is_rendered():
    told = "\n".join([*TEMPLATES.values(), *MODULES])
    # The tabs of a profile are included by the name of their tab.
    names = ("overview", "trades", "holdings", "posts", "record")
    tabs = {f"{kind}_{tab}.html" for kind in ("bot", "trader") for tab in names}
    tabs.add("bot_copying.html")
    assert '"bot_" ~' in TEMPLATES["bot.html"] and '"trader_" ~' in TEMPLATES["trader.html"]
    assert not [name for name in TEMPLATES if name not in told and name not in tabs]


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_each_macro_is_called(name):
    told = "\n".join([*TEMPLATES.values(), *MODULES])
    for macro in re.findall(r"\{%-? macro (\w+)\(", TEMPLATES[name]):
        calls = re.findall(rf"(?<!macro )\b{macro}\(", told)
        assert calls, f"{macro} of {name}"


def test_each_data_attribute_is_used():
    css = (ROOT / "static" / "candor.css").read_text()
    read, written = "\n".join([css, *SCRIPTS]), "\n".join(TEMPLATES.values())
    for name in set(re.findall(r"\sdata-([a-z-]+)", written)):
        property_name = re.sub(r"-(\w)", lambda found: found[1].upper(), name)
        assert re.search(rf"[\[(]data-{name}\b|dataset\.{property_name}\b", read), name
