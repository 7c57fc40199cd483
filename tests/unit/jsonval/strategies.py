"""Random JSON: values, and texts of them that differ in white space, escapes, number spelling and order."""

import json
from decimal import Decimal
from random import Random

from hypothesis import strategies as st

from statewright.jsonval.values import JsonValue

_AWKWARD = [
    "",
    "a",
    "b",
    "a:b",
    ":",
    '":',
    "\\",
    '"',
    "/",
    "u0000",
    "u003a",
    "\\u003a",
    "\u2028",
    "é",
    "😀",
    "{[",
    "<&>",
]


def names() -> st.SearchStrategy[str]:
    return st.sampled_from(_AWKWARD) | st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=5)


def integers() -> st.SearchStrategy[int]:
    edges = [edge + step for power in (31, 63, 127, 300) for edge in (2**power, -(2**power)) for step in (-1, 0, 1)]
    return st.integers(-1000, 1000) | st.sampled_from(edges) | st.integers()


@st.composite
def decimals(draw: st.DrawFn) -> Decimal:
    """Numbers that a literal with a fraction or an exponent denotes, at most ±6144 away from the point."""
    digits = draw(st.integers(0, 10**40))
    exponent = draw(st.integers(-6144, 6000) | st.integers(-25, -1))
    return Decimal((draw(st.sampled_from((0, 1))), tuple(map(int, str(digits))), exponent))


def scalars() -> st.SearchStrategy[JsonValue]:
    return st.none() | st.booleans() | integers() | decimals() | names()


def values(leaves: st.SearchStrategy[JsonValue] | None = None) -> st.SearchStrategy[JsonValue]:
    return st.recursive(
        scalars() if leaves is None else leaves,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(names(), inner, max_size=4),
        max_leaves=12,
    )


def spellings(value: JsonValue) -> st.SearchStrategy[str]:
    """Texts that denote the value. One seed decides all the choices: drawing each would take most of the test time."""
    return st.integers(0, 2**32).map(lambda seed: spell(value, Random(seed)))


def spell(value: JsonValue, random: Random) -> str:
    """One of the many texts that denote the value."""
    space = "".join(random.choices(["", " ", "\n", "\t", "\r\n"], [8, 1, 1, 1, 1], k=2))
    if isinstance(value, dict):
        pairs = [f"{spell(name, random)}:{spell(member, random)}" for name, member in value.items()]
        random.shuffle(pairs)
        text = "{" + space + ",".join(pairs) + "}"
    elif isinstance(value, list):
        text = "[" + space + ",".join(spell(item, random) for item in value) + "]"
    elif isinstance(value, str):
        text = '"' + "".join(random.choice(_spelled_characters(character)) for character in value) + '"'
    elif isinstance(value, Decimal):
        text = random.choice(_spelled_decimals(value))
    else:
        text = json.dumps(value)
    return space + text + space


def _spelled_characters(character: str) -> list[str]:
    units = character.encode("utf-16-be").hex()
    escape = "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
    forms = [escape, escape.upper().replace("U", "u")]
    if character in '"\\/':
        forms.append(f"\\{character}")
    if character not in '"\\' and character >= " ":
        forms += [character] * 4
    return forms


def _spelled_decimals(value: Decimal) -> list[str]:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    mantissa = "-" * sign + ("".join(map(str, digits)).lstrip("0") or "0")
    forms = [f"{mantissa}e{exponent}", f"{mantissa}E{exponent:+}"]
    return [*forms, f"{value:f}"] if -40 < exponent < 0 else forms
