"""Writes a copy of a source in which mutations can be switched on: faults that tests must find.

usage: mutate.py SOURCE COPY [NAME ORIGINAL MUTATED]...

ORIGINAL is an expression, and MUTATED what the copy computes in its place while the environment
variable GQ_MUTATION is NAME; otherwise the copy computes what the source does. MUTATED may instead
replace any source, with MUTATION where the switch belongs. ORIGINAL must occur exactly once: a
mutation that no longer fits its source stops the build instead of testing nothing. The copy keeps
the include guard: a file compiled with `-include copy` sees the copy and never the header itself.
A source that includes nothing is a part of another one, which includes tests/support/mutation.h.
"""

import sys
from pathlib import Path

SWITCH = "MUTATION"


def switch(name):
    return f"gq::test::mutated(gq::mutations::{name})"


def switch_of_part(name):
    """In a part of a source, where no namespace can be opened."""
    return f'[] {{ static const bool is = gq::test::mutation_is("{name}"); return is; }}()'


def replacement(original, mutations, switch):
    """The expression that has the values of all mutations of one place; [(name, mutated)]."""
    verbatim = [(name, mutated) for name, mutated in mutations if SWITCH in mutated]
    if verbatim:
        if len(mutations) > 1:
            raise ValueError(f"two mutations share the text: {original}")
        name, mutated = verbatim[0]
        return mutated.replace(SWITCH, switch(name))
    choices = "".join(f"{switch(name)} ? ({mutated}) : " for name, mutated in mutations)
    return f"({choices}({original}))"


def mutated_copy(source, text, mutations):
    """`text` with a switch at each place; mutations: [(name, original, mutated)]."""
    places = {}
    for name, original, mutated in mutations:
        count = text.count(original)
        if count != 1:
            raise ValueError(f"{source} has {count} times, not once: {original}")
        places.setdefault(original, []).append((name, mutated))
    is_part = "#include " not in text
    begins = sorted((text.index(original), original) for original in places)
    for (begin, original), (next_begin, next_original) in zip(begins, begins[1:]):
        if begin + len(original) > next_begin:
            raise ValueError(f"{source}: mutations overlap: {original} and {next_original}")
    for begin, original in reversed(begins):
        made = replacement(original, places[original], switch_of_part if is_part else switch)
        text = text[:begin] + made + text[begin + len(original):]
    if is_part:
        return text
    first_include = text.index("#include ")
    switches = "".join(f"GQ_MUTATION_SWITCH({name});\n" for name, _, _ in mutations)
    return (f'{text[:first_include]}#include "tests/support/mutation.h"\n'
            f"namespace gq::mutations {{\n{switches}}}\n{text[first_include:]}")


def main(source, copy, *words):
    mutations = [tuple(words[k:k + 3]) for k in range(0, len(words), 3)]
    text = Path(source).read_text(encoding="ascii")
    Path(copy).write_text(mutated_copy(source, text, mutations), encoding="ascii")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except ValueError as error:
        sys.exit(str(error))
