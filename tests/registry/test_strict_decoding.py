"""Objects decoded as their kinds: in Go's words, and as Go writes them again."""

from __future__ import annotations

import json

import pytest

from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.registry.custom_resources.internal_definitions import without_empty_items
from pratique.registry.strict_decoding import StrictDecodingError, decode, decode_object_meta

POD = GroupVersionKind("", "v1", "Pod")
NUMBER_256 = "number 256 into Go struct field Secret.data of type uint8"
QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
CRD = "apiextensions.k8s.io/v1/CustomResourceDefinition"


def kind_of(name: str) -> GroupVersionKind:
    api_version, _, kind = name.rpartition("/")
    group, _, version = api_version.rpartition("/")
    return GroupVersionKind(group, version, kind)


def refusal(kind: str, data: JSON) -> str:
    with pytest.raises(StrictDecodingError) as raised:
        decode(kind_of(kind), Document.from_raw(json.dumps(data).encode())).strictly()
    return str(raised.value)


def schema(**properties: JSON) -> JSONObject:
    return {"spec": {"versions": [{"schema": {"openAPIV3Schema": properties}}]}}


WITHIN = "JSONSchemaProps.spec.versions.schema.openAPIV3Schema"


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("v1/Service", {"spec": {"type": 1}},
         "number into Go struct field ServiceSpec.spec.type of type v1.ServiceType"),
        ("v1/Service", {"spec": {"ports": [{"port": 1 << 31}]}},
         "number 2147483648 into Go struct field ServicePort.spec.ports.port of type int32"),
        ("v1/Service", {"spec": {"ports": [{"port": 80.0}]}},
         "number 80.0 into Go struct field ServicePort.spec.ports.port of type int32"),
        ("v1/Service", {"spec": {"ports": [{"targetPort": True}]}},
         "bool into Go struct field ServicePort.spec.ports.targetPort of type int32"),
        ("v1/Service", {"metadata": {"uid": 1}},
         "number into Go struct field ObjectMeta.metadata.uid of type types.UID"),
        ("v1/Secret", {"data": {"a": [1, 256]}}, NUMBER_256),
        ("v1/Secret", {"data": {"a": [1, []]}}, "array into Go struct field Secret.data of type uint8"),
        ("v1/Secret", {"data": {"a": {}}}, "object into Go struct field Secret.data of type []uint8"),
        ("v1/Secret", {"data": "x"}, "string into Go struct field Secret.data of type map[string][]uint8"),
        ("v1/Pod", {"spec": {"overhead": []}},
         "array into Go struct field PodSpec.spec.overhead of type v1.ResourceList"),
        ("v1/Pod", {"spec": {"terminationGracePeriodSeconds": "1"}},
         "string into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64"),
        ("networking.k8s.io/v1/Ingress", {"spec": {"rules": [{"http": {"paths": [{"path": 1}]}}]}},
         "number into Go struct field HTTPIngressPath.spec.rules.IngressRuleValue.http.paths.path of type string"),
        ("v1/Pod", {"metadata": {"creationTimestamp": 1}},
         "number into Go struct field ObjectMeta.metadata.creationTimestamp of type string"),
        (CRD, schema(items={"x-kubernetes-validations": [{"rule": 1}]}),
         f"number into Go struct field {WITHIN}.items.x-kubernetes-validations.rule of type string"),
        (CRD, schema(type=1), f"number into Go struct field {WITHIN}.type of type string"),
        ("v1/Pod", [], ""),
    ],
)  # fmt: skip
def test_a_value_of_the_wrong_type_is_refused_in_gos_words(kind: str, data: JSON, text: str) -> None:
    expected = text or "array into Go value of type v1.Pod"
    assert refusal(kind, data) == f"json: cannot unmarshal {expected}"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"metadata": {"name": 1, "labels": 2}}, "ObjectMeta.metadata.name of type string"),
        ({"bogus": 1, "metadata": {"labels": 2}}, "ObjectMeta.metadata.labels of type map[string]string"),
        ({"metadata": {"name": 1}, "spec": {"overhead": {"cpu": "much"}}}, QUANTITY),
        ({"spec": {"overhead": {"cpu": True}}}, QUANTITY),
    ],
)
def test_the_first_error_counts_but_for_types_that_read_themselves(data: JSON, text: str) -> None:
    assert refusal("v1/Pod", data).endswith(text)


