"""Reference pages out of the header's comments and the docstrings of both packages."""

import ast
import re

# Modules of the Python package that users name, in the order of their pages.
PYTHON_MODULES = ["quantizer", "communicator", "segments", "request", "threads", "transport",
                  "nccl", "simulate", "stages", "theory", "errors", "library", "torch/hook",
                  "torch/operators", "torch/groups", "torch/fsdp", "torch/policy",
                  "jax/collective", "jax/state"]
JULIA_FILES = ["quantizer", "comm", "nccl", "collectives", "segments", "request", "local", "theory",
               "Stages", "errors", "arrays", "GQSGD", "ABI"]


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


# What stands under a comment: functions, one after the other, or a type or enumeration.
_DECLARED = re.compile(
    r"""/\*\*\s(?P<comment>(?:(?!\*/).)*)\*/\s*
        (?P<code>(?:GQSGD_API[^;]*;\s*)+
               | typedef\s+struct\s*\{.*?\}\s*\w+; | enum\s*\{.*?\}; | typedef[^;{]*;)""",
    re.DOTALL | re.VERBOSE)


def c_page(root):
    """Sections of the headers, each declaration under the comment that explains it."""
    parts = ["# C reference\n\nC99 and C++; link with `pkg-config --cflags --libs gqsgd`.\n"]
    for name in ("gqsgd.h", "gqsgd_segments.h", "gqsgd_transport.h", "gqsgd_nccl.h"):
        text = (root / "include" / name).read_text()
        opening = re.match(r"/\*(.*?)\*/", text, re.DOTALL)[1]
        parts.append(f"## {name}\n\n{_prose(opening)}\n")
        for found in _DECLARED.finditer(text):
            code = found["code"].replace("GQSGD_API ", "").strip()
            parts.append(f"### {_title(code)}\n\n```c\n{code}\n```\n\n"
                         f"{_prose(found['comment'])}\n")
    return "\n".join(parts)


def _title(code):
    functions = re.findall(r"(\w+)\([^;]*?\);", code)
    if functions and not code.startswith("typedef"):
        return ", ".join(functions)
    named = (r"\}\s*(\w+);$", r"\(\*(\w+)\)", r"(GQSGD_[A-Z0-9_]+)", r"(\w+);$")
    return next(found[1] for pattern in named if (found := re.search(pattern, code)))


def _prose(comment):
    """A comment as it stands: its columns carry meaning."""
    lines = [re.sub(r"^\s*\* ?", "", line) for line in comment.strip().split("\n")]
    return "```text\n" + "\n".join(lines) + "\n```\n"


def python_page(root):
    """Public classes and functions with their docstrings, module by module."""
    parts = ["# Python reference\n\n`import gqsgd`; what PyTorch and JAX need is in `gqsgd.torch` "
             "and `gqsgd.jax`.\n"]
    public = _public_names(root)
    for name in PYTHON_MODULES:
        path = root / "bindings" / "python" / "gqsgd" / f"{name}.py"
        tree = ast.parse(path.read_text())
        module = f"gqsgd.{name}".replace("/", ".")
        parts.append(f"## {module}\n\n{_text_block(ast.get_docstring(tree))}")
        for node in tree.body:
            if getattr(node, "name", None) in public:
                parts += _python_entry(node, "")
    return "\n".join(parts)


def _public_names(root):
    """What the packages export, and the methods that a communicator inherits."""
    names = {"SegmentCollectives", "NcclGroups"}
    for package in ("", "torch/", "jax/"):
        path = root / "bindings" / "python" / "gqsgd" / package / "__init__.py"
        exported = re.search(r"__all__ = \[(.*?)\]", path.read_text(), re.DOTALL)
        names |= set(re.findall(r'"(\w+)"', exported[1]))
    return names


def _python_entry(node, owner):
    kinds = ast.ClassDef, ast.FunctionDef
    if not isinstance(node, kinds) or node.name.startswith("_") or not ast.get_docstring(node):
        return []
    name = f"{owner}{node.name}"
    signature = "" if isinstance(node, ast.ClassDef) else f"({_arguments(node)})"
    parts = [f"### {name}\n\n```python\n{name}{signature}\n```\n\n"
             f"{_text_block(ast.get_docstring(node))}"]
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            parts += _python_entry(inner, f"{name}.")
    return parts


def _arguments(node):
    text = ast.unparse(node.args)
    return re.sub(r"^(self|cls)(: \w+)?(, )?", "", text)


def _text_block(text):
    return f"```text\n{text}\n```\n"


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
