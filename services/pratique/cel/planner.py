"""Plan syntax trees: each becomes a Python function once, so that evaluation walks no tree.

Source: ``github.com/google/cel-go/interpreter/planner.go`` and ``optimizations.go``. The optimizations matter because
they change what an expression costs: a literal made of literals costs nothing, nor does ``in`` before a list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from pratique.cel import costs, interpretables, operations
from pratique.cel.activation import VARIABLES, Frame, Interpretable
from pratique.cel.errors import CompilationError, EvaluationError
from pratique.cel.interpretables import (
    Attribute,
    Fold,
    Functions,
    IterationRange,
    Qualifier,
    Quantifier,
    plan_append,
    plan_insert,
    plan_list,
    plan_map,
    plan_quantifier,
    read_accumulator,
)
from pratique.cel.libraries.regexes import PATTERN_FUNCTIONS, with_constant_pattern
from pratique.cel.operations import Operand, Operations, PlannedOperation
from pratique.cel.structs import plan_struct
from pratique.cel.syntax_trees import (
    CallExpr,
    Comprehension,
    Constant,
    Identifier,
    ListLiteral,
    MapLiteral,
    Node,
    Select,
    StructLiteral,
    SyntaxTree,
)
from pratique.cel.values import TypeName, Uint, Value

_TYPE_OF_A_TYPE = b"\x5a"
"""The first byte of an encoded ``cel.expr.Type`` that is the type of a type: field 11, with a length."""
_CONVERSIONS = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)
_T = TypeVar("_T")
_INSERTION = "cel.@mapInsert"
_COMPOSITED = f"{VARIABLES}."
"""The prefix under which the checker knows the fields of ``variables``."""


class Program(msgspec.Struct, frozen=True):
    """A planned expression."""

    step: Interpretable
    slots: int
    """The number of comprehension variables."""
    operations: Operations
    """What its steps do, for code generation."""

    def without_operations(self) -> Program:
        """Drop what only code generation needs."""
        return msgspec.structs.replace(self, operations={})


def plan(
    tree: SyntaxTree,
    functions: Functions,
    struct_names: Mapping[str, str] | None = None,
    *,
    fold_literals: bool = True,
) -> Program:
    """Plan an expression.

    Args:
        tree: The type-checked expression.
        functions: The functions that it may call.
        struct_names: The struct types that it may construct, from the checker's names to the names as written.
        fold_literals: Evaluate constant literals at compilation, as Kubernetes configures cel-go.

    Raises:
        CompilationError: a literal cannot be converted, or a struct type is unknown.
    """
    planner = _Planner(tree, functions, struct_names or {}, fold_literals=fold_literals)
    step = planner.plan(tree.root, {}).step
    return Program(step, planner.slots, planner.operations)


class _PlannedNode(msgspec.Struct, frozen=True):
    """A planned node of the syntax tree."""

    step: Interpretable
    attribute: Attribute | None = None
    """The attribute that a selection extends; None if the node is none."""
    constant: bool = False
    value: Value = None
    """Its value, if it is constant."""


class _Planner:
    def __init__(
        self,
        tree: SyntaxTree,
        functions: Functions,
        struct_names: Mapping[str, str],
        *,
        fold_literals: bool,
    ) -> None:
        self._tree = tree
        self._functions = functions
        self._struct_names = struct_names
        self._folds_literals = fold_literals
        self.slots = 0
        self.operations: dict[Interpretable, PlannedOperation] = {}

    def _described(self, step: Interpretable, operation: PlannedOperation) -> Interpretable:
        self.operations[step] = operation
        return step

    def plan(self, node: Node, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        planners: dict[type[Node], Callable[..., _PlannedNode]] = {
            Constant: self._constant,
            Identifier: self._identifier,
            Select: self._select,
            CallExpr: self._call,
            ListLiteral: self._list,
            MapLiteral: self._map,
            StructLiteral: self._struct,
            Comprehension: self._comprehension,
        }
        return planners[type(node)](node, scope)

    def _constant(self, node: Constant, _: Mapping[str, Interpretable]) -> _PlannedNode:
        return self._literal(node.value)

    def _literal(self, value: Value) -> _PlannedNode:
        step = self._described(lambda _: value, operations.ReadLiteral(value))
        return _PlannedNode(step, constant=True, value=value)

    def _variable(self, name: str) -> Attribute:
        return Attribute(self._described(_variable(name), operations.ReadVariable(name)))

    def _attribute(self, attribute: Attribute) -> _PlannedNode:
        return _PlannedNode(self._resolved(attribute, attribute.cost), attribute)

    def _resolved(self, attribute: Attribute, cost: int = 0) -> Interpretable:
        if not attribute.qualifiers and not cost:
            return attribute.base
        step, operation = attribute.resolved(cost), _attribute_operation(attribute, cost)
        is_composited = self.operations.get(attribute.base) == operations.ReadVariable(VARIABLES)
        if operation is None or (is_composited and type(operation) is operations.HasField):
            return step
        return self._described(step, operation)

    def _branch(self, planned: _PlannedNode) -> Interpretable:
        """The step for a branch of ``?:`` or an index, where an attribute does not cost its 1."""
        return planned.step if planned.attribute is None else self._resolved(planned.attribute)

    def _struct(self, node: StructLiteral, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        name = self._struct_names.get(node.type_name)
        if name is None:
            raise CompilationError(f"program instantiation failed: unknown type: {node.type_name}")
        fields = [(field.name, self._step(field.value, scope), field.optional) for field in node.fields]
        step = plan_struct(name, fields)
        if not any(optional for _, _, optional in fields):
            names, values = (field for field, _, _ in fields), (value for _, value, _ in fields)
            self.operations[step] = operations.MakeStruct(name, tuple(names), tuple(values))
        return _PlannedNode(step)

    def _step(self, node: Node, scope: Mapping[str, Interpretable]) -> Interpretable:
        return self.plan(node, scope).step

    def _identifier(self, node: Identifier, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        if node.name in scope:
            return self._attribute(Attribute(scope[node.name]))
        if node.name.startswith(_COMPOSITED):
            field = Qualifier(node.name.removeprefix(_COMPOSITED))
            return self._attribute(self._variable(VARIABLES).qualified(field))
        if self._tree.types.get(node.number, b"").startswith(_TYPE_OF_A_TYPE):
            return self._literal(TypeName(node.name))
        return self._attribute(self._variable(node.name))

    def _select(self, node: Select, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        operand = self.plan(node.operand, scope)
        qualifier = Qualifier(node.field, test_only=node.test_only)
        selected = (operand.attribute or Attribute(operand.step)).qualified(qualifier)
        # has() costs 1 less than a selection: PresenceTestHasCost(false) in pkg/cel/environment/base.go.
        return _PlannedNode(self._resolved(selected, selected.cost - node.test_only), selected)

    def _call(self, node: CallExpr, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        if node.function in _INDEXES:
            return self._index(node, scope, optional=_INDEXES[node.function])
        if node.function == "_?_:_":
            condition, then, otherwise = (self.plan(argument, scope) for argument in node.arguments)
            chosen = self._choice(condition.step, self._branch(then), self._branch(otherwise))
            return _PlannedNode(chosen, Attribute(chosen, cost=0))
        if node.function == "@in" and (membership := self._membership(node, scope)):
            return membership
        if node.function in _CONVERSIONS and self._folds_literals and len(node.arguments) == 1:
            return self._conversion(node, scope)
        arguments = [self.plan(argument, scope) for argument in node.arguments]
        steps = [argument.step for argument in arguments]
        if special := _SPECIAL.get(node.function):
            return _PlannedNode(self._described(special(*steps), _SPECIAL_OPERATIONS[node.function](*steps)))
        pattern = arguments[1].value if node.function in PATTERN_FUNCTIONS and arguments[1].constant else None
        return _PlannedNode(self._ordinary(node, steps, pattern))

    def _choice(
        self, condition: Interpretable, then: Interpretable, otherwise: Interpretable
    ) -> Interpretable:
        step = interpretables.plan_condition(condition, then, otherwise)
        return self._described(step, operations.Choose(condition, then, otherwise))

    def _ordinary(self, node: CallExpr, steps: list[Interpretable], pattern: Value = None) -> Interpretable:
        """Plan a call that evaluates its arguments; ``pattern`` is the constant pattern among them, if any."""
        name, cost = node.function, costs.cost_function(node)
        implementation = self._functions[node.overloads[0] if self._has_own_overload(node) else name]
        if type(pattern) is str:
            implementation = _instantiated(lambda: with_constant_pattern(implementation, pattern))
        step = interpretables.plan_call(name, implementation, steps, cost)
        return self._described(step, operations.CallFunction(name, implementation, steps, cost))

    def _has_own_overload(self, node: CallExpr) -> bool:
        return len(node.overloads) == 1 and node.overloads[0] in self._functions

    def _index(self, node: CallExpr, scope: Mapping[str, Interpretable], *, optional: bool) -> _PlannedNode:
        operand, key = (self.plan(argument, scope) for argument in node.arguments)
        base = operand.attribute or Attribute(operand.step)
        if key.constant:
            value = _instantiated(lambda: interpretables.checked_qualifier(key.value))
            return self._attribute(base.qualified(Qualifier(value, optional=optional)))
        return self._attribute(base.qualified(Qualifier(computed=self._branch(key), optional=optional)))

    def _membership(self, node: CallExpr, scope: Mapping[str, Interpretable]) -> _PlannedNode | None:
        value, items = (self.plan(argument, scope) for argument in node.arguments)
        if node.overloads != ("in_list",) or not items.constant:
            return None
        if not items.value:
            return self._literal(value=False)
        if any(type(item) not in (bool, int, Uint, float, str) for item in items.value):
            return None
        step = interpretables.plan_membership(value.step, items.value)
        if all(type(item) is str for item in items.value):
            self.operations[step] = operations.FindText(value.step, frozenset(items.value))
        return _PlannedNode(step)

    def _conversion(self, node: CallExpr, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        argument = self.plan(node.arguments[0], scope)
        if not argument.constant:
            return _PlannedNode(self._ordinary(node, [argument.step]))
        return self._folded(self._ordinary(node, [argument.step]))

    def _folded(self, step: Interpretable) -> _PlannedNode:
        return self._literal(_instantiated(lambda: step(Frame({}, 0, costs.PER_CALL_LIMIT))))

    def _list(self, node: ListLiteral, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        elements = [self.plan(element, scope) for element in node.elements]
        steps = [element.step for element in elements]
        step = plan_list(steps, node.optional)
        if not node.optional:
            self.operations[step] = operations.MakeList(steps)
        if self._folds_literals and all(element.constant for element in elements):
            return self._folded(step)
        return _PlannedNode(step)

    def _map(self, node: MapLiteral, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        entries = [
            (self.plan(entry.key, scope), self.plan(entry.value, scope), entry.optional)
            for entry in node.entries
        ]
        step = plan_map([(key.step, value.step, optional) for key, value, optional in entries])
        if self._folds_literals and all(key.constant and value.constant for key, value, _ in entries):
            return self._folded(step)
        if all(key.constant and type(key.value) is str and not optional for key, _, optional in entries):
            keys, values = (key.value for key, _, _ in entries), (value.step for _, value, _ in entries)
            self.operations[step] = operations.MakeMap(tuple(keys), tuple(values))
        return _PlannedNode(step)

    def _slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def _comprehension(self, node: Comprehension, scope: Mapping[str, Interpretable]) -> _PlannedNode:
        slots = tuple(self._slot() for _ in node.variables)
        items = IterationRange(items=self._step(node.items, scope), slots=slots)
        local = {
            name: self._described(_local(slot), operations.ReadSlot(slot))
            for name, slot in zip(node.variables, slots, strict=True)
        }
        inner = {**scope, **local}
        if shape := _quantifier(node):
            quantifier, predicate = shape
            test = self._step(predicate, inner)
            step = plan_quantifier(quantifier, items, test)
            loop = operations.Quantify(items.items, slots, test, ending=quantifier.value)
            return _PlannedNode(self._described(step, loop))
        accumulator = self._slot()
        reading = self._described(read_accumulator(accumulator), operations.ReadSlot(accumulator))
        inner[node.accumulator] = reading
        always = isinstance(node.condition, Constant) and node.condition.value is True
        fold = Fold(
            items=items,
            accumulator=accumulator,
            start=self._start(node, scope),
            condition=None if always else self._step(node.condition, inner),
            step=self._accumulation(node, inner),
            result=self._step(node.result, {**scope, node.accumulator: reading}),
        )
        return _PlannedNode(self._described(fold.run, operations.Accumulate(fold)))

    def _start(self, node: Comprehension, scope: Mapping[str, Interpretable]) -> Interpretable:
        """Plan the accumulator's first value: a new list or map each time, because it is changed in place."""
        step = self._step(node.start, scope)
        if isinstance(node.start, ListLiteral) and not node.start.elements:
            return self._described(lambda frame: list(step(frame)), operations.Copy(step, list))
        if isinstance(node.start, MapLiteral) and not node.start.entries:
            return self._described(lambda frame: dict(step(frame)), operations.Copy(step, dict))
        return step

    def _accumulation(self, node: Comprehension, scope: Mapping[str, Interpretable]) -> Interpretable:
        """Plan the step so that it appends in place: ``accumulator + [x]`` would copy the list for each element."""
        return self._appending(node.step, node.accumulator, scope, starts_empty=_has_empty_start(node))

    def _appending(
        self, node: Node, name: str, scope: Mapping[str, Interpretable], *, starts_empty: bool
    ) -> Interpretable:
        match node:
            case CallExpr(_, "_?_:_", (condition, then, otherwise)):
                return self._choice(
                    self._step(condition, scope),
                    self._appending(then, name, scope, starts_empty=starts_empty),
                    self._branch(self.plan(otherwise, scope)),
                )
            case CallExpr(_, "_+_", (Identifier(_, accumulator), ListLiteral() as added)) if (
                starts_empty and accumulator == name
            ):
                grown, more = self._attribute(Attribute(scope[name])).step, self._step(added, scope)
                return self._described(plan_append(grown, more), operations.Append(grown, more))
            case CallExpr(_, function, (Identifier(_, accumulator), *rest)) if (
                function == _INSERTION and accumulator == name
            ):
                steps = [self._step(argument, scope) for argument in rest]
                return plan_insert(self._attribute(Attribute(scope[name])).step, steps)
            case _:
                return self._step(node, scope)