@pytest.mark.parametrize(
    ("data", "paths"),
    [
        ({"spec": {"foo": 1}, "Kind": None}, ["spec.foo", "Kind"]),
        ({"spec": {"containers": [{"env": [{}, {"a b": 1}]}]}}, ["spec.containers[0].env[1].a b"]),
        ({f"x{n:03}": 1 for n in range(120)}, [f"x{n:03}" for n in range(100)]),
    ],
)
def test_unknown_fields_are_refused_in_their_order(data: JSON, paths: list[str]) -> None:
    fields = ", ".join(f'unknown field "{path}"' for path in paths)
    assert refusal("v1/Pod", data) == f"strict decoding error: {fields}"
    assert decode(POD, Document.from_data(data)).warnings == tuple(
        f'unknown field "{path}"' for path in paths
    )


def test_unknown_fields_of_a_schema_in_a_schema_are_dropped() -> None:
    decoded = decode(kind_of(CRD), Document.from_data(schema(items={"type": "string", "bogus": 1}, more=1)))
    assert decoded.data == schema(items={"type": "string"})
    assert decoded.unknown_fields == ("spec.versions[0].schema.openAPIV3Schema.more",)


@pytest.mark.parametrize(
    ("kind", "data", "decoded"),
    [
        ("v1/Pod", {"spec": None, "metadata": {"creationTimestamp": None, "labels": {"a": None}}},
         {"metadata": {"labels": {"a": ""}}}),
        ("v1/Pod", {"spec": {"containers": [{"args": [None]}, None]}}, {"spec": {"containers": [{"args": [""]}, {}]}}),
        ("v1/Pod", {"spec": {"overhead": {"cpu": 1.5, "memory": "1024Mi", "x": None}}},
         {"spec": {"overhead": {"cpu": "1500m", "memory": "1Gi", "x": "0"}}}),
        ("v1/Pod", {"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}}, {"metadata": {}}),
        ("v1/Pod", {"metadata": {"creationTimestamp": "2026-01-02T03:04:05.6+02:00"}},
         {"metadata": {"creationTimestamp": "2026-01-02T01:04:05Z"}}),
        ("coordination.k8s.io/v1/Lease", {"spec": {"renewTime": "2026-01-02T03:04:05.600000+00:00"}},
         {"spec": {"renewTime": "2026-01-02T03:04:05.600000Z"}}),
        ("v1/Secret", {"data": {"a": "YW\nI=", "b": [97, 98], "c": None}},
         {"data": {"a": "YWI=", "b": "YWI=", "c": None}}),
        ("apps/v1/ControllerRevision", {"data": {"a": None}, "revision": 1}, {"data": {"a": None}, "revision": 1}),
        (CRD, schema(default={"a": None}, items=True), schema(default={"a": None}, items=False)),
    ],
)  # fmt: skip
def test_values_come_out_as_go_writes_them(kind: str, data: JSON, decoded: JSON) -> None:
    assert decode(kind_of(kind), Document.from_data(data)).strictly() == decoded


def test_a_whole_number_is_a_float_where_the_type_is_one() -> None:
    written = schema(maximum=2**63 - 1, minimum=2**53)
    (version,) = decode(kind_of(CRD), Document.from_data(written)).data["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"] == {"maximum": float(2**63), "minimum": 2**53}


@pytest.mark.parametrize(("items", "kept"), [([], []), (5, False), (True, False), ("x", False)])
def test_what_is_no_schema_of_items_is_gone_once_it_is_stored(items: JSON, kept: JSON) -> None:
    decoded = decode(kind_of(CRD), Document.from_data(schema(type="array", items=items))).data
    assert decoded == schema(type="array", items=kept)
    assert without_empty_items(decoded) == schema(type="array")
    assert decoded == schema(type="array", items=kept)


def test_a_zero_that_go_omits_is_not_written() -> None:
    container = {"name": "c", "tty": False, "ports": [{"containerPort": 0, "hostPort": 0}]}
    spec = {"hostNetwork": False, "automountServiceAccountToken": False, "containers": [container]}
    found = decode(kind_of("v1/Pod"), Document.from_data({"spec": spec})).strictly()
    kept = {"name": "c", "ports": [{"containerPort": 0}]}
    assert found == {"spec": {"automountServiceAccountToken": False, "containers": [kept]}}


def test_a_time_is_quoted_with_the_bytes_of_what_is_not_ascii() -> None:
    text = refusal("v1/Pod", {"metadata": {"creationTimestamp": "\u00e9"}})
    assert text.startswith('parsing time "\\xc3\\xa9" as ')


LAYOUT, MICRO_LAYOUT = "2006-01-02T15:04:05Z07:00", "2006-01-02T15:04:05.000000Z07:00"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("today", f' as "{LAYOUT}": cannot parse "today" as "2006"'),
        ("2026-1-02T03:04:05Z", f' as "{LAYOUT}": cannot parse "1-02T03:04:05Z" as "01"'),
        ("2026-01-02T03:04:05", f' as "{LAYOUT}": cannot parse "" as "Z07:00"'),
        ("2026-13-02T03:04:05Z", ": month out of range"),
        ("2026-02-29T03:04:05Z", ": day out of range"),
        ("2026-02-28T24:04:05Z", ": hour out of range"),
        ("2026-02-28T23:04:05Zulu", ': extra text: "ulu"'),
        ("2026-02-28T23:04:05+25:00", ": time zone offset hour out of range"),
    ],
)
def test_a_text_that_is_no_time_is_refused_in_gos_words(text: str, problem: str) -> None:
    data = {"metadata": {"creationTimestamp": text}}
    assert refusal("v1/Pod", data) == f'parsing time "{text}"{problem}'


