"""Manners of a file: what library code never calls, how a file begins and ends, plain ASCII."""

import re

from source_tree import code_only

# A library prints nothing and ends no program. Calls of members (`transport.abort(`) and
# declarations (`void abort(`) are not ours; a statement or an expression is ours.
_LIBC = r"(?:v?f?printf|puts|fputs|putchar|perror|_?exit|quick_exit|abort|assert|rand|srand)"
_FORBIDDEN = [
    re.compile(rf"(?:(?:^|[;{{}}(),=!?&|]|[^:]:|\belse|\breturn|\bdo)\s*)({_LIBC})\s*\(",
               re.MULTILINE),
    re.compile(r"(?<![\w:])((?:::|std::)(?:printf|puts|exit|abort|terminate|rand|srand))\s*\("),
    re.compile(r"\b(std::(?:cout|cerr|clog))\b"),
    re.compile(r"\b(cudaDeviceSynchronize|cudaDeviceReset)\b"),
]


def forbidden_calls(name, text):
    """Sentences on every call that library code must not make."""
    code = code_only(text)
    return [f"{name}:{code.count(chr(10), 0, found.start(1)) + 1}: {found.group(1)}"
            for pattern in _FORBIDDEN for found in pattern.finditer(code)]


def cut_strings(name, text):
    """Sentences on strings that printf cuts: they are a caller's, which gq::Shown also escapes."""
    return [f"{name}:{text.count(chr(10), 0, found.start()) + 1}: {found.group()}; use gq::Shown"
            for found in re.finditer(r"%[-0-9]*\.(?:\*|\d+)s", text)]


def without_opening_comment(name, text):
    """A file opens with a sentence on what lives in it; meson.build files speak for themselves."""
    if re.match(r"\s*(//|/\*)[ \t*]*\S", text):
        return []
    return [f"{name}: does not open with a comment that says what lives here"]


_TYPE = re.compile(
    r"^(?:class|struct|enum class|enum|union)(?: alignas\([^)]*\))?\s+(\w+)[^;{}()]*\{",
    re.MULTILINE)


def types_of_two_headers(files):
    """Sentences on types of one name in two headers: all are in one namespace, and the linker would
    take the functions of one for those of the other."""
    places = {}
    for name, text in files.items():
        for found in _TYPE.finditer(code_only(text)):
            places.setdefault(found.group(1), []).append(name)
    return [f"{type_name}: defined in {' and '.join(names)}"
            for type_name, names in places.items() if len(names) > 1]


def bad_bytes(name, text):
    """Sentences on letters outside ASCII, blanks at line ends and a missing last newline."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        foreign = [letter for letter in line if not " " <= letter <= "~"]
        if foreign:
            found.append(f"{name}:{number}: {foreign[0]!r} is not printable ASCII")
        if line != line.rstrip():
            found.append(f"{name}:{number}: blanks at the end of the line")
    if text and not text.endswith("\n"):
        found.append(f"{name}: no newline at the end")
    return found