def _instantiated(evaluate: Callable[[], _T]) -> _T:
    """Evaluate what is constant. Raises CompilationError if that fails."""
    try:
        return evaluate()
    except EvaluationError as error:
        raise CompilationError(f"program instantiation failed: {error}") from None


def _has_empty_start(node: Comprehension) -> bool:
    return isinstance(node.start, ListLiteral) and not node.start.elements


def _attribute_operation(attribute: Attribute, cost: int) -> PlannedOperation | None:
    """What :meth:`Attribute.resolved` plans; None for ``has()`` behind an optional selection."""
    base, qualifiers = attribute.base, attribute.qualifiers
    if not qualifiers:
        return operations.ChargeMore(base, cost)
    if not any(qualifier.test_only for qualifier in qualifiers):
        return operations.Qualify(base, qualifiers, cost)
    *names, field = qualifiers
    if not all(map(interpretables.is_plain_name, names)):
        return None
    holder: Operand = base
    if names:
        holder = operations.Qualify(base, tuple(names), cost)
    elif cost:
        holder = operations.ChargeMore(base, cost)
    return operations.HasField(holder, field.key)


def _variable(name: str) -> Interpretable:
    def read(frame: Frame) -> Value:
        try:
            return frame.variables[name]
        except KeyError:
            raise EvaluationError(f"no such attribute(s): {name}") from None

    return read


