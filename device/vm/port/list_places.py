"""The places of the script VM where a script could choose a size or a length, against a reviewed list.

    list_places.py --preprocessed FILE --root DIR ... --list places.txt          compares
    list_places.py --preprocessed FILE --root DIR ... --list places.txt --write  prints it anew with its verdicts

Run as the test hardening_01_places. It reads what the compiler reads: each source file of the
device's interpreter after the preprocessor, so nothing hides behind a macro, and nothing that is
switched off is listed. A place is

    alloc  FILE FUNCTION  a call that allocates, with its arguments, unless its size is a constant
    loop   FILE FUNCTION  the head of a loop

and each has a verdict, one of the words explained at the head of the list: why its size cannot be
wrong, or what ends the loop and who pays for it. An update of the interpreter that adds or changes
a place fails until somebody has looked at it.
"""
import argparse
import os
import re
import sys

ALLOCATORS = (
    "m_malloc m_malloc_maybe m_malloc0 m_realloc m_realloc_maybe mp_obj_malloc_helper gc_alloc gc_realloc malloc "
    "calloc realloc alloca __builtin_alloca dev_vm_renew_kept vstr_init vstr_init_len vstr_init_print vstr_new "
    "vstr_extend vstr_add_len vstr_hint_size vstr_ensure_extra mp_obj_new_tuple mp_obj_new_list mp_map_init "
    "mp_set_init mp_obj_new_dict mp_obj_new_bytearray mpz_need_dig mp_nonlocal_alloc "
    "mp_nonlocal_realloc list_new array_new mp_obj_list_init".split()
)
CALL = re.compile(r"\b(" + "|".join(ALLOCATORS) + r")\s*\(")
VERDICTS = {
    "alloc": ("held", "asked", "build", "passed"),
    "loop": ("fixed", "build", "step", "paid", "quiet", "dead"),
}
LOOP = re.compile(r"\b(for|while)\s*\(")
TOKEN = re.compile(r"[A-Za-z_]\w*|\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|\d\w*|\s+|.", re.S)
# Nothing but these names and numbers: the size is known when the interpreter is compiled.
CONSTANT = re.compile(r"(sizeof\s*\([^()]*\)|__builtin_offsetof\s*\([^()]*\)|\bsize_t\b|\bdev_vm_size\b|\d\w*|[-+*/(), ])*")

# An object without a variable part, and what is begun with a few items.
FIXED_CALL = re.compile(r"mp_obj_malloc_helper\(sizeof\([\w ]+\), |mp_obj_new_(tuple|list)\(\d, |vstr_init_print\(&\w+, \d+,")
# The check of bytecode runs before any script does; what looks at the stacks is in sanitized builds only. The loops of
# walle.np are macros by function and type: they allocate nothing and go through as many elements as dev_np_walk or
# dev_np_lanes, which are listed, pay for. Those of walle.cv allocate nothing and go through one row, which their callers,
# which are listed, pay for.
SKIPPED = ("mpy/mpy_", "vm_bounds.c", "np/loops/", "cv/rows/")


def own_lines(path, roots):
    """The lines of each file below a root, by its name; what system headers say is left out."""
    files = {}
    current = None
    with open(path, encoding="utf-8") as file:
        for line in file:
            marker = re.match(r'# \d+ "([^"]*)"', line)
            if marker:
                current = name_of(os.path.normpath(marker.group(1)), roots)
            elif current is not None:
                files.setdefault(current, []).append(line)
    return {name: "".join(lines) for name, lines in files.items()}


def name_of(path, roots):
    """A path below one of the roots, without it; None: not ours to look at."""
    for root in roots:
        if path.startswith(root + os.sep):
            return path[len(root) + 1:]
    return None


def functions(text):
    """(name, body) of each function at the top level of preprocessed text."""
    depth = 0
    head = []
    body = None
    for token in TOKEN.findall(text):
        if token == "{":
            depth += 1
            if depth == 1:
                name = function_name("".join(head))
                body = [] if name else None
                head = []
                continue
        elif token == "}":
            depth -= 1
            if depth == 0:
                if body is not None:
                    yield name, re.sub(r"\s+", " ", "".join(body))
                body = None
                head = []
                continue
        if depth == 0:
            head = [] if token == ";" else head + [token]
        elif body is not None:
            body.append(token)


def function_name(head):
    """`static int f(int a)` is f; what has an equals sign outside brackets or no brackets is no function."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S)
    match = re.search(r"\b([A-Za-z_]\w*)\s*\(", head)
    return match.group(1) if match and "=" not in head.split("(")[0] else None


def arguments(body, start):
    depth = 1
    at = start
    while depth > 0 and at < len(body):
        depth += {"(": 1, ")": -1}.get(body[at], 0)
        at += 1
    return body[start:at - 1].strip()


def places_of(name, function, body):
    for match in CALL.finditer(body):
        text = arguments(body, match.end())
        if not CONSTANT.fullmatch(text) and not FIXED_CALL.match(match.group(0) + text):
            yield ("alloc", name, function, f"{match.group(1)}({text})")
    for match in LOOP.finditer(body):
        head = arguments(body, match.end())
        if head != "0":
            yield ("loop", name, function, f"{match.group(1)} ({head})")


def collect(path, roots):
    found = {}
    for name, text in own_lines(path, roots).items():
        if name.startswith(SKIPPED):
            continue
        for function, body in functions(text):
            for place in set(places_of(name, function, body)):
                found[place] = max(found.get(place, 0), list(places_of(name, function, body)).count(place))
    return found


def read_list(path):
    """{place: (count, verdict)} of the reviewed list: `kind file function | what | count | verdict`."""
    listed = {}
    if not os.path.exists(path):
        return listed
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.startswith("#") or not line.strip():
                continue
            where, what, count, verdict = [part.strip() for part in line.rsplit(" | ", 3)]
            kind, name, function = where.split(" ")
            listed[(kind, name, function, what)] = (int(count), verdict)
    return listed


def compare(found, listed):
    faults = []
    for place, count in sorted(found.items()):
        if place not in listed:
            faults.append(f"new: {' '.join(place)}")
        elif listed[place][0] != count:
            faults.append(f"{count} times, listed {listed[place][0]}: {' '.join(place)}")
        elif listed[place][1] not in VERDICTS[place[0]]:
            faults.append(f"no verdict: {' '.join(place)}")
    return faults + [f"gone: {' '.join(place)}" for place in sorted(listed) if place not in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--preprocessed", required=True)
    parser.add_argument("--root", action="append", required=True)
    parser.add_argument("--list", required=True)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    found = collect(args.preprocessed, [os.path.realpath(root) for root in args.root])
    listed = read_list(args.list)
    if args.write:
        for place in sorted(found):
            verdict = listed.get(place, (0, "?"))[1]
            print(" | ".join([" ".join(place[:3]), place[3], str(found[place]), verdict]))
        return 0
    faults = compare(found, listed)
    # The comparison itself: a place that nobody looked at is seen.
    some = sorted(found)[len(found) // 2] if found else None
    if some is None or len(compare(found, {place: seen for place, seen in listed.items() if place != some})) == 0:
        faults.append("a missing place is not noticed")
    for fault in faults:
        print(f"{args.list}: {fault}", file=sys.stderr)
    print(f"{len(found)} places, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
