# SPDX-License-Identifier: Apache-2.0
"""JSON and YAML as settings with lines. Values stay text; what a template or a tag would make of them is not guessed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from keepstep.model.facts.config_files import Setting

MOST_SETTINGS = 20_000
"""Those of one file. More, also by aliases, is data."""
_KINDS = {"int": "int", "float": "float", "bool": "bool", "null": "null"}
_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*.*?\*/|(?<![^\s,{}\[\]])#[^\n]*', re.S)
_LAST_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*")|,(?=\s*[}\]])')


class Unreadable(Exception):
    """The format's own reader refuses the text."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line, self.why = line, why


class TooMuch(Exception):
    """More than settings are."""


class Document:
    """One document: its settings by path, and the keys that stand in it twice."""

    def __init__(self) -> None:
        self.settings: list[Setting] = []
        self.twice: list[Setting] = []

    @property
    def is_map(self) -> bool:
        return bool(self.settings) and self.settings[0].kind == "map"

    def get(self, *path: str) -> Setting | None:
        return next((each for each in self.settings if each.path == path), None)

    def keys(self, *path: str) -> set[str]:
        """The keys of the map at a path."""
        depth = len(path)
        return {each.path[depth] for each in self.settings if len(each.path) == depth + 1 and each.path[:depth] == path}

    def below(self, *path: str) -> tuple[Setting, ...]:
        """What is at a path and below it, with paths from there."""
        depth = len(path)
        return tuple(
            Setting(path=each.path[depth:], text=each.text, kind=each.kind, line=each.line)
            for each in self.settings
            if each.path[:depth] == path
        )


def from_json(text: str) -> Document:
    """The settings of a JSON text. Comments and a comma before a bracket are forgiven: DeepSpeed reads Hjson."""
    for forgiven in (text, _forgiven(text)):
        try:
            json.loads(forgiven)
            break
        except RecursionError as error:
            raise TooMuch from error
        except ValueError as error:
            refused = error
    else:
        line = refused.lineno if isinstance(refused, json.JSONDecodeError) else 1
        raise Unreadable(line, refused.msg if isinstance(refused, json.JSONDecodeError) else str(refused))
    # a tab inside a text is written \t in JSON; between values it is a blank
    documents = list(from_yaml(forgiven.replace("\t", " ")))
    if len(documents) != 1:
        raise TooMuch
    return documents[0]


def _forgiven(text: str) -> str:
    """The same text with blanks in place of comments and of last commas: lines stay where they are."""

    def blank(match: re.Match[str]) -> str:
        return match[0] if match[1] is not None else re.sub(r"[^\n]", " ", match[0])

    return _LAST_COMMA.sub(blank, _COMMENT.sub(blank, text))


def from_yaml(text: str) -> Iterator[Document]:
    """The documents of a YAML text."""
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        while loader.check_node():
            document = Document()
            _walk(loader.get_node(), (), document, [0], 0)
            yield document
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unreadable((mark.line if mark is not None else 0) + 1, error.problem or "no YAML") from error
    except yaml.YAMLError as error:
        raise Unreadable(1, str(error).partition("\n")[0]) from error
    except RecursionError as error:
        raise TooMuch from error
    finally:
        loader.dispose()


def _walk(node: Any, path: tuple[str, ...], into: Document, count: list[int], line: int) -> None:
    count[0] += 1
    if count[0] > MOST_SETTINGS or len(path) > 60:
        raise TooMuch
    line = line or node.start_mark.line + 1
    tag = str(node.tag).rpartition(":")[2]
    if node.id == "mapping":
        into.settings.append(Setting(path=path, text="", kind="map", line=line))
        known = set()
        for key, value in node.value:
            name = key.value if isinstance(key.value, str) else ""
            at = key.start_mark.line + 1
            if name in known:
                into.twice.append(Setting(path=(*path, name), text="", kind=value.id, line=at))
            known.add(name)
            _walk(value, (*path, name), into, count, at)
    elif node.id == "sequence":
        into.settings.append(Setting(path=path, text="", kind="list", line=line))
        for number, value in enumerate(node.value):
            _walk(value, (*path, str(number)), into, count, value.start_mark.line + 1)
    else:
        into.settings.append(Setting(path=path, text=str(node.value), kind=_KINDS.get(tag, "text"), line=line))
