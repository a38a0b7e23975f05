"""Reference pages out of the header's comments and the docstrings of both packages."""

import ast
import re
import textwrap

COLUMNS_MAX = 88  # of a line of code that a page shows whole

# Modules of the Python package that users name, in the order of their pages.
PYTHON_MODULES = ["quantizer", "presets", "communicator", "collectives/array",
                  "collectives/segments", "collectives/request", "stats", "threads", "transport",
                  "nccl", "network/groups", "network/elastic", "simulate", "stages",
                  "theory", "errors", "library", "log", "torch/hook", "torch/operators",
                  "torch/groups", "torch/fsdp", "torch/policy", "torchft/process_group",
                  "torchft/policy", "jax/collective", "jax/groups", "jax/state"]
JULIA_FILES = ["quantizer", "comm", "nccl", "network", "elastic", "collectives", "segments",
               "request", "local", "theory", "Stages", "errors", "arrays", "GQSGD", "ABI"]


def write(root, folder):
    """Writes c.md, python.md and julia.md into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    pages = {"c": c_page, "python": python_page, "julia": julia_page}
    for name, page in pages.items():
        text = page(root)
        path = folder / f"{name}.md"
        if not path.exists() or path.read_text() != text:  # kept as it is, it is not built again
            path.write_text(text)


def version(root):
    return re.search(r"version: '(.*?)'", (root / "meson.build").read_text())[1]


C_HEADERS = ["gqsgd.h", "gqsgd_stages.h", "gqsgd_model.h", "gqsgd_log.h", "gqsgd_transport.h",
             "gqsgd_network.h", "gqsgd_elastic.h", "gqsgd_nccl.h"]

# Preprocessor lines, but for macros of several lines; what is left are headings, comments, and
# declarations up to the end of their last line.
_DIRECTIVE = re.compile(r"^#(?!define .*\\$).*\n", re.MULTILINE)
_PART = re.compile(
    r"""^/\*\ ----\ (?P<section>[^\n]*?)\ -+\ \*/
      | ^/\*(?P<comment>(?:(?!\*/).)*)\*/
      | ^(?P<code>(?: typedef\ (?:struct|enum(?:\ GQSGD_ENUM_TYPE)?)\ \{(?:[^\n]+|\n.*?^)\}\s*\w+;
                  | enum\s*\{.*?\};
                  | \#define\ (?:[^\n]*\\\n)+ | typedef\b[^;{]*;
                  | [a-z][^;{}]*\([^;{}]*\);)[^\n]*)""",
    re.DOTALL | re.MULTILINE | re.VERBOSE)


def c_page(root):
    """Sections of the headers, each declaration under the comment that explains it."""
    parts = ["# C reference\n\nC99 and C++; link with `pkg-config --cflags --libs gqsgd`. "
             "[C and C++](../../../docs/C_API.md) has the fine print.\n"]
    for name in C_HEADERS:
        text = (root / "include" / name).read_text()
        opening = re.match(r"/\*(.*?)\*/", text, re.DOTALL)
        parts.append(f"## {name}\n\n{_prose(opening[1])}\n")
        parts += _c_entries(_DIRECTIVE.sub("", text[opening.end():]))
    return "\n".join(parts)


def _c_entries(text):
    """Headings, prose, and entries: declarations without an empty line between them are one."""
    parts, code, prose, end, level = [], [], "", 0, "###"
    for found in [*_PART.finditer(text), None]:
        if code and (not found or not found["code"] or "\n\n" in text[end:found.start()]):
            parts.append(_c_entry(level, "\n".join(code), prose))
            code, prose = [], ""
        if not found:
            return parts
        end = found.end()
        if found["section"]:
            parts.append(f"### {found['section']}\n")
            level = "####"  # of entries in a section
        elif found["code"]:
            code.append(found["code"].strip())
        elif found["comment"].startswith("*"):
            prose = _prose(found["comment"][1:])
        else:
            parts.append(_prose(found["comment"]))
    return parts


def _c_entry(level, code, prose):
    return f"{level} {_title(code)}\n\n```c\n{code}\n```\n\n{prose}"


def _title(code):
    """The names that are declared, separated by commas."""
    macros = re.findall(r"^#define (\w+)", code)
    if macros:
        return macros[0]
    functions = re.findall(r"^[a-z][^;{}()]*?(\w+)\([^;]*?\);", code, re.MULTILINE)
    if functions and not code.startswith("typedef"):
        return ", ".join(functions)
    named = (r"\}\s*(\w+);$", r"\(\*(\w+)\)", r"(GQSGD_[A-Z0-9_]+)", r"(\w+);")
    if code.startswith("typedef") and "{" not in code and "(*" not in code:
        return ", ".join(re.findall(r"(\w+);", code))
    return next(found[1] for pattern in named if (found := re.search(pattern, code)))


def _prose(comment):
    """A comment of C as Markdown."""
    first, *rest = [re.sub(r"^\s*\* ?", "", line) for line in comment.strip().split("\n")]
    return markdown(first + "\n" + textwrap.dedent("\n".join(rest)))


# An argument with what is said of it, or in a column beside it after its direction.
_ITEM = re.compile(r"^([a-z]\w*(?:, [a-z]\w*)*)(?:: +(?=\S)| +(?=\[(?:in|out|in, out)\] ))")


def markdown(text):
    """A comment or docstring as Markdown: paragraphs that wrap and lists of arguments; what stands
    in columns, and examples, as it stands."""
    blocks = []  # [kind, lines]
    for number, paragraph in enumerate(re.split(r"\n[ \t]*\n", text.strip("\n"))):
        runs = _runs(paragraph.split("\n"), items_allowed=number > 0)
        if blocks and blocks[-1][0] == runs[0][0] == "code":  # an example with an empty line in it
            blocks[-1][1].extend(["", *runs.pop(0)[1]])
        blocks += runs
    return "\n\n".join(_WRITTEN[kind](lines) for kind, lines in blocks) + "\n"


def _runs(lines, items_allowed):
    """[[kind, lines]] of a paragraph: "prose", "items" or "code", which stands as it is."""
    runs = []
    for line in lines:
        last = runs[-1][0] if runs else ""
        if _begins_item(line, items_allowed):
            kind = "items"
        elif _has_columns(line):
            kind = "code"
        elif line.startswith("  "):
            kind = last if last in ("items", "code") else "code"
        elif last == "items" and not runs[-1][1][-1].endswith((".", ":")):
            kind = "items"  # its sentence goes on
        else:
            kind = "prose"
        if kind == last:
            runs[-1][1].append(line)
        else:
            runs.append([kind, [line]])
    return runs


def _begins_item(line, after_colon):
    """Whether it has an argument and its direction, or, if `after_colon`, a name and a colon."""
    found = _ITEM.match(line)
    return found is not None and (after_colon or ":" not in found[0])


def _has_columns(line):
    return re.search(r"\S {2,}\S", line) is not None and re.search(r"[.:;] {2}\S", line) is None


def _items(lines):
    entries = []
    for line in lines:
        if entries and not _ITEM.match(line):
            entries[-1] += " " + line.strip()
        else:
            entries.append(line)
    parts = [(_ITEM.match(entry)[1], entry[_ITEM.match(entry).end():]) for entry in entries]
    return "\n".join(f"- `{name}`: {_escaped(text)}" for name, text in parts)


def _escaped(text):
    """Prose without what Markdown would read as its own, names of the C ABI as code."""
    spans = re.split(r"(`[^`]*`)", text)
    for k in range(0, len(spans), 2):
        plain = re.sub(r"([\\*_\[\]<>#|$~^{}])", r"\\\1", spans[k])
        spans[k] = re.sub(r"\b(?:gqsgd|GQSGD)(?:\\_\w+)+(?:\(\)|\.h\b)?",
                          lambda name: "`" + name[0].replace("\\", "") + "`", plain)
    return "".join(spans)


def _code(lines):
    return "```text\n" + textwrap.dedent("\n".join(lines)) + "\n```"


def _paragraph(lines):
    return _escaped(" ".join(map(str.strip, lines)))


_WRITTEN = {"prose": _paragraph, "items": _items, "code": _code}


def python_page(root):
    """Public classes and functions with their docstrings, module by module."""
    parts = ["# Python reference\n\n`import gqsgd`; what PyTorch and JAX need is in `gqsgd.torch` "
             "and `gqsgd.jax`.\n"]
    public = _public_names(root)
    for name in PYTHON_MODULES:
        path = root / "bindings" / "python" / "gqsgd" / f"{name}.py"
        tree = ast.parse(path.read_text())
        module = f"gqsgd.{name}".replace("/", ".")
        parts.append(f"## {module}\n\n{markdown(ast.get_docstring(tree))}")
        for node in tree.body:
            if getattr(node, "name", None) in public:
                parts += _python_entry(node, "")
    return "\n".join(parts)


def _public_names(root):
    """What the packages export, and the methods that a communicator inherits."""
    folder = root / "bindings" / "python" / "gqsgd"
    text = (folder / "__init__.py").read_text()
    names = set(re.findall(r" import (\w*[a-z]\w*) as \1$", text, re.MULTILINE))
    names |= {"ArrayCollectives", "SegmentCollectives", "NcclGroups", "NetworkGroups",
              "ElasticGroups", "VerifiedGroups"}
    for package in ("torch", "torchft", "jax"):
        text = (folder / package / "__init__.py").read_text()
        names |= set(re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", text, re.DOTALL)[1]))
    return names


def _python_entry(node, owner):
    kinds = ast.ClassDef, ast.FunctionDef
    if not isinstance(node, kinds) or node.name.startswith("_") or not ast.get_docstring(node):
        return []
    name = f"{owner}{node.name}"
    parts = [f"### {name}\n\n```python\n{_signature(node, name)}\n```\n\n"
             f"{markdown(ast.get_docstring(node))}"]
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            parts += _python_entry(inner, f"{name}.")
    return parts


def _signature(node, name):
    """How it is called; of a property its name; of a class that users do not make themselves, what
    it is derived from."""
    if isinstance(node, ast.FunctionDef):
        is_property = "property" in map(ast.unparse, node.decorator_list)
        return name if is_property else _call(name, node)
    made = next((inner for inner in node.body if getattr(inner, "name", "") == "__init__"), None)
    if made is not None and "handle" not in [argument.arg for argument in made.args.args]:
        return _call(name, made)
    bases = ", ".join(map(ast.unparse, node.bases))
    return _wrapped(f"class {name}", bases) if bases else f"class {name}"


def _call(name, function):
    """`name(arguments)`."""
    return _wrapped(name, re.sub(r"^(self|cls)(: \w+)?(, )?", "", ast.unparse(function.args)))


def _wrapped(name, arguments):
    """`name(arguments)`, an argument for each line where one line is too long."""
    line = f"{name}({arguments})"
    if len(line) <= COLUMNS_MAX:
        return line
    return f"{name}(\n" + "".join(f"    {one},\n" for one in _split(arguments)) + ")"


def _split(arguments):
    """Arguments at the commas that are outside of brackets and strings."""
    parts, depth, quoted = [""], 0, False
    for character in arguments:
        quoted ^= character == "'"
        depth += 0 if quoted else (character in "([{") - (character in ")]}")
        if character == "," and depth == 0 and not quoted:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def julia_page(root):
    """Docstrings of the Julia package: they are Markdown already."""
    parts = ["# Julia reference\n\n`using GQSGD`; [the package's page](../../../bindings/julia/"
             "README.md) says how to get it.\n"]
    for name in JULIA_FILES:
        text = (root / "bindings" / "julia" / "src" / f"{name}.jl").read_text()
        for docstring in re.findall(r'^"""\n(.*?)^"""$', text, flags=re.DOTALL | re.MULTILINE):
            parts.append(_julia_entry(docstring))
    return "\n".join(parts)


def _julia_entry(docstring):
    signature, _, body = docstring.partition("\n\n")
    if not signature.startswith("    "):
        return f"{docstring}\n"
    lines = [line.removeprefix("    ") for line in signature.splitlines()]
    name = re.match(r"[\w.!]+", lines[0])[0]
    body = re.sub(r"\[(`[^`]+`)\]\(@ref\)", r"\1", body)
    return f"## {name}\n\n```julia\n" + "\n".join(lines) + f"\n```\n\n{body}\n"
