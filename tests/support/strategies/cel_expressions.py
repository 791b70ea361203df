"""Random expressions of CEL and values of their variables: most of them fit together, many do not."""

from __future__ import annotations

import functools
import re
from typing import Any

from hypothesis import strategies as st

from pratique.cel.activation import DeclaredVariable, LazyVariables
from pratique.cel.environments import Environment
from pratique.cel.expressions import Expression
from pratique.cel.policy_compiler import PolicyCompiler

TYPES = {
    "x": "dyn",
    "y": "dyn",
    "text": "string",
    "number": "int",
    "yes": "bool",
    "ratio": "double",
    "texts": "list<string>",
    "numbers": "list<int>",
    "labels": "map<string,string>",
}
"""The declared variables besides ``object`` and ``oldObject``. ``x`` and ``y`` are also those of comprehensions."""
COMPOSITED = {"v": "object.a", "w": "variables.v.b", "z": "object.list.map(x, x)"}
ENVIRONMENT = Environment(
    variables=tuple(TYPES.items()),
    composited=tuple(DeclaredVariable(name, "dyn", is_tested=True) for name in COMPOSITED),
    has_patches=True,
)


def _listed(text: str) -> list[str]:
    return [source.strip() for line in text.strip().splitlines() for source in line.split(";;")]


LEAVES: dict[str, list[str]] = {
    "bool": _listed("""
        true ;; false ;; yes ;; has(object.a) ;; has(object.a.b) ;; has(x.name) ;; has(object.name.b)
        has(variables.v) ;; has(variables.v.b) ;; object.?q.hasValue() ;; x == y ;; oldObject == null
        object == oldObject ;; x in texts ;; object.name in ['a', 'web'] ;; number in numbers ;; 'a' in labels
        'a' in object.a ;; x.name == 'a' ;; text != 'a text of some length' ;; number < 3 ;; x.b > 1
        [?object.?q, dyn(1)].size() > 1 ;; object.b in [1, 2] ;; 1.5 == ratio
    """),
    "int": _listed("""
        1 ;; 0 ;; -2 ;; 9223372036854775807 ;; number ;; size(text) ;; numbers[0] ;; size(object.list)
        labels.size()
    """),
    "text": _listed("""
        'a' ;; '' ;; 'a text of some length' ;; text ;; string(number) ;; labels['a'] ;; texts[0]
        labels.?a.orValue('')
    """),
    "list": _listed("""
        texts ;; numbers ;; [1, 2] ;; [] ;; lists.range(3) ;; [object.a, object.b] ;; ['a', text] ;; texts.map(x, x)
    """),
    "any": _listed("""
        object ;; oldObject ;; x ;; y ;; null ;; 7u ;; 1.5 ;; b'a' ;; object.a ;; object.a.b ;; object.name
        object.list ;; object.q ;; x.name ;; x.a.b ;; object.?a.?b.orValue('a') ;; object.?q
        object.a[?'x-y'].orValue(y) ;; object.list[?0] ;; object['x-y'] ;; object.list[0] ;; object.list[number]
        object.list[9] ;; labels ;; int(x) ;; string(x) ;; duration('1h') ;; timestamp(0) ;; type(x)
        optional.of(x) ;; optional.none() ;; ratio ;; variables.v ;; variables.w ;; variables.z ;; variables.v.b
        Object{a: Object.a{b: x}}.a.b ;; JSONPatch{op: 'add', path: text}.path
    """),
}  # fmt: skip
"""Expressions by the kind of their value."""
_LARGER: dict[str, list[str]] = {
    "bool": _listed("""
        (#bool && #bool) ;; (#bool || #bool) ;; !(#bool) ;; (#int <= #int) ;; (#int == #int) ;; (#text == #text)
        (#any == #any) ;; (#any != #any) ;; (#any > #int) ;; (#any < dyn(#any)) ;; (#bool ? #bool : #bool)
        #items.all(x, #bool) ;; #items.exists(x, #bool) ;; #items.exists_one(x, #bool) ;; #items.all(x, y, #bool)
        #items.exists(x, y, #bool) ;; #items.existsOne(x, y, #bool) ;; #text.startsWith(#text)
        dyn(#any).endsWith(#text) ;; #text.contains(#text) ;; dyn(#any).contains(#text) ;; (#any in #list)
        (#text in #items) ;; #text.matches('a+') ;; (#list == #list) ;; (#any && #bool) ;; dyn(#any)
        (#bool || #any) ;; dyn(#any) in dyn(#items)
    """),
    "int": _listed("""
        (#int + #int) ;; (#int - #int) ;; (#int * #int) ;; (#int / #int) ;; size(#list) ;; (#any + #int)
        size(#any) ;; (#bool ? #int : #int) ;; #text.indexOf(#text) ;; -(#int)
    """),
    "text": _listed("""
        (#text + #text) ;; (#bool ? #text : #text) ;; string(#int) ;; #text.lowerAscii()
        #text.replace(#text, 'b') ;; #text.substring(#int) ;; '%s'.format([#any])
    """),
    "list": _listed("""
        #items.map(x, #any) ;; #items.filter(x, #bool) ;; #items.map(x, #bool, #any) ;; [#int, #int]
        (#list + #list) ;; [dyn(#any), #int, ?#any] ;; #items.transformList(x, y, #any) ;; #items.sortBy(x, #int)
        #list.flatten(number) ;; #items.transformList(x, y, #bool, #any) ;; #list.slice(#int, #int)
        #text.split(#text)
    """),
    "any": _listed("""
        #bool ;; #int ;; #text ;; #list ;; (#bool ? dyn(#any) : dyn(#any)) ;; {'k': #any, 'b': #any}.k
        dyn(#any).a ;; {#any: #any} ;; dyn(#any).?a ;; dyn(#any).?a.orValue(#any) ;; dyn(#any)[#any] ;; #any.value()
        #any.or(#any) ;; #items.transformMap(x, y, #any) ;; Object{a: Object.a{b: #any}}.a.b
        JSONPatch{op: 'add', path: dyn(#any)}.path ;; #list[#int] ;; (#any ? #any : #any)
    """),
    "items": _listed("""
        object.list ;; #list ;; #list ;; labels ;; dyn(#any) ;; variables.z ;; object
    """),
}  # fmt: skip


