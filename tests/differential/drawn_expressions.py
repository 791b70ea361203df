"""CEL expressions as people write them in policies, and some that fail when they are evaluated."""

from __future__ import annotations

from random import Random

_STRINGS = (
    "object.metadata.name",
    "object.metadata.?namespace.orValue('none')",
    "request.operation",
    "request.userInfo.username",
    "string(size(object.metadata.name))",
    "object.metadata.labels.app",
    "object.metadata.?labels[?'app'].orValue('')",
    "namespaceObject.metadata.name",
    "request.resource.resource",
    "request.kind.kind",
    "request.name",
    "'a'",
)
_NUMBERS = (
    "size(object.metadata.name)",
    "size(object.spec.containers)",
    "object.spec.?containers.orValue([]).size()",
    "object.spec.containers.filter(c, has(c.resources)).size()",
    "int(object.data.a)",
    "size(object.metadata.?labels.orValue({}))",
    "1",
)
_TRUTHS = (
    "has(object.metadata.labels)",
    "has(object.spec) && has(object.spec.containers)",
    "object.spec.containers.all(c, c.image.startsWith('registry'))",
    "object.spec.containers.exists(c, c.image.endsWith(':latest'))",
    "object.spec.containers.all(c, has(c.securityContext) && c.securityContext.runAsNonRoot == true)",
    "!object.spec.containers.exists(c, has(c.ports) && c.ports.exists(p, has(p.hostPort)))",
    "object.spec.containers.map(c, c.name).exists_one(n, n == 'c0')",
    "object.kind == 'ConfigMap'",
    "request.operation == 'CREATE'",
    "request.?dryRun.orValue(false)",
    "oldObject != null",
    "oldObject == null || object.data.a == oldObject.data.a",
    "'system:masters' in request.userInfo.groups",
    "namespaceObject.metadata.labels.env == 'prod'",
    "namespaceObject.metadata.?labels.env.orValue('') == 'prod'",
    "object.metadata.name.matches('^[pc][0-9]+$')",
    "object.metadata.missing == 'x'",
    "object.metadata == 'x'",
    "object.metadata.?labels.orValue({}) == 'x'",
    "dyn([object.metadata]) == ['x'] || 'x' == object.metadata",
    "object.data.a == 1",
    "quantity(object.spec.containers[0].resources.requests.memory).isGreaterThan(quantity('50Mi'))",
    "object.spec.containers[1].name == 'c1'",
    "object.metadata.name.split('')[0] in ['p', 'c']",
    "1 / (size(object.metadata.name) - 2) >= 0",
    "authorizer.group('').resource('pods').namespace(object.metadata.namespace).check('create').allowed()",
    "authorizer.requestResource.check('delete').allowed()",
    "object.metadata.?labels.orValue({}).all(k, object.metadata.labels[k] != '')",
    "url('https://example.com/' + object.metadata.name).getHost() == 'example.com'",
    "duration('1h') > duration('30m')",
    "object.metadata.name.lowerAscii() == object.metadata.name",
    "['p1', 'p2', object.metadata.name].sum() != ''",
    "[1, 2, 3].isSorted() && [1, 2].indexOf(2) == 1",
    "type(object.metadata.name) == string",
    "dyn(object.data.a) == 1",
    "format.dns1123Label().validate(object.metadata.name).hasValue()",
    "semver('1.2.3').isLessThan(semver('1.10.0'))",
    "ip('10.0.0.1').family() == 4 && cidr('10.0.0.0/8').containsIP('10.0.0.1')",
    "false",
    "true",
)
_PARAMETERS = (
    "params != null",
    "object.metadata.name.startsWith(params.data.prefix)",
    "size(object.metadata.name) <= int(params.data.most)",
    "params.data['missing'] == 'x'",
)
_CONDITIONS = (
    "request.operation != 'DELETE'",
    "has(object.metadata.labels)",
    "object.kind == 'Pod'",
    "object.metadata.labels.app == 'web'",
    "request.userInfo.username != 'guest'",
    "!('system:masters' in request.userInfo.groups)",
    "object.spec.nothing == 1",
    "true",
    "false",
)


