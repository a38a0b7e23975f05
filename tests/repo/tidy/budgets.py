"""Sizes: lines of a file and of a function, methods of a class, files of a folder."""

import ast
import collections
import re

from source_tree import C_SUFFIXES, code_only

FILE_LINES_MAX = 1000  # 400 are a hint to look for a file of its own (CONTRIBUTING.md)
ABI_LINES_MAX = 300  # include/gqsgd.h: what most callers need, from top to bottom
COLUMNS_MAX = 100
PUBLIC_METHODS_MAX = 20
METHODS_MAX = 40
FOLDER_FILES_MAX = 25
FUNCTION_LINES_MAX = 60
LONG_FUNCTION_LINES_MAX = 80  # with a comment `// long: reason` inside


def file_violations(name, text):
    """Sentences on a file that is too long or too wide."""
    lines = text.splitlines()
    found = []
    if len(lines) > FILE_LINES_MAX:
        found.append(f"{name}: {len(lines)} lines, at most {FILE_LINES_MAX}")
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS_MAX:
            found.append(f"{name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}")
    return found


def folder_violations(names):
    """Sentences on folders with too many files, of the paths of all files."""
    counts = collections.Counter(name.rpartition("/")[0] for name in names)
    return [f"{folder}: {count} files, at most {FOLDER_FILES_MAX}"
            for folder, count in counts.items() if count > FOLDER_FILES_MAX]


def class_violations(name, text):
    """Sentences on classes of a C++ or CUDA file with too many methods."""
    found = []
    for line, title, methods in c_classes(text):
        public = sum(1 for access in methods if access == "public")
        if public > PUBLIC_METHODS_MAX:
            found.append(f"{name}:{line}: {title} has {public} public methods, "
                         f"at most {PUBLIC_METHODS_MAX}")
        if len(methods) > METHODS_MAX:
            found.append(f"{name}:{line}: {title} has {len(methods)} methods, "
                         f"at most {METHODS_MAX}")
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


_CLASS = re.compile(r"(?<!enum )\b(class|struct)\s+(?:\[\[[^\]]*\]\]\s*|alignas\([^)]*\)\s*)*"
                    r"(\w+)(?:\s+final)?\s*(?::[^;{}()]*)?\{")
_LABEL = re.compile(r"\s*(public|private|protected)\s*")


def c_classes(text):
    """(line, name, access of each method) of every class.

    Constructors, the destructor, and what is deleted or defaulted are none.
    """
    code = _first_branches(code_only(text))
    for head in _CLASS.finditer(code):
        access = "private" if head.group(1) == "class" else "public"
        methods, depth, declaration = [], 0, ""
        for position, letter in enumerate(code[head.end():], head.end()):
            if letter == "{":
                depth += 1
            elif letter == "}":
                if depth == 0:
                    break
                depth -= 1
                initializes = code[position + 1:].lstrip()[:1] in (",", "{")  # a member
                if depth == 0 and not initializes and "(" in declaration:
                    methods += [access] * _is_method(declaration, head.group(2))
                    declaration = ""
            elif depth == 0 and letter == ";":
                if _is_method(declaration, head.group(2)):
                    methods.append(access)
                declaration = ""
            elif depth == 0 and letter == ":" and (label := _LABEL.fullmatch(declaration)):
                access, declaration = label.group(1), ""
            elif depth == 0:
                declaration += letter
        yield _line(code, head.start()), head.group(2), methods


def _is_method(declaration, class_name):
    text = re.sub(r"\[\[.*?\]\]|\balignas\([^)]*\)", " ", declaration, flags=re.DOTALL)
    while (shorter := re.sub(r"<[^<>()]*(?:\([^()]*\))?[^<>()]*>", " ", text)) != text:
        text = shorter
    if re.match(r"\s*(?:template\s*)?(?:friend|using|typedef|static_assert|enum|class|struct)\b",
                text):
        return False
    if re.search(r"=\s*(?:delete|default)\s*$", text):
        return False
    before, opening, after = text.partition("(")
    if re.search(rf"\b{class_name}\s*$", before):
        return False
    is_pointer = re.match(r"\s*(?:\w+::)?\*", after)
    return bool(opening) and not is_pointer and ("=" not in before or "operator" in before)


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