def test_a_text_that_is_no_time_is_quoted_byte_for_byte() -> None:
    text = refusal("v1/Pod", {"metadata": {"creationTimestamp": 'é"'}})
    assert text == rf'parsing time "\xc3\xa9\"" as "{LAYOUT}": cannot parse "\xc3\xa9\"" as "2006"'


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ('"1000m"', "1"), ('"1.500"', "1.500"), ('"1E3"', "1E3"), ('"+5"', "+5"), ('"007"', "007"), ('"1024Ki"', "1Mi"),
        ('"1025Ki"', "1025Ki"), ('" 0.5 "', "500m"), ("1e3", "1e3"), ("0.50", "500m"), ("1000", "1k"), ("0", "0"),
    ],
)  # fmt: skip
def test_a_quantity_is_written_as_go_writes_it(text: str, written: str) -> None:
    document = Document.from_raw(f'{{"spec": {{"overhead": {{"cpu": {text}}}}}}}'.encode())
    assert decode(POD, document).strictly() == {"spec": {"overhead": {"cpu": written}}}


def test_numbers_are_told_as_they_were_written() -> None:
    written = Document.from_raw(b'{"spec": {"priority": 1e2}}')
    with pytest.raises(
        StrictDecodingError, match=r"number 1e2 into Go struct field PodSpec\.spec\.priority of type int32"
    ):
        decode(POD, written).strictly()


def test_a_whole_float_that_kubectl_writes_is_an_integer() -> None:
    assert decode(POD, Document.from_data({"spec": {"priority": 80.0}})).strictly() == {
        "spec": {"priority": 80}
    }


def test_a_time_with_microseconds_needs_all_six_digits() -> None:
    text = "2026-01-02T03:04:05Z"
    assert refusal("coordination.k8s.io/v1/Lease", {"spec": {"renewTime": text}}) == (
        f'parsing time "{text}" as "{MICRO_LAYOUT}": cannot parse "Z" as ".000000"'
    )


def test_a_right_object_is_returned_as_it_is() -> None:
    pod = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "a", "stdin": True}], "priority": 1},
    }
    assert decode(POD, Document.from_data(pod)).strictly() is pod


def test_the_metadata_of_custom_resources_is_decoded_in_the_order_of_its_names() -> None:
    with pytest.raises(
        StrictDecodingError, match=r"^json: .* Go struct field ObjectMeta\.name of type string$"
    ):
        decode_object_meta({"namespace": 1, "name": 2})
    decoded = decode_object_meta({"name": "a", "b": 1, "a": 1, "labels": None})
    assert decoded.data == {"name": "a"}
    assert decoded.unknown_fields == ("metadata.a", "metadata.b")


def test_what_an_object_shares_with_one_that_was_decoded_is_not_decoded_again() -> None:
    decoded = {"spec": {"containers": [{"name": 1}]}}
    shared = {"spec": {**decoded["spec"], "hostname": "web"}, "metadata": {"name": "web"}}
    assert decode(POD, Document.from_data(shared), decoded).data == shared


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        (
            {"spec": {"hostname": 1}},
            "json: cannot unmarshal number into Go struct field PodSpec.spec.hostname of type string",
        ),
        (
            {"metadata": 1},
            "json: cannot unmarshal number into Go struct field Pod.metadata of type v1.ObjectMeta",
        ),
        (
            {"spec": {"containers": [{"name": "web", "image": 1}]}},
            "json: cannot unmarshal number into Go struct field Container.spec.containers.image of type string",
        ),
        ({"spec": {"oldname": "web"}}, 'strict decoding error: unknown field "spec.oldname"'),
    ],
)
def test_what_differs_from_an_object_that_was_decoded_is_decoded(changed: JSONObject, text: str) -> None:
    decoded: JSONObject = {"spec": {"containers": [{"name": "web"}]}, "metadata": {"name": "web"}}
    with pytest.raises(StrictDecodingError) as raised:
        decode(POD, Document.from_data({**decoded, **changed}), decoded).strictly()
    assert str(raised.value) == text