def truth(random: Random, names: tuple[str, ...] = (), *, parameters: bool = False, depth: int = 2) -> str:
    """An expression that gives a bool, or fails."""
    drawn = random.random()
    if depth and drawn < 0.35:
        left, right = (truth(random, names, parameters=parameters, depth=depth - 1) for _ in range(2))
        form = random.choice(("({0}) && ({1})", "({0}) || ({1})", "!({0})", "({0}) ? ({1}) : true"))
        return form.format(left, right)
    if names and drawn < 0.5:
        name = random.choice(names)
        return random.choice(
            (f"variables.{name} != null", f"variables.{name} == 'a'", f"variables.{name} > 1")
        )
    if parameters and drawn < 0.7:
        return random.choice(_PARAMETERS)
    if drawn < 0.8:
        return random.choice(_TRUTHS)
    return f"{_number(random)} {random.choice(('<', '<=', '==', '!=', '>'))} {_number(random)}"


_FLAWED = (
    "",
    " ",
    "object.",
    "object..metadata",
    "object.metadata.name ==",
    "'unclosed",
    "nothing",
    "nothing == 1",
    "object.metadata.name.nothing()",
    "size(1)",
    "size()",
    "has(object)",
    "has(object.metadata.name, 1)",
    "[1, 2].all(x)",
    "[1, 2].all(1, true)",
    "[1].exists_one(x, y)",
    "[1].map(x.y, true)",
    "'a' + 1",
    "1 + 'a'",
    "!1",
    "-'a'",
    "1 && 2",
    "true ? 1 : 'a'",
    "{'a': 1}['a'].b",
    "[1, 'a']",
    "{1: 'a', 'b': 2}",
    "int('a')",
    "matches('a', '(')",
    "object.metadata.name.matches('(')",
    "'%d'.format(['x'])",
    "'%s %s'.format([1])",
    "duration('x')",
    "timestamp('yesterday')",
    "quantity('1Gi').nothing()",
    "quantity(1)",
    "ip('999.1.1.1')",
    "cidr(1)",
    "url(1)",
    "semver('x')",
    "Object{}",
    "Object{spec: 1}",
    "Object{metadata: Object.metadata{labels: 'x'}}",
    "Object{metadata: Object.spec{}}",
    "JSONPatch{}",
    "[JSONPatch{op: 1}]",
    "[JSONPatch{other: 'x'}]",
    "params.data",
    "variables.missing",
    "variables.v0 + 1",
    "namespaceObject.nothing",
    "request.nothing",
    "request.operation == 1",
    "request.userInfo.groups == 'a'",
    "authorizer.nothing()",
    "authorizer.group('').resource('pods').allowed()",
    "authorizer.path(1)",
    "oldObject.spec.x == object.spec.x && 1",
    "cel.bind(x, 1)",
    "cel.bind(x, 1, x + 'a')",
    "optional.of(1).nothing()",
    "object.?metadata.name",
    "object.metadata.?name == 'x'",
    "'\\q'",
    "9223372036854775808",
    "1e400",
    "0x",
    "b'a' == 'a'",
    "// a comment",
    "a" * 300,
    "'é' == 1",
    "object.metadata.name in 1",
    "1 in {'a': 1}",
    "type(1) == 'int'",
    "dyn(1) + 'a' == 2",
    "[].sum() == 'a'",
    "['a'].sum()",
    "[object].isSorted()",
    "sets.contains(1, 2)",
    "format.nothing()",
    "format.dns1123Label().validate(1)",
    "math.greatest()",
    "strings.quote('a')",
    "base64.encode('a')",
    "'a'.charAt('x')",
    "'a,b'.split(',', 'x')",
    "true.size()",
    "null + 1",
    "object.spec.containers[0].image[0].a",
    "object.spec.containers.all(c, c)",
    "object.metadata.labels.map(k, 1, 2, 3)",
)


def flawed(random: Random) -> str:
    """An expression that does not compile in most places, or a mixture of types."""
    if random.random() < 0.6:
        return random.choice(_FLAWED)
    parts = [
        random.choice((_string(random), _number(random), random.choice(_TRUTHS), random.choice(_FLAWED)))
    ]
    parts.append(random.choice((_string(random), _number(random), random.choice(_TRUTHS))))
    return f"{parts[0]} {random.choice(('+', '-', '==', '<', '&&', 'in', '*', '!='))} {parts[1]}"


