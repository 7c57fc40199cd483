"""XML as JSON: docs/reference/models.md#xml and docs/reference/models.md#xml."""

import time

import pytest

from statewright.jsonval.codec import decode
from statewright.schema import MalformedXml, xml_to_json
from statewright.schema.xml import MAX_NAMES


@pytest.mark.parametrize(
    ("document", "value"),
    [
        # the example of docs/reference/models.md#xml
        (
            '<order id="7"><line>a</line><line>b</line><note lang="en">hi</note></order>',
            '{"id":7,"line":["a","b"],"note":{"lang":"en","_text":"hi"}}',
        ),
        # the root
        ("<a>5</a>", '{"_value":5}'),
        ("<a> x </a>", '{"_value":"x"}'),
        ("<a/>", "{}"),
        ("<a> \n </a>", "{}"),
        ('<a b="1">x</a>', '{"b":1,"_text":"x"}'),
        ('<?xml version="1.0"?><!-- c --><?pi?><a/><!-- d -->', "{}"),
        # names
        ('<p:a xmlns:p="urn:p" xmlns="urn:q" p:b="1"><p:c>2</p:c></p:a>', '{"p":"urn:p","xmlns":"urn:q","b":1,"c":2}'),
        ("<a><p:b>1</p:b></a>", '{"b":1}'),
        # repetition
        ("<a><b>1</b><c>x</c><b>2</b></a>", '{"b":[1,2],"c":"x"}'),
        ('<a b="0"><b>1</b></a>', '{"b":[0,1]}'),
        ('<a p:b="0" q:b="1"/>', '{"b":[0,1]}'),
        ("<a><b/><b>1</b></a>", '{"b":[{},1]}'),
        ("<a>x<_text>y</_text></a>", '{"_text":["y","x"]}'),
        # text
        ("<a>  one <b/> two\n<b/> </a>", '{"b":[{},{}],"_text":"one two"}'),
        ("<a><b>x<![CDATA[ <y> ]]>&amp;</b></a>", '{"b":"x <y> &"}'),
        ("<a><b>x<!-- c -->y</b></a>", '{"b":"xy"}'),
        ("<a><b/></a>", '{"b":{}}'),
        ('<a><b c=" d "/></a>', '{"b":{"c":" d "}}'),
        # scalars
        (
            "<a><b>9007199254740993</b><c>1.50</c><d>-1e2</d><e>-0</e></a>",
            '{"b":9007199254740993,"c":1.50,"d":-1e2,"e":0}',
        ),
        *((f"<a><b>{text}</b></a>", '{"b":true}') for text in ("t", "T", "true", "True", "TRUE")),
        *((f"<a><b>{text}</b></a>", '{"b":false}') for text in ("f", "F", "false", "False", "FALSE")),
        *(
            (f"<a><b>{text}</b></a>", f'{{"b":"{text}"}}')
            for text in ("007", "+1", ".5", "1.", "NaN", "Infinity", "0x1F", "1 2", "tRUE", "null", "١", "2024-05-01")
        ),
        ('<a b="007" c="12" d="f"/>', '{"b":"007","c":12,"d":false}'),
    ],
)
def test_elements_and_attributes_become_members(document: str, value: str):
    assert repr(xml_to_json(document.encode())) == repr(decode(value))


def test_the_declared_encoding_is_respected():
    assert xml_to_json('<?xml version="1.0" encoding="ISO-8859-1"?><a b="é"/>'.encode("latin-1")) == {"b": "é"}
    assert xml_to_json('<?xml version="1.0" encoding="UTF-16"?><a b="é"/>'.encode("utf-16")) == {"b": "é"}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ("", "no element found (line 1, column 0)"),
        ("<a>", "no element found (line 1, column 3)"),
        ("<a></b>", "mismatched tag (line 1, column 5)"),
        ("{}", "not well-formed (invalid token) (line 1, column 0)"),
        ("<a/>x", "junk after document element (line 1, column 4)"),
        ('<a b="1" b="2"/>', "duplicate attribute (line 1, column 9)"),
        ("<a>&nope;</a>", "undefined entity (line 1, column 3)"),
        ('<?xml version="1.0" encoding="klingon"?><a/>', "unknown encoding: klingon"),
        ("<a><b><c>1e6145</c></b></a>", "number has an exponent outside ±6144 at b.c"),
        ('<a><b c="1e6145"/></a>', "number has an exponent outside ±6144 at b.c"),
        ("<a>1e6145</a>", "number has an exponent outside ±6144 at _value"),
        ("<a>" * 257 + "</a>" * 257, "nested more than 256 levels deep"),
        ("<a>" * 200 + "<a/>" + "</a><a/>" * 199 + "</a>", "nested more than 256 levels deep"),
    ],
)
def test_what_is_no_xml_or_no_json_is_refused_with_a_reason(document: str, reason: str):
    with pytest.raises(MalformedXml) as refusal:
        xml_to_json(document.encode())
    assert str(refusal.value) == reason


@pytest.mark.parametrize(
    "document",
    [
        '<!DOCTYPE a [<!ENTITY x "y">]><a>&x;</a>',
        '<!DOCTYPE a [<!ENTITY % x SYSTEM "file:///etc/hostname"> %x;]><a/>',
        '<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/hostname">]><a>&x;</a>',
        '<!DOCTYPE a SYSTEM "http://localhost/a.dtd"><a/>',
    ],
)
def test_a_document_cannot_declare_entities_or_refer_to_the_outside(document: str):
    with pytest.raises(MalformedXml, match="declarations of entities and external references are not allowed"):
        xml_to_json(document.encode())


@pytest.mark.parametrize(
    "document",
    [
        "<a " + " ".join(f'a{n}="{n}"' for n in range(200_000)) + "/>",
        "<a><" + "n" * 2_000_000 + "/></a>",
        "<a><!--" + "n" * 2_000_000 + "--></a>",
    ],
)
def test_a_tag_that_is_too_long_is_refused_before_it_is_read_to_its_end(document: str):
    taken = time.process_time()
    with pytest.raises(MalformedXml, match="a tag or comment is longer than 1048576 bytes"):
        xml_to_json(document.encode())
    assert time.process_time() - taken < 1.5


def test_long_tags_and_longer_texts_are_read():
    document = "<a " + " ".join(f'a{n}="{n}"' for n in range(20_000)) + f">{'x' * 5_000_000}</a>"
    assert xml_to_json(document.encode()) == {**{f"a{n}": n for n in range(20_000)}, "_text": "x" * 5_000_000}
    assert xml_to_json((f"<a>{' ' * 3_000_000}<b>1</b></a>").encode()) == {"b": 1}


@pytest.mark.parametrize(
    "text",
    [
        "<a>" + "".join(f'<v k{n}="7"/>' for n in range(MAX_NAMES)) + "</a>",
        "<a>" + "".join(f"<v{n}/>" for n in range(MAX_NAMES)) + "</a>",
    ],
)
def test_a_document_of_too_many_names_is_refused(text: str):
    with pytest.raises(MalformedXml, match="more than 100000 different names"):
        xml_to_json(text.encode())


def test_a_name_that_comes_again_and_again_is_an_array_of_all_its_values():
    assert xml_to_json(b'<a v="1"><v>2</v><w/><v><x>3</x></v></a>') == {"v": [1, 2, {"x": 3}], "w": {}}
