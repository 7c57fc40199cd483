"""The grammar: a precedence climber over the tokens (docs/reference/steps.md#operators).

Precedence and associativity are those of the base language, oddities included: comparisons chain (``1 < x < 10``), a
prefix ``!`` binds tighter than ``==``, and ``??`` cannot be followed by another operator without parentheses.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from statewright.expressions.lexer import (
    BINARY,
    COMPARISONS,
    NEGATABLE,
    SYNONYMS,
    UNARY,
    ArrayLiteral,
    Binary,
    Builtin,
    Chain,
    Conditional,
    Constant,
    Element,
    Let,
    Lexeme,
    MapLiteral,
    MemberAccess,
    MethodCall,
    Name,
    Series,
    Slice,
    Syntax,
    Unary,
    ValueKind,
    parse_number_literal,
    tokenize,
)
from statewright.expressions.signatures import (
    CONTAINS,
    GO_NAMES,
    SIGNATURES,
    Signature,
    infer_binary_kind,
    infer_unary_kind,
)
from statewright.expressions.values import ExpressionError

MAX_NESTING: Final = 100
"""Deepest nesting of sub-expressions; a bound for the interpreter's stack."""


_KEYWORD_CONSTANTS: Final[Mapping[str, Constant]] = {
    "true": Constant(value=True, kind="bool"),
    "false": Constant(value=False, kind="bool"),
    "nil": Constant(value=None, kind="nil"),
}


class ParsedExpression(NamedTuple):
    """A syntax tree, the names it refers to, each once, in the order in which they first occur, and its tokens."""

    syntax: Syntax
    names: tuple[str, ...]
    tokens: int


def parse_syntax(text: str) -> ParsedExpression:
    """The syntax of an expression. Raises :class:`ExpressionError`."""
    tokens = tokenize(text)
    parser = _Parser(tokens)
    syntax = parser.parse_series()
    if parser.current.kind != "end":
        raise parser.syntax_error()
    return ParsedExpression(syntax, tuple(dict.fromkeys(parser.names)), len(tokens))


