"""layout.txt against the compiler and the headers, both ways."""

import re
import subprocess

import interface
import pytest

LIST = interface.FOLDER / "layout.txt"


def lines_of(text):
    return [line.split() for line in text.splitlines() if line and not line.startswith("#")]


def assertion(kind, name, number):
    """A line of the list as C."""
    expression = {"size": f"sizeof({name})", "value": name,
                  "offset": f"offsetof({name.replace('.', ', ')})"}[kind]
    return f'_Static_assert({expression} == {number}, "{kind} {name} {number}");\n'


def compiled(text, include):
    """What a compiler says of the list `text`; "" if all of it is true."""
    program = "#include <stddef.h>\n"
    program += "".join(f"#include <{header.name}>\n" for header in interface.headers(include))
    program += "".join(assertion(*line) for line in lines_of(text))
    return subprocess.run(["gcc", "-std=c11", "-fsyntax-only", "-I", include, "-x", "c", "-"],
                          input=program, capture_output=True, text=True).stderr


def declared(texts):
    """{(kind, name)} of everything in the headers that has a place in the list."""
    found = set()
    for text in texts:
        code = interface.code_of(text)
        for body, name in re.findall(r"typedef struct \{([^{}]*)\} (\w+);", code):
            found.add(("size", name))
            found |= {("offset", f"{name}.{field}") for field in fields(body)}
        for name in re.findall(r"typedef enum GQSGD_ENUM_TYPE \{[^{}]*\} (\w+);", code):
            found.add(("size", name))
        for name in re.findall(r"typedef \w[\w ]*\*?\s*(gqsgd_\w+);", code):
            found.add(("size", name))
        found |= {("value", name) for name in re.findall(r"\b(GQSGD_\w+) = ", code)}
        found |= {("value", f"GQSGD_{name}") for name in re.findall(r"X\((\w+), \d+, \"", text)}
    return found


def fields(body):
    """The names in the body of a struct, of functions and arrays too."""
    for declaration in filter(None, map(str.strip, body.split(";"))):
        function = re.search(r"\(\*(\w+)\)\(", declaration)
        if function:
            yield function[1]
        else:
            for part in declaration.split(","):
                yield re.search(r"(\w+)(\[\w+\])?$", part.strip())[1]


def test_the_list_is_true(root):
    assert compiled(LIST.read_text(), root / "include") == ""


def test_the_list_has_all_of_the_headers_and_no_more(root):
    listed = [(kind, name) for kind, name, _ in lines_of(LIST.read_text())]
    assert len(listed) == len(set(listed))
    texts = [header.read_text() for header in interface.headers(root / "include")]
    assert set(listed) == declared(texts)


@pytest.mark.parametrize("right, wrong", [
    ("offset gqsgd_site.weight_b 64", "offset gqsgd_site.weight_b 56"),
    ("offset gqsgd_config.step 16", "offset gqsgd_config.step 24"),
    ("size gqsgd_transport 104", "size gqsgd_transport 112"),
    ("value GQSGD_PEER_LOST 61", "value GQSGD_PEER_LOST 62"),
])
def test_a_moved_field_a_size_or_a_number_is_seen(right, wrong, root):
    text = LIST.read_text()
    assert f"\n{right}\n" in text
    said = compiled(text.replace(f"\n{right}\n", f"\n{wrong}\n"), root / "include")
    assert f'"{wrong}"' in said and said.count("error:") == 1


def test_what_headers_declare_is_found():
    text = """typedef int32_t gqsgd_status;
typedef struct gqsgd_comm_s *gqsgd_comm;
typedef struct {
  size_t a;
  int32_t b, c;
  const char *(*d)(void *user, int32_t code);
  unsigned char e[4];
} gqsgd_s;
typedef enum GQSGD_ENUM_TYPE { GQSGD_X = 0, GQSGD_Y = 1 } gqsgd_e;
#define TABLE(X) \\
  X(OK, 0, "text")
"""
    names = {name for _, name in declared([text])}
    assert names == {"gqsgd_status", "gqsgd_comm", "gqsgd_s", "gqsgd_s.a", "gqsgd_s.b", "gqsgd_s.c",
                     "gqsgd_s.d", "gqsgd_s.e", "gqsgd_e", "GQSGD_X", "GQSGD_Y", "GQSGD_OK"}