@st.composite
def expressions(draw: st.DrawFn, kind: str = "any", depth: int = 4) -> str:
    """Expressions, most of which compile in ``ENVIRONMENT``."""
    is_leaf = kind in LEAVES and (not depth or not draw(st.integers(0, 4)))
    pattern = draw(st.sampled_from((LEAVES if is_leaf else _LARGER)[kind]))
    return _HOLE.sub(lambda hole: draw(expressions(hole[1], max(depth - 1, 0))), pattern)


_HOLE = re.compile(r"#([a-z]+)")
_SCALARS = [None, True, False, 0, 1, -3, 2**63 - 1, 1.5, 1.0, "", "a", "web", "a text of some length"]


def _json() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.sampled_from(_SCALARS),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_keys(), inner, max_size=4),
        max_leaves=6,
    )


def _keys() -> st.SearchStrategy[str]:
    return st.sampled_from(["a", "b", "name", "x-y"])


def _mostly(usual: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 7).flatmap(lambda number: usual if number else _json())


def _item() -> st.SearchStrategy[Any]:
    fields = {
        "name": _mostly(st.text(max_size=30)),
        "a": _mostly(st.dictionaries(_keys(), _json())),
        "b": _json(),
    }
    return _mostly(st.fixed_dictionaries({}, optional=fields) | st.fixed_dictionaries(fields))


def _object() -> st.SearchStrategy[Any]:
    fields = {
        "a": _mostly(st.fixed_dictionaries({"b": _mostly(st.just("web"))}, optional={"name": _json()})),
        "name": _mostly(st.text(max_size=30)),
        "list": _mostly(st.lists(_item(), max_size=4)),
    }
    return _mostly(st.fixed_dictionaries(fields, optional={"b": _json(), "x-y": _json()}))


def activations() -> st.SearchStrategy[dict[str, Any]]:
    """Values of the variables; those with a declared type nearly always have it."""
    text = st.text(max_size=25)
    typed = {
        "text": text,
        "number": st.integers(-3, 5) | st.integers(-(2**63), 2**63 - 1),
        "yes": st.booleans(),
        "ratio": st.floats(),
        "texts": st.lists(text, max_size=4),
        "numbers": st.lists(st.integers(-3, 5), max_size=4),
        "labels": st.dictionaries(_keys(), text, max_size=3),
    }
    variables = {"object": _object(), "oldObject": st.none() | _object(), "x": _item(), **typed}
    return st.fixed_dictionaries(
        {name: _mostly(values) for name, values in variables.items()}, optional={"y": _json()}
    )


def with_composited(activation: dict[str, Any]) -> dict[str, Any]:
    """The activation with a fresh value of ``variables``."""
    seen = dict(activation)
    seen["variables"] = LazyVariables(_composited(), seen)
    return seen


@functools.cache
def _composited() -> dict[str, Expression]:
    compiler = PolicyCompiler(has_params=False, types={})
    return {name: compiler.add_variable(name, source) for name, source in COMPOSITED.items()}
