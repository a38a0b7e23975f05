"""Sizes: lines of a file, columns of a line, lines of a function."""

import ast
import re

from source_tree import C_SUFFIXES, code_only

FILE_LINES_MAX = 400
ABI_LINES_MAX = 300  # include/gqsgd.h: what most callers need, from top to bottom
COLUMNS_MAX = 100
FUNCTION_LINES_MAX = 60
LONG_FUNCTION_LINES_MAX = 80  # with a comment `// long: reason` inside


def file_violations(name, text):
    """Sentences on a file that is too long or too wide."""
    lines = text.splitlines()
    found = []
    allowed = ABI_LINES_MAX if name == "include/gqsgd.h" else FILE_LINES_MAX
    if len(lines) > allowed:
        found.append(f"{name}: {len(lines)} lines, at most {allowed}")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            found.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}")
    return found


def function_violations(name, text):
    """Sentences on functions of a C, C++, CUDA or Python file that are too long."""
    is_c = "." + name.rpartition(".")[2] in C_SUFFIXES
    functions, mark = (c_functions, "// long: ") if is_c else (python_functions, "# long: ")
    lines = text.splitlines()
    found = []
    for first, last, title in functions(text):
        reasoned = any(mark in line for line in lines[first - 1:last])
        allowed = LONG_FUNCTION_LINES_MAX if reasoned else FUNCTION_LINES_MAX
        if last - first + 1 > allowed:
            found.append(f"{name}:{first}: {title} has {last - first + 1} lines, at most {allowed}")
    return found


def python_functions(text):
    """(first line of code, last line, name) of every function; the docstring does not count."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = node.body[1:] if ast.get_docstring(node) and node.body[1:] else node.body
            yield body[0].lineno, node.end_lineno, node.name


_SCOPE = re.compile(r"\s*(?:inline\s+|typedef\s+)?(?:namespace|class|struct|union|enum|extern)\b")
_ACCESS = re.compile(r"\s*(?:public|private|protected)\s*")
_TEMPLATE = re.compile(r"template\s*<[^<>]*(?:<[^<>]*>[^<>]*)*>")
_ENDS_LIKE_FUNCTION = re.compile(r"\)\s*(?:const|noexcept|override|final|\s)*$")


def c_functions(text):
    """(first line, last line, head) of every function body found by its braces.

    A brace opens a scope (namespace, class), a function, or neither (initializers, statements).
    """
    code = _first_branches(code_only(text))
    stack, head_start, function_start = [], 0, 0
    for position, letter in enumerate(code):
        if letter == "{":
            kind = "inside" if "function" in stack else _kind(code[head_start:position])
            if kind == "function":
                function_start = head_start + _leading_blanks(code[head_start:])
            elif kind == "scope":
                head_start = position + 1
            stack.append(kind)
        elif letter == "}":
            if not stack:
                raise ValueError(f"line {_line(code, position)}: a brace too many")
            kind = stack.pop()
            if kind == "function":
                if code[position + 1:].lstrip()[:1] in (",", "{"):
                    continue  # a member initializer; the body is still to come
                head = " ".join(code[function_start:position].partition("{")[0].split())
                yield _line(code, function_start), _line(code, position), head
            if "function" not in stack:
                head_start = position + 1
        elif letter in ";:" and "function" not in stack:
            if letter == ";" or _ACCESS.fullmatch(code[head_start:position]):
                head_start = position + 1
    if stack:
        raise ValueError("braces do not balance")


def _kind(head):
    head = _TEMPLATE.sub(" ", head)
    if _SCOPE.match(head) and not _ENDS_LIKE_FUNCTION.search(head):
        return "scope"
    return "function" if "(" in head and not head.rstrip().endswith("=") else "initializer"


def _first_branches(code):
    """Without preprocessor lines and #else branches, whose braces would be counted twice."""
    kept, branches, continued = [], [], False
    for line in code.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)", line)
        if directive:
            word = directive.group(1)
            if word in ("if", "ifdef", "ifndef"):
                branches.append(True)
            elif word in ("else", "elif") and branches:
                branches[-1] = False
            elif word == "endif" and branches:
                branches.pop()
        blank = bool(directive) or continued or not all(branches)
        continued = (bool(directive) or continued) and line.endswith("\\")
        kept.append(" " * len(line) if blank else line)
    return "\n".join(kept)


def _leading_blanks(text):
    return len(text) - len(text.lstrip())


def _line(code, position):
    return code.count("\n", 0, position) + 1
