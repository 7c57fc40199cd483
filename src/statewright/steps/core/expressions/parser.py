"""The grammar: a precedence climber over the tokens (spec/step-engine.md §10.4).

Precedence and associativity are those of the base language, oddities included: comparisons chain (``1 < x < 10``), a
prefix ``!`` binds tighter than ``==``, and ``??`` cannot be followed by another operator without parentheses.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from statewright.steps.core.expressions.errors import ExpressionError
from statewright.steps.core.expressions.kinds import GO_NAMES, binary_kind, unary_kind
from statewright.steps.core.expressions.literals import number_literal
from statewright.steps.core.expressions.precedence import BINARY, COMPARISONS, NEGATABLE, SYNONYMS, UNARY
from statewright.steps.core.expressions.signatures import SIGNATURES, Signature
from statewright.steps.core.expressions.syntax import (
    ArrayLiteral,
    Binary,
    Builtin,
    Call,
    Chain,
    Conditional,
    Constant,
    Element,
    Kind,
    Let,
    MapLiteral,
    Member,
    Name,
    Series,
    Slice,
    Syntax,
    Unary,
)
from statewright.steps.core.expressions.tokens import Token, tokens

NESTING_LIMIT: Final = 100
"""Deepest nesting of sub-expressions; a bound for the interpreter's stack."""

NODE_LIMIT: Final = 10_000
"""Most tokens of an expression, about the most nodes that the base language allows."""


_WORDS: Final[Mapping[str, Constant]] = {
    "true": Constant(value=True, kind="bool"),
    "false": Constant(value=False, kind="bool"),
    "nil": Constant(value=None, kind="nil"),
}


class Parsed(NamedTuple):
    """A syntax tree, and the names it refers to, each at its first place from left to right."""

    syntax: Syntax
    names: tuple[str, ...]


def parse(text: str) -> Parsed:
    """The syntax of a preprocessed expression. Raises :class:`ExpressionError`."""
    parser = _Parser(tokens(text))
    syntax = parser.series()
    if parser.current.kind != "end":
        raise parser.unexpected()
    return Parsed(syntax, tuple(dict.fromkeys(parser.names)))