def condition(random: Random) -> str:
    """An expression for a match condition."""
    return random.choice(_CONDITIONS)


def variable(random: Random, names: tuple[str, ...]) -> str:
    """An expression of any type."""
    if names and random.random() < 0.3:
        return f"string(variables.{random.choice(names)}) + '!'"
    return random.choice((_string(random), _number(random), random.choice(_TRUTHS), "object.metadata"))


def message(random: Random, names: tuple[str, ...]) -> str:
    """An expression that gives a string, or fails, or gives one that cannot be a message."""
    drawn = random.random()
    if names and drawn < 0.2:
        return f"'variable ' + string(variables.{random.choice(names)})"
    if drawn < 0.3:
        return random.choice(("''", "' '", "'two\\nlines'", "'a'.replace('a', object.metadata.name)"))
    return f"'name ' + {_string(random)}"


def apply_configuration(random: Random, names: tuple[str, ...]) -> str:
    """An expression for ``applyConfiguration``."""
    text = _string(random)
    pulled = "Object.spec.containers.item{name: c.name, imagePullPolicy: 'IfNotPresent'}"
    bodies = [
        f"metadata: Object.metadata{{labels: {{'added': {text}}}}}",
        f"metadata: Object.metadata{{annotations: {{'example.com/by': {text}}}}}",
        "metadata: Object.metadata{labels: {'app': 'mutated'}}",
        "spec: Object.spec{terminationGracePeriodSeconds: 7}",
        "spec: Object.spec{securityContext: Object.spec.securityContext{runAsNonRoot: true}}",
        "spec: Object.spec{containers: [Object.spec.containers.item{name: 'side', image: 'side:1'}]}",
        f"spec: Object.spec{{containers: object.?spec.containers.orValue([]).map(c, {pulled})}}",
        "spec: Object.spec{tolerations: [Object.spec.tolerations.item{key: 'k', operator: 'Exists'}]}",
        "spec: Object.spec{missing: 'x'}",
        "",
    ]
    body = random.choice(bodies)
    if names and random.random() < 0.2:
        body = f"metadata: Object.metadata{{labels: {{'v': string(variables.{random.choice(names)})}}}}"
    if random.random() < 0.2:
        return f"{truth(random, names, depth=0)} ? Object{{{body}}} : Object{{}}"
    return f"Object{{{body}}}"


def json_patch(random: Random, names: tuple[str, ...]) -> str:
    """An expression for ``jsonPatch``."""
    text = _string(random)
    labels = "Object.metadata.labels"
    operations = (
        f"JSONPatch{{op: 'add', path: '/metadata/labels', value: {labels}{{}}}}",
        f"JSONPatch{{op: 'add', path: '/metadata/labels/added', value: {text}}}",
        "JSONPatch{op: 'add', path: '/metadata/annotations', value: {'example.com/a': 'b'}}",
        "JSONPatch{op: 'replace', path: '/metadata/labels/app', value: 'replaced'}",
        "JSONPatch{op: 'remove', path: '/metadata/labels/app'}",
        "JSONPatch{op: 'test', path: '/metadata/name', value: 'p1'}",
        "JSONPatch{op: 'add', path: '/spec/containers/-', value: Object.spec.containers.item{name: 's', image: 's'}}",
        "JSONPatch{op: 'add', path: '/spec/terminationGracePeriodSeconds', value: 9}",
        "JSONPatch{op: 'copy', from: '/metadata/name', path: '/metadata/labels/name'}",
        "JSONPatch{op: 'move', from: '/metadata/labels/app', path: '/metadata/labels/moved'}",
        "JSONPatch{op: 'add', path: '/metadata/labels/' + jsonpatch.escapeKey('a/b'), value: 'x'}",
        "JSONPatch{op: 'add', path: '/metadata/labels/wrong', value: 1}",
        "JSONPatch{op: 'nonsense', path: '/metadata'}",
    )
    chosen = random.sample(operations, random.choice((1, 1, 2)))
    written = f"[{', '.join(chosen)}]"
    if random.random() < 0.2:
        return f"{truth(random, names, depth=0)} ? {written} : []"
    return written


def _string(random: Random) -> str:
    return random.choice(_STRINGS)


def _number(random: Random) -> str:
    return random.choice(_NUMBERS)