def _local(slot: int) -> Interpretable:
    return lambda frame: frame.slots[slot]


def _quantifier(node: Comprehension) -> tuple[Quantifier, Node] | None:
    """Recognise ``all`` and ``exists`` by their expansion, and extract the predicate."""
    name = node.accumulator
    for quantifier, operator, going_on in (
        (Quantifier.ALL, "_&&_", _is_accumulator),
        (Quantifier.EXISTS, "_||_", _is_negated_accumulator),
    ):
        match node:
            case Comprehension(
                start=Constant(_, bool() as start),
                condition=CallExpr(_, "@not_strictly_false", (argument,)),
                step=CallExpr(_, function, (Identifier(_, accumulator), predicate)),
                result=Identifier(_, result),
            ) if (
                function == operator
                and start is not quantifier.value
                and accumulator == name == result
                and going_on(argument, name)
            ):
                return quantifier, predicate
    return None


def _is_accumulator(node: Node, name: str) -> bool:
    return isinstance(node, Identifier) and node.name == name


def _is_negated_accumulator(node: Node, name: str) -> bool:
    return isinstance(node, CallExpr) and node.function == "!_" and _is_accumulator(node.arguments[0], name)


_INDEXES = {"_[_]": False, "_[?_]": True, "_?._": True}
"""The selecting operators, and whether they give an optional."""

