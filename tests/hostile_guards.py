"""Guards that would take long if their work were not counted, for each entry of their tables."""

import random
from collections.abc import Iterator, Mapping

MANY = "$.numbers[*]"
WORST: Mapping[str, tuple[str, ...]] = {
    "length": ("$.wide.length()", "$.numbers[*].length()"),
    "keys": ("$..keys()[?(@=1)]", "$.numbers[*][?($.object.keys()=1)]"),
    "values": ("$.numbers[*][?($.object.values()=1)]",),
    "entries": ("$.numbers[*][?($.object.entries()=1)]",),
    "charAt": ("$.numbers[*][?($.wide.charAt(999999)=1)]",),
    "substring": ("$.numbers[*][?($.wide.substring(1)=1)]", "$.texts[*][?(@.substring(1)=1)]"),
    "=": ("$.nested[?(@=$.twin)]", "$.numbers[*][?($.nested=$.twin)]", "$.texts[*][?(@=$.plain)]"),
    "==": ("$.object[?($.object==$.numbers)]", "$.numbers[*][?($.plain==$.plain and 1=2)]"),
    "!=": ("$.numbers[*][?($.nested!=$.twin)]", "$.numbers[*][?($.object!=$.object)]"),
    "<": ("$.numbers[*][?($.wholes[*]<$.fractions[*])]", "$.numbers[*][?(@<0)]"),
    "<=": ("$.numbers[*][?($.whole<=$.fraction)]",),
    ">": ("$.numbers[*][?($.fraction>$.whole)]",),
    ">=": ("$.numbers[*][?($.fractions[*]>=$.wholes[*])]",),
}  # fmt: skip
"""The worst admissible inputs of each entry: most of them select nothing, so that all is looked at."""

PARTS = (
    "$[*][?(" + " or ".join(["@.a=1"] * 450) + ")]", MANY + "[?(" + " or ".join(["@.a=1"] * 450) + ")]",
    MANY + "[?(" + " or ".join(["false"] * 450) + ")]", MANY + "[?(" + "!" * 4_000 + "@.a)]",
    MANY + "[?(" + " or ".join(["$=1"] * 500) + ")]", "$" + "..*" * 40 + ".x", "$" + "..*[?($.a)]" * 30,
    "$.numbers[" + "$," * 1_900 + "1].x", "$.numbers[-1:0:-1].x", "$.numbers[::1].x", "$..numbers.x", "$..*",
    MANY + "[?(@=[" + "1," * 1_900 + "1])]", MANY + "[?(" + "(" * 25 + "@.a" + ")" * 25 + ")]", "$" + ".a" * 2_000,
    MANY + "[?($.numbers[$.n]=0 and 1=2)]", "$.numbers[$.numbers[*]].x", MANY + "[?($.nested[*][*][*]=$.twin)]",
    MANY + "[?(not @=@)]", "$.numbers[?(@.length()=0)]", MANY + '[?(@="' + "a" * 3_000 + '")]',
)  # fmt: skip
"""Forms of the language that are no entries of a table."""


def iterate_shapes() -> Iterator[str]:
    for guards in (*WORST.values(), PARTS):
        yield from guards


def generate_guards(seed: int, count: int) -> Iterator[str]:
    """Filters within filters, over what worst inputs look at."""
    rng = random.Random(seed)
    shapes = [shape for shape in iterate_shapes() if len(shape) < 400]
    wraps = ("$..*[?({})]", "$.numbers[*][?({} and 1=2)]", "$.nested[*][?(not {})]", "$.numbers[*][?({} or {})]",
             "$.texts[*][?({}={})]", "$.object[?({}!={})]", "$.numbers[{},{}]", "$.fractions[*][?(@<{})]")  # fmt: skip
    for _ in range(count):
        shape = rng.choice(shapes)
        for _ in range(rng.randint(1, 2)):
            wrap = rng.choice(wraps)
            shape = wrap.format(*(shape if index == 0 else rng.choice(shapes) for index in range(wrap.count("{}"))))
        yield shape