class _Parser:
    def __init__(self, words: list[Lexeme]) -> None:
        self._tokens = words
        self._position = 0
        self._nesting = 0
        self._predicate_depth = 0
        self.names: list[str] = []

    @property
    def current(self) -> Lexeme:
        return self._tokens[self._position]

    def syntax_error(self) -> ExpressionError:
        return ExpressionError(f"unexpected {self.current}")

    def parse_series(self) -> Syntax:
        items = [self.parse_expression(0)]
        while self._skip_operator(";"):
            if self.current.kind == "end":
                break
            items.append(self.parse_expression(0))
        return items[0] if len(items) == 1 else Series(items=tuple(items), kind=items[-1].kind)

    def parse_expression(self, lowest: int) -> Syntax:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise ExpressionError("expression is nested too deeply")
        if lowest == 0 and self._is_operator("let"):
            syntax = self._parse_let()
        elif lowest == 0 and self._is_operator("if"):
            syntax = self._parse_if()
        else:
            syntax = self._parse_operators(lowest)
        self._nesting -= 1
        return syntax

    def _parse_operators(self, lowest: int) -> Syntax:
        left = self._parse_primary()
        previous = ""
        chained = 0
        while (operator := self._peek_binary(lowest)) is not None:
            negated = self._skip_operator("not")
            if previous == "??" and operator != "??":
                raise ExpressionError(f"operator ({operator}) and coalesce expressions (??) cannot be mixed")
            self._advance()
            if operator == "|":
                chained += 1
                left = self._parse_pipe(left, chained)
            elif operator in COMPARISONS:
                left = self._parse_comparisons(left, operator)
            else:
                left = self._parse_binary(operator, left)
            if negated:
                left = _build_unary("!", left)
            previous = operator
        return self._parse_conditional(left) if lowest == 0 else left

    def _peek_binary(self, lowest: int) -> str | None:
        """The binary operator that comes next if it binds at least as tight as ``lowest``."""
        word = self.current
        if word == Lexeme("operator", "not"):
            word = self._tokens[self._position + 1]
            if word.kind != "operator" or word.text not in NEGATABLE:
                raise ExpressionError(f"unexpected {word}")
        precedence = BINARY.get(word.text) if word.kind == "operator" else None
        return word.text if precedence is not None and precedence.level >= lowest else None

    def _parse_binary(self, operator: str, left: Syntax) -> Syntax:
        level, right_associative = BINARY[operator]
        right = self.parse_expression(level if right_associative else level + 1)
        return _build_binary(SYNONYMS.get(operator, operator), left, right)

    def _parse_comparisons(self, left: Syntax, operator: str) -> Syntax:
        """``a < b < c`` means ``a < b && b < c``."""
        whole: Syntax | None = None
        while True:
            right = self.parse_expression(BINARY[operator].level + 1)
            comparison = _build_binary(operator, left, right)
            whole = comparison if whole is None else _build_binary("&&", whole, comparison)
            if self.current.kind != "operator" or self.current.text not in COMPARISONS:
                return whole
            left, operator = right, self.current.text
            self._advance()

    def _parse_pipe(self, left: Syntax, chained: int) -> Syntax:
        if chained > MAX_NESTING:
            raise ExpressionError("expression is nested too deeply")
        return self._parse_call(self._parse_name(), (left,))

    def _parse_conditional(self, condition: Syntax) -> Syntax:
        while self._skip_operator("?"):
            if self._skip_operator(":"):
                condition = _build_conditional(condition, condition, self.parse_series())
                continue
            then = self.parse_series()
            self._expect("operator", ":")
            condition = _build_conditional(condition, then, self.parse_series())
        return condition

    def _parse_let(self) -> Syntax:
        self._expect("operator", "let")
        name = self._parse_name()
        self._expect("operator", "=")
        value = self.parse_expression(0)
        self._expect("operator", ";")
        body = self.parse_series()
        return Let(name=name, value=value, body=body, kind=body.kind)

    def _parse_if(self) -> Syntax:
        self._expect("operator", "if")
        condition = self.parse_expression(0)
        then = self._parse_block()
        self._expect("operator", "else")
        return _build_conditional(condition, then, self._parse_if() if self._is_operator("if") else self._parse_block())

    def _parse_block(self) -> Syntax:
        self._expect("bracket", "{")
        syntax = self.parse_series()
        self._expect("bracket", "}")
        return syntax

    def _parse_primary(self) -> Syntax:
        word = self.current
        if word.kind == "operator" and word.text in UNARY:
            self._advance()
            return self._parse_postfix(
                _build_unary(SYNONYMS.get(word.text, word.text), self.parse_expression(UNARY[word.text]))
            )
        if self._skip("bracket", "("):
            syntax = self.parse_series()
            self._expect("bracket", ")")
            return self._parse_postfix(syntax)
        if self._predicate_depth and self._skip_operator("#"):
            return self._parse_postfix(Element())
        if self._predicate_depth and self._is_operator("."):
            return self._parse_postfix(Element())
        if self._skip_operator("::"):
            return self._parse_postfix(self._parse_call(self._parse_name(), ()))
        if self._skip_operator("contains"):
            return self._parse_postfix(self._parse_contains_call())
        return self._parse_operand()

    def _parse_operand(self) -> Syntax:
        word = self.current
        match word.kind:
            case "name":
                return self._parse_name_or_call()
            case "number":
                self._advance()
                return parse_number_literal(word.text)
            case "string":
                self._advance()
                return self._parse_postfix(Constant(value=word.text, kind="string"))
            case "bracket" if word.text == "[":
                return self._parse_postfix(self._parse_array())
            case "bracket" if word.text == "{":
                return self._parse_postfix(self._parse_map())
            case _:
                raise self.syntax_error()

    def _parse_name_or_call(self) -> Syntax:
        name = self._parse_name()
        if name in _KEYWORD_CONSTANTS:
            return _KEYWORD_CONSTANTS[name]
        if self._is_bracket("("):
            return self._parse_postfix(self._parse_call(name, ()))
        self.names.append(name)
        return self._parse_postfix(Name(name=name))

    def _parse_call(self, name: str, given: tuple[Syntax, ...]) -> Syntax:
        signature = SIGNATURES.get(name)
        if signature is None:
            self.names.append(name)
            return MethodCall(callee=Name(name=name), arguments=self._parse_arguments(given))
        tokens = 0
        if signature.predicate:
            arguments, tokens = self._parse_predicate_arguments(given)
        else:
            arguments = self._parse_arguments(given)
        signature.check(name, arguments)
        if signature.is_test and len(arguments) > 1 and arguments[1].kind not in ("bool", "any"):
            raise ExpressionError(f"predicate should return boolean (got {GO_NAMES[arguments[1].kind]})")
        kind = _result_kind(signature, arguments)
        return Builtin(name=name, arguments=arguments, kind=kind, predicate_tokens=tokens)

    def _parse_contains_call(self) -> Syntax:
        """``contains(xs, x)`` is ``x in xs``, which is how the format spells it."""
        if not self._is_bracket("("):
            raise ExpressionError('unexpected operator "contains"')
        arguments = self._parse_list("(", ")")
        CONTAINS.check("contains", arguments)
        collection, element = arguments
        return _build_binary("in", element, collection)

    def _parse_arguments(self, given: tuple[Syntax, ...]) -> tuple[Syntax, ...]:
        return (*given, *self._parse_list("(", ")"))

    def _parse_predicate_arguments(self, given: tuple[Syntax, ...]) -> tuple[tuple[Syntax, ...], int]:
        """The arguments of a function whose second argument is a predicate for the elements of the first, and the
        tokens of that.
        """
        arguments, tokens = list(given), 0
        self._expect("bracket", "(")
        while not self._skip("bracket", ")"):
            if len(arguments) > len(given):
                self._expect("operator", ",")
                if self._skip("bracket", ")"):
                    break
            start = self._position
            arguments.append(self._parse_predicate() if len(arguments) == 1 else self.parse_expression(0))
            tokens = self._position - start if len(arguments) == 2 else tokens
        return tuple(arguments), tokens

    def _parse_predicate(self) -> Syntax:
        self._predicate_depth += 1
        syntax = self._parse_block() if self._is_bracket("{") else self.parse_expression(0)
        self._predicate_depth -= 1
        return syntax

    def _parse_array(self) -> Syntax:
        return ArrayLiteral(items=self._parse_list("[", "]"))

    def _parse_list(self, opening: str, closing: str) -> tuple[Syntax, ...]:
        """Expressions between brackets, separated by commas; a comma may follow the last."""
        items: list[Syntax] = []
        self._expect("bracket", opening)
        while not self._skip("bracket", closing):
            if items:
                self._expect("operator", ",")
                if self._skip("bracket", closing):
                    break
            items.append(self.parse_expression(0))
        return tuple(items)

    def _parse_map(self) -> Syntax:
        pairs: list[tuple[Syntax, Syntax]] = []
        self._expect("bracket", "{")
        while not self._skip("bracket", "}"):
            if pairs:
                self._expect("operator", ",")
                if self._skip("bracket", "}"):
                    break
            key = self._parse_map_key()
            self._expect("operator", ":")
            pairs.append((key, self.parse_expression(0)))
        return MapLiteral(pairs=tuple(pairs))

    def _parse_map_key(self) -> Syntax:
        if self.current.kind in ("number", "string", "name"):
            key = Constant(value=self.current.text, kind="string")
            self._advance()
            return key
        if self._is_bracket("("):
            return self.parse_expression(0)
        raise self.syntax_error()

    def _parse_postfix(self, base: Syntax) -> Syntax:
        links = 0
        while True:
            if self._is_operator(".") or self._is_operator("?."):
                base = self._parse_member(base, optional=self.current.text == "?.")
            elif self._is_bracket("["):
                base = self._parse_index(base, optional=False)
            else:
                return base
            links += 1
            if links > MAX_NESTING:
                raise ExpressionError("expression is nested too deeply")

    def _parse_member(self, base: Syntax, *, optional: bool) -> Syntax:
        self._advance()
        if optional and self._is_bracket("["):
            return self._parse_index(base, optional=True)
        word = self.current
        if word.kind != "name" and not (word.kind == "operator" and word.text.isidentifier()):
            raise self.syntax_error()
        self._advance()
        chained = isinstance(base, Chain)
        inner = base.inner if isinstance(base, Chain) else base
        member: Syntax = MemberAccess(base=inner, key=Constant(value=word.text, kind="string"), optional=optional)
        if self._is_bracket("("):
            member = MethodCall(callee=member, arguments=self._parse_list("(", ")"))
        return Chain(inner=member) if chained or optional else member

    def _parse_index(self, base: Syntax, *, optional: bool) -> Syntax:
        self._expect("bracket", "[")
        start = None if self._is_operator(":") else self.parse_expression(0)
        if start is not None and not self._is_operator(":"):
            self._expect("bracket", "]")
            if base.kind == "string":  # the base language indexes texts of variables only
                raise ExpressionError(f"type string[{GO_NAMES[start.kind]}] is undefined")
            member = MemberAccess(base=base, key=start, optional=optional)
            return Chain(inner=member) if optional else member
        self._expect("operator", ":")
        end = None if self._is_bracket("]") else self.parse_expression(0)
        self._expect("bracket", "]")
        return Slice(base=base, start=start, end=end, kind=base.kind if base.kind in ("string", "array") else "any")

    def _parse_name(self) -> str:
        if self.current.kind != "name":
            raise self.syntax_error()
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
            raise self.syntax_error()

    def _advance(self) -> None:
        if self.current.kind != "end":
            self._position += 1


def _build_unary(operator: str, operand: Syntax) -> Syntax:
    return Unary(operator=operator, operand=operand, kind=infer_unary_kind(operator, operand.kind))


def _build_binary(operator: str, left: Syntax, right: Syntax) -> Syntax:
    return Binary(operator=operator, left=left, right=right, kind=infer_binary_kind(operator, left.kind, right.kind))


def _build_conditional(condition: Syntax, then: Syntax, otherwise: Syntax) -> Syntax:
    if condition.kind not in ("bool", "any"):
        raise ExpressionError(f"non-bool expression (type {GO_NAMES[condition.kind]}) used as condition")
    kind = then.kind if then.kind == otherwise.kind else "any"
    return Conditional(condition=condition, then=then, otherwise=otherwise, kind=kind)


def _result_kind(signature: Signature, arguments: tuple[Syntax, ...]) -> ValueKind:
    return arguments[0].kind if signature.like_first else signature.kind