_SPECIAL: dict[str, Callable[..., Interpretable]] = {
    "_&&_": interpretables.plan_conjunction,
    "_||_": interpretables.plan_disjunction,
    "_==_": lambda left, right: interpretables.plan_equality(left, right, negated=False),
    "_!=_": lambda left, right: interpretables.plan_equality(left, right, negated=True),
    "@not_strictly_false": interpretables.plan_not_strictly_false,
    "or": lambda left, right: interpretables.plan_alternative(left, right, unwrap=False),
    "orValue": lambda left, right: interpretables.plan_alternative(left, right, unwrap=True),
}
"""The functions that do not evaluate all their arguments first, or have their own cost."""

_SPECIAL_OPERATIONS: dict[str, Callable[..., PlannedOperation]] = {
    "_&&_": lambda left, right: operations.Junction(left, right, deciding=False),
    "_||_": lambda left, right: operations.Junction(left, right, deciding=True),
    "_==_": lambda left, right: operations.Equality(left, right, negated=False),
    "_!=_": lambda left, right: operations.Equality(left, right, negated=True),
    "@not_strictly_false": operations.AbsorbFailure,
    "or": lambda left, right: operations.Unwrap(left, right, unwraps=False),
    "orValue": lambda left, right: operations.Unwrap(left, right, unwraps=True),
}
"""What these functions do."""