class _Parser:
    def __init__(self, words: list[Token]) -> None:
        if len(words) > NODE_LIMIT:
            raise ExpressionError("expression exceeds maximum allowed nodes")
        self._words = words
        self._position = 0
        self._nesting = 0
        self._predicates = 0
        self.names: list[str] = []

    @property
    def current(self) -> Token:
        return self._words[self._position]

    def unexpected(self) -> ExpressionError:
        return ExpressionError(f"unexpected {self.current}")

    def series(self) -> Syntax:
        items = [self.expression(0)]
        while self._skip_operator(";"):
            if self.current.kind == "end":
                break
            items.append(self.expression(0))
        return items[0] if len(items) == 1 else Series(items=tuple(items), kind=items[-1].kind)

    def expression(self, lowest: int) -> Syntax:
        self._nesting += 1
        if self._nesting > NESTING_LIMIT:
            raise ExpressionError("expression is nested too deeply")
        if lowest == 0 and self._is_operator("let"):
            syntax = self._let()
        elif lowest == 0 and self._is_operator("if"):
            syntax = self._if()
        else:
            syntax = self._operators(lowest)
        self._nesting -= 1
        return syntax

    def _operators(self, lowest: int) -> Syntax:
        left = self._primary()
        previous = ""
        chained = 0
        while (operator := self._binary_ahead(lowest)) is not None:
            negated = self._skip_operator("not")
            if previous == "??" and operator != "??":
                raise ExpressionError(f"operator ({operator}) and coalesce expressions (??) cannot be mixed")
            self._advance()
            if operator == "|":
                chained += 1
                left = self._pipe(left, chained)
            elif operator in COMPARISONS:
                left = self._comparisons(left, operator)
            else:
                left = self._binary(operator, left)
            if negated:
                left = _unary("!", left)
            previous = operator
        return self._conditional(left) if lowest == 0 else left

    def _binary_ahead(self, lowest: int) -> str | None:
        """The binary operator that comes next if it binds at least as tight as ``lowest``."""
        word = self.current
        if word == Token("operator", "not"):
            word = self._words[self._position + 1]
            if word.kind != "operator" or word.text not in NEGATABLE:
                raise ExpressionError(f"unexpected {word}")
        precedence = BINARY.get(word.text) if word.kind == "operator" else None
        return word.text if precedence is not None and precedence.level >= lowest else None

    def _binary(self, operator: str, left: Syntax) -> Syntax:
        level, right_associative = BINARY[operator]
        right = self.expression(level if right_associative else level + 1)
        return _binary(SYNONYMS.get(operator, operator), left, right)

    def _comparisons(self, left: Syntax, operator: str) -> Syntax:
        """``a < b < c`` means ``a < b && b < c``."""
        whole: Syntax | None = None
        while True:
            right = self.expression(BINARY[operator].level + 1)
            comparison = _binary(operator, left, right)
            whole = comparison if whole is None else _binary("&&", whole, comparison)
            if self.current.kind != "operator" or self.current.text not in COMPARISONS:
                return whole
            left, operator = right, self.current.text
            self._advance()

    def _pipe(self, left: Syntax, chained: int) -> Syntax:
        if chained > NESTING_LIMIT:
            raise ExpressionError("expression is nested too deeply")
        return self._call(self._name(), (left,))

    def _conditional(self, condition: Syntax) -> Syntax:
        while self._skip_operator("?"):
            if self._skip_operator(":"):
                condition = _conditional(condition, condition, self.series())
                continue
            then = self.series()
            self._expect("operator", ":")
            condition = _conditional(condition, then, self.series())
        return condition

    def _let(self) -> Syntax:
        self._expect("operator", "let")
        name = self._name()
        self._expect("operator", "=")
        value = self.expression(0)
        self._expect("operator", ";")
        body = self.series()
        return Let(name=name, value=value, body=body, kind=body.kind)

    def _if(self) -> Syntax:
        self._expect("operator", "if")
        condition = self.expression(0)
        then = self._braced()
        self._expect("operator", "else")
        return _conditional(condition, then, self._if() if self._is_operator("if") else self._braced())

    def _braced(self) -> Syntax:
        self._expect("bracket", "{")
        syntax = self.series()
        self._expect("bracket", "}")
        return syntax

    def _primary(self) -> Syntax:
        word = self.current
        if word.kind == "operator" and word.text in UNARY:
            self._advance()
            return self._postfix(_unary(SYNONYMS.get(word.text, word.text), self.expression(UNARY[word.text])))
        if self._skip("bracket", "("):
            syntax = self.series()
            self._expect("bracket", ")")
            return self._postfix(syntax)
        if self._predicates and self._skip_operator("#"):
            return self._postfix(Element())
        if self._predicates and self._is_operator("."):
            return self._postfix(Element())
        if self._skip_operator("::"):
            return self._postfix(self._call(self._name(), ()))
        return self._operand()

    def _operand(self) -> Syntax:
        word = self.current
        match word.kind:
            case "name":
                return self._named()
            case "number":
                self._advance()
                return number_literal(word.text)
            case "string":
                self._advance()
                return self._postfix(Constant(value=word.text, kind="string"))
            case "bracket" if word.text == "[":
                return self._postfix(self._array())
            case "bracket" if word.text == "{":
                return self._postfix(self._map())
            case _:
                raise self.unexpected()

    def _named(self) -> Syntax:
        name = self._name()
        if name in _WORDS:
            return _WORDS[name]
        if self._is_bracket("("):
            return self._postfix(self._call(name, ()))
        self.names.append(name)
        return self._postfix(Name(name=name))

    def _call(self, name: str, given: tuple[Syntax, ...]) -> Syntax:
        signature = SIGNATURES.get(name)
        if signature is None:
            self.names.append(name)
            return Call(callee=Name(name=name), arguments=self._arguments(given))
        arguments = self._predicate_arguments(given) if signature.predicate else self._arguments(given)
        signature.check(name, len(arguments))
        if signature.is_test and len(arguments) > 1 and arguments[1].kind not in ("bool", "any"):
            raise ExpressionError(f"predicate should return boolean (got {GO_NAMES[arguments[1].kind]})")
        return Builtin(name=name, arguments=arguments, kind=_result_kind(signature, arguments))

    def _arguments(self, given: tuple[Syntax, ...]) -> tuple[Syntax, ...]:
        return (*given, *self._listed("(", ")"))

    def _predicate_arguments(self, given: tuple[Syntax, ...]) -> tuple[Syntax, ...]:
        """The second argument is applied to every element of the first."""
        arguments = list(given)
        self._expect("bracket", "(")
        while not self._skip("bracket", ")"):
            if len(arguments) > len(given):
                self._expect("operator", ",")
                if self._skip("bracket", ")"):
                    break
            arguments.append(self._predicate() if len(arguments) == 1 else self.expression(0))
        return tuple(arguments)

    def _predicate(self) -> Syntax:
        self._predicates += 1
        syntax = self._braced() if self._is_bracket("{") else self.expression(0)
        self._predicates -= 1
        return syntax

    def _array(self) -> Syntax:
        return ArrayLiteral(items=self._listed("[", "]"))

    def _listed(self, opening: str, closing: str) -> tuple[Syntax, ...]:
        """Expressions between brackets, separated by commas; one may follow the last."""
        items: list[Syntax] = []
        self._expect("bracket", opening)
        while not self._skip("bracket", closing):
            if items:
                self._expect("operator", ",")
                if self._skip("bracket", closing):
                    break
            items.append(self.expression(0))
        return tuple(items)

    def _map(self) -> Syntax:
        pairs: list[tuple[Syntax, Syntax]] = []
        self._expect("bracket", "{")
        while not self._skip("bracket", "}"):
            if pairs:
                self._expect("operator", ",")
                if self._skip("bracket", "}"):
                    break
            key = self._map_key()
            self._expect("operator", ":")
            pairs.append((key, self.expression(0)))
        return MapLiteral(pairs=tuple(pairs))

    def _map_key(self) -> Syntax:
        if self.current.kind in ("number", "string", "name"):
            key = Constant(value=self.current.text, kind="string")
            self._advance()
            return key
        if self._is_bracket("("):
            return self.expression(0)
        raise self.unexpected()

    def _postfix(self, base: Syntax) -> Syntax:
        links = 0
        while True:
            if self._is_operator(".") or self._is_operator("?."):
                base = self._dotted(base, optional=self.current.text == "?.")
            elif self._is_bracket("["):
                base = self._indexed(base, optional=False)
            else:
                return base
            links += 1
            if links > NESTING_LIMIT:
                raise ExpressionError("expression is nested too deeply")

    def _dotted(self, base: Syntax, *, optional: bool) -> Syntax:
        self._advance()
        if optional and self._is_bracket("["):
            return self._indexed(base, optional=True)
        word = self.current
        if word.kind != "name" and not (word.kind == "operator" and word.text.isidentifier()):
            raise self.unexpected()
        self._advance()
        chained = isinstance(base, Chain)
        inner = base.inner if isinstance(base, Chain) else base
        member: Syntax = Member(base=inner, key=Constant(value=word.text, kind="string"), optional=optional)
        if self._is_bracket("("):
            member = Call(callee=member, arguments=self._listed("(", ")"))
        return Chain(inner=member) if chained or optional else member

    def _indexed(self, base: Syntax, *, optional: bool) -> Syntax:
        self._expect("bracket", "[")
        start = None if self._is_operator(":") else self.expression(0)
        if start is not None and not self._is_operator(":"):
            self._expect("bracket", "]")
            member = Member(base=base, key=start, optional=optional)
            return Chain(inner=member) if optional else member
        self._expect("operator", ":")
        end = None if self._is_bracket("]") else self.expression(0)
        self._expect("bracket", "]")
        return Slice(base=base, start=start, end=end, kind=base.kind if base.kind in ("string", "array") else "any")

    def _name(self) -> str:
        if self.current.kind != "name":
            raise self.unexpected()
        name = self.current.text
        self._advance()
        return name

    def _is_operator(self, text: str) -> bool:
        return self.current == ("operator", text)

    def _is_bracket(self, text: str) -> bool:
        return self.current == ("bracket", text)

    def _skip_operator(self, text: str) -> bool:
        return self._skip("operator", text)

    def _skip(self, kind: str, text: str) -> bool:
        found = self.current == (kind, text)
        if found:
            self._advance()
        return found

    def _expect(self, kind: str, text: str) -> None:
        if not self._skip(kind, text):
            raise self.unexpected()

    def _advance(self) -> None:
        if self.current.kind != "end":
            self._position += 1


def _unary(operator: str, operand: Syntax) -> Syntax:
    return Unary(operator=operator, operand=operand, kind=unary_kind(operator, operand.kind))


def _binary(operator: str, left: Syntax, right: Syntax) -> Syntax:
    return Binary(operator=operator, left=left, right=right, kind=binary_kind(operator, left.kind, right.kind))


def _conditional(condition: Syntax, then: Syntax, otherwise: Syntax) -> Syntax:
    if condition.kind not in ("bool", "any"):
        raise ExpressionError(f"non-bool expression (type {GO_NAMES[condition.kind]}) used as condition")
    kind = then.kind if then.kind == otherwise.kind else "any"
    return Conditional(condition=condition, then=then, otherwise=otherwise, kind=kind)


def _result_kind(signature: Signature, arguments: tuple[Syntax, ...]) -> Kind:
    return arguments[0].kind if signature.like_first else signature.kind
