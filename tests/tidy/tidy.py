#!/usr/bin/env python3
"""The style and architecture of the tree as a failing test.

    tidy.py --root DIR              checks the sources
    tidy.py --root DIR --lib DIR    also checks the undefined symbols of the core archives there
    tidy.py --self-test             breaks every rule at each place that reports it, in a scratch tree, and sees that it is reported

Rules: dependency rules between modules and between the parts of the gateway's core, folders (how many files, no
circles), members with one writer, one table of routes, one door per library, sizes, private headers, parameters,
asserts, banned calls, unique file names, first include, header guards, formatting, keyed hashes in the gateway, the guard
of terminals, words that may not be in the repository, symbols of the sans-I/O cores, fences, tables and line lengths of
pages, files that pages name, links of pages.
Every finding is one line: FILE:LINE: RULE: what is wrong, and what to do instead.
"""
import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile

FILE_LINES_MAX = 800
FUNCTION_LINES_MAX = 70
LINE_COLUMNS_MAX = 120
OPENING_LINES_MIN, OPENING_LINES_MAX = 3, 10
PRIVATE_LINES_MAX = 120  # of a header that is private by its name; of one that is by its use, without comments and blank lines
PRIVATE_FILES = 3  # a header that so many files include, all of one folder, is private to it
PROSE_COLUMNS_MAX = 120  # of a page; tables, fenced blocks, headings and what cannot be broken may be longer

TABLE_RULE = r"\s*\|(\s*:?-+:?\s*\|)+\s*$"
# A heading, or a line that is one link, one piece of code or one word.
ONE_PIECE = r"#.*|\s*([-*+]\s+|\d+[.)]\s+)?(\S*\[[^\]]*\]\([^)]*\)\S*|\S*`[^`]*`\S*|\S+)"

# Pages whose files must be there, and what looks like one in them: `module/file.c`, with or without its folder.
NAMING_PAGES = ("docs/GLOSSARY.md", "docs/HACKING.md")
WALKS_PAGE = "docs/ARCHITECTURE.md"
NAMED_FILE = r"`([\w./-]+\.(?:c|h|py|md|json|conf|txt|mpy))`"

# Module of a file: the longest matching prefix wins.
MODULES = {
    "engine/base": "base",
    "engine": "engine",
    "policy": "policy",
    "device/wire": "wire",
    "device/include": "device",
    "device/core": "device",
    "device/pipeline": "pipeline",
    "device/tunnel": "tunnel",
    "device/model": "model",
    "device/vm": "vm",
    "device/runner": "runner",
    "device/port/h2": "h2",
    "device/port/ed25519": "ed25519",
    "device/port/lines": "lines",
    "device/port/blobs": "blobs",
    "device/port/mem": "mem",
    "device/port": "port",
    "device/agent": "agent",
    "device/examples": "agent",
    "gateway/store": "store",
    "gateway/svc": "svc",
    "gateway/tunnel": "gateway-tunnel",
    "gateway/api": "api",
    "gateway/ddi": "ddi",
    "gateway/infer": "infer",
    "gateway/http": "http",
    "gateway/cli": "cli",
    "gateway/signing": "signing",
    "gateway/console": "api",
    "fleet-sim": "fleet",
    "bench": "bench",
    "tests": "tests",
}

# What each module may include besides itself. Nothing includes fleet, bench, tests; http only the simulator.
USES = {
    "base": [],
    "policy": [],
    "wire": ["base"],
    "engine": ["base"],
    "pipeline": ["base", "wire"],
    "tunnel": ["base", "wire", "pipeline"],
    "device": ["base", "wire", "policy"],  # policy: a device computes its own bucket
    "model": ["base", "wire", "engine"],
    "vm": ["base", "wire", "policy", "engine", "pipeline", "model"],  # policy: device or cloud
    "runner": ["base", "wire", "engine", "pipeline", "model", "vm"],
    "h2": ["base"],
    "ed25519": ["base", "wire"],
    "lines": ["base", "pipeline"],
    "blobs": ["base", "device"],  # device: what a set is (device/blobs.h)
    "mem": ["base", "wire", "pipeline", "device", "port"],
    "port": ["base", "wire", "pipeline", "tunnel", "device", "vm", "model", "runner", "h2", "ed25519"],
    "agent": ["base", "wire", "pipeline", "tunnel", "device", "vm", "model", "h2", "port", "lines", "blobs", "mem"],
    "store": ["base", "wire"],
    "svc": ["base", "wire", "policy", "store", "pipeline"],  # pipeline: the certificate of triggers
    "gateway-tunnel": ["base", "wire", "store", "svc"],
    "api": ["base", "wire", "policy", "svc", "gateway-tunnel", "pipeline"],
    "ddi": ["base", "wire", "svc", "api"],
    "infer": ["base", "wire", "policy", "engine", "svc"],
    "http": ["base", "wire", "signing", "policy", "svc", "gateway-tunnel", "api", "ddi", "infer"],
    "signing": ["base", "wire", "ed25519"],
    "cli": ["base", "wire", "signing", "policy", "runner", "vm", "model", "engine", "pipeline", "lines", "blobs", "mem", "port", "gateway-tunnel"],  # port: run/, for task processes
    "fleet": ["base", "wire", "signing", "policy", "pipeline", "tunnel", "device", "vm", "model", "runner", "h2", "port", "lines", "blobs", "mem", "gateway-tunnel", "svc", "api", "http"],  # http: hand/ alone, for bytes/
    "bench": None,  # anything
    "tests": None,
}

# One door per library: a header and the folders that may include it (bench and tests may anything).
DOORS = [
    (r"lmdb\.h", ["gateway/store", "device/port/posix"]),
    (r"event2/|event\.h|evhttp\.h", ["gateway/http", "device/port", "device/agent", "device/examples", "fleet-sim"]),
    (r"nghttp2/", ["gateway/http", "device/port/h2"]),
    (r"jansson\.h", ["gateway/api", "gateway/cli", "gateway/ddi", "gateway/infer", "fleet-sim", "device/agent",
                      "device/port/lines"]),
    (r"zstd(_errors)?\.h|zdict\.h", ["gateway/svc/content/blob_zstd", "gateway/tunnel/tunnel_zstd", "gateway/cli/dict_train",
                                      "device/port/delta", "device/port/zstd"]),
    (r"openssl/", ["gateway/http", "gateway/cli", "gateway/signing", "gateway/ddi", "gateway/store/store_sha256", "device/port"]),
    (r"curl/", ["gateway/cli"]),
    (r"git2\.h", ["gateway/cli/task/task_git"]),
    (r"cblas\.h", ["engine/backend/cpu"]),
    (r"cuda", ["engine/backend/cuda"]),
    (r"protobuf-c/|pb-c\.h", ["engine/model"]),
    (r"py/", ["device/vm"]),
    (r"jpeglib\.h", ["device/vm/cv/cv_jpeg"]),
    (r"png\.h", ["device/vm/cv/cv_png"]),
    (r"roaring/", ["gateway/svc"]),
    (r"xxhash\.h", ["engine/base"]),
    (r"sys/socket\.h|netinet/|arpa/inet\.h|netdb\.h", ["gateway/http", "device/port", "device/runner/runner_channel", "fleet-sim"]),
    (r"seccomp\.h", ["device/runner/runner_wall"]),
]

BANNED = [
    (r"#\s*include\s*<(svc|store|api|ddi|http|cli|signing|base|wire|policy|pipeline|tunnel|device|engine|model|vm|runner)/",
     "our own headers are included with quotes"),
    (r"\b(strcpy|strcat|sprintf|vsprintf|gets)\s*\(", "unbounded: use snprintf or base/buffer.h"),
    (r"\bstrtok\s*\(", "use struct base_str"),
    (r"\b(atoi|atol|atoll|strtol|strtoul|strtoll|strtoull|sscanf)\s*\(", "use base_str_u64 / base_str_i64"),
    (r"\b(rand|srand|random|drand48)\s*\(", "use base/prng.h"),
    (r"(?<![\w.>])time\s*\(\s*(NULL|0|&)", "use base/clock.h or a clock port"),
    (r"\balloca\s*\(", "use an arena"),
    (r"\babort\s*\(", "use base_check"),
]
BANNED_EXEMPT = {"engine/base/check.c": "abort"}
LOCALE_CALLS = (r"\b(strto(d|f|ld)|atof)\s*\(", ["engine/base", "engine/cli", "gateway", "fleet-sim", "bench", "tests"])
CLOCK_CALLS = (r"\b(clock_gettime|gettimeofday|getrandom)\s*\(", ["engine/base", "engine/cli/engine_times.c", "bench", "tests"])

# A table in the gateway may hold what strangers choose: it is hashed with the process's key (base/keyed_hash.h;
# uthash by its _BYHASHVALUE macros). What is hashed without it, by name and why; a new place has to say so here.
UNKEYED = r"\b(base_hash64(_seed)?|base_mix64|XXH\w+|HASH_(FIND|ADD|REPLACE)(_STR|_INT|_PTR|_KEYPTR)?(_INORDER)?)\s*\("
UNKEYED_MAY = {
    "gateway/infer/split/infer_split.c": "callers of a model: one keeps its version through a restart",
    "gateway/ddi/ddi.c": "ids that are stored and sent",
    "gateway/svc/plan/cohort_compile.c": "signatures of what operators wrote; no table",
    "gateway/svc/core.c": "ids of requests",
    "gateway/svc/plan/fleet_segment.c": "names of segments, which are stored",
    "gateway/svc/plan/plan.c": "signatures of what operators wrote; no table",
    "gateway/svc/plan/plan_index.c": "a sorted list of what operators wrote; no table",
    "gateway/svc/tally/trial_blocks.h": "the order of failures within a second, which every start must find again; no table",
    "gateway/svc/tally/trial_blocks.c": "signatures, and a table of at most 256 names of segments for one look",
    "gateway/tunnel/mark/checkpoint.c": "checksums on disk",
    "gateway/tunnel/segment/segment_record.c": "checksums on disk",
}

# Parts of the gateway's core, a folder each, the lowest first: a part includes itself and what is below it. At the top level
# of gateway/svc lies what all of them stand on, and (SVC_TOP) what stands on all of them.
SVC = "gateway/svc/"
SVC_PARTS = ["", "access", "content", "plan", "tally", "trust", "device", "rollout", "view"]
SVC_TOP = ["clock_record.c", "control_thread.c", "core.c", "metrics_text.c", "metrics_text.h", "route.c",
           "stored_uploads.c", "tunnel_admit.c", "tunnel_admit.h"]

# Folders of product code: how many files lie in one, and that they use one another in one direction. The top level of the
# gateway's core counts as two, its bottom and its top (above).
PRODUCT = ("gateway/", "engine/", "device/", "policy/", "fleet-sim/")
FOLDER_FILES_MAX = 40

# Folders of the data pipeline, and what each may include besides itself. The top level ("") stands on all of them.
PIPELINE = "device/pipeline/"
PIPELINE_PARTS = {"storage": [], "record": ["storage"], "trigger": ["record"], "stream": ["record"],
                  "": ["storage", "record", "trigger", "stream"]}

# Members of a task's record that one part of the device's runtime writes, and where; what others want of them they ask of
# that part (device/core/base/task.h). The codec of the stored record fills in what is stored.
TASK_RECORD = "device/core/device_state.c"
TASK_MEMBERS_OF = {
    "content": ("device/core/slots/",),
    "incoming": ("device/core/pull/", TASK_RECORD),
    "lease": ("device/core/trust/", TASK_RECORD),
    "listed": ("device/core/trust/", TASK_RECORD),
    "offer": ("device/core/offer/", TASK_RECORD),
    "runs": ("device/core/run/", TASK_RECORD),
    "slots": ("device/core/slots/", TASK_RECORD),
}
TASK_MEMBERS_SEEN = ("incoming", "offer", "slots")  # digests and approvals are looked at by their address
RUNTIME = "device/core/"
CHANGES = r"\s*(?:=(?!=)|[-+*/%&|^]=|<<=|>>=|\+\+|--)"

# Paths that the gateway serves stand in one table; what others need of one is a name beside the handler's.
ROUTES = r'"/(v1|api|metrics|healthz|readyz)\b'
ROUTES_IN = ("gateway/svc/route.c", "gateway/svc/control.h", "gateway/svc/content/blob.h")
ROUTES_OF = ("gateway/svc/", "gateway/http/", "gateway/api/", "gateway/ddi/", "gateway/tunnel/")

# A function takes at most so many parameters, a struct beyond; in folders of product code that are not there yet it may have more.
# A folder that got there leaves this list.
PARAMETERS_MAX = 5
FUNCTION_HEAD = re.compile(r"^[A-Za-z_][^;{}#=]*?\b(\w+)\s*\(([^;{}]*)\)\n\{", re.M)
WORDED = ("engine/", "gateway/tunnel/", "device/tunnel/")
KERNELS = "engine/backend/cpu/kernel/"  # whose templates are free functions on numbers and restrict pointers
LIBRARY_SHAPED = r"\b(nghttp2_\w+|SSL|EVP_\w+|CRYPTO_EX_DATA) \*"  # a callback has the form that its library asks for

# Asserts in a thousand lines of a folder's .c files: what callers have to keep to is said where it is relied on. In these
# folders each function of so many lines has one.
ASSERT_FUNCTION_LINES = 20
ASSERT = r"\b(base_assert|base_check|pol_assert|_Static_assert)\s*\("
ASSERTS_MIN = {
    "engine/program": 20, "engine/lower": 18,
    **{folder: 13 for folder in (
        "engine/backend", "engine/backend/cpu", "engine/backend/cuda", "engine/backend/cpu/gemm", "engine/backend/cpu/kernel", "engine/backend/cpu/move",
        "engine/backend/ref", "engine/base", "engine/cli", "engine/lower/ops", "engine/model", "engine/search", "engine/session",
        "engine/train", "device/model", "device/pipeline", "device/pipeline/record", "device/pipeline/storage",
        "device/pipeline/stream", "device/pipeline/trigger", "device/tunnel", "device/wire", "device/wire/leaves", "device/wire/trust", "gateway/store",
        "gateway/tunnel", "gateway/tunnel/mark", "gateway/tunnel/segment", "engine/base/os", "engine/base/text", "policy", "policy/fallback")},
    "gateway/tunnel/schema": 11, "policy/fields": 8, "policy/stat": 6,
}

# Words that speak of something else than the product.
FORBIDDEN = [
    (r"https?://[^ ]*(debian|npmjs|pypi)[^ ]*", "names a package host"),
    (r"(?<![\w.])/work/", "a path of one machine"),
    (r"\b(TODO|FIXME|XXX|HACK)\b", "do it, or leave it out"),
]
FORBIDDEN_EXEMPT = ("tests/tidy/tidy.py",)

# Core archives: no I/O, no clocks, no threads. Archive -> (file of allowed symbols, other archives whose symbols are fine)
CORES = {
    "libwalle-policy.a": [],
    "libwalle-device-wire.a": ["libwalle-base.a"],
    "libwalle-device-pipeline.a": ["libwalle-base.a", "libwalle-device-wire.a"],
    "libwalle-device-tunnel.a": ["libwalle-base.a", "libwalle-device-wire.a", "libwalle-device-pipeline.a"],
    "libwalle-device-core.a": ["libwalle-base.a", "libwalle-device-wire.a", "libwalle-policy.a"],
    "libwalle-gateway-svc.a": ["libwalle-device-pipeline.a", "libwalle-base.a", "libwalle-device-wire.a", "libwalle-policy.a", "libwalle-gateway-store.a"],
}
# Pieces of base that are the outside world: a core may not reach for them.
REAL_WORLD = re.compile(r"^base_(clock_mono_us|clock_wall_us|clock_real|entropy_u64|alloc_heap|log_stderr)$")
SANITIZER = re.compile(r"^(__asan|__ubsan|__tsan|__sanitizer|_GLOBAL_OFFSET_TABLE_|__stack_chk_fail|__odr_asan)")


def split_parameters(text):
    """What stands between the commas of a head, not of a function's type within it."""
    depth, parts = 0, [""]
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def svc_level(name):
    """Where a file of the gateway's core stands; None: elsewhere, or in a folder that no rule knows."""
    if not name.startswith(SVC):
        return None
    folder, base = os.path.split(name[len(SVC):])
    if not folder and base in SVC_TOP:
        return len(SVC_PARTS)
    return SVC_PARTS.index(folder) if folder in SVC_PARTS else None


def folder_of(name):
    """What the rule of folders takes for one: the folder, but the two halves of the core's top level apart."""
    folder = os.path.dirname(name)
    return folder + " (its top)" if folder + "/" == SVC and os.path.basename(name) in SVC_TOP else folder


def circles(uses):
    """Groups of folders of which each reaches each, sorted."""
    def reach(start):
        seen, open_ = set(), [start]
        while open_:
            for other in uses.get(open_.pop(), []):
                if other not in seen:
                    seen.add(other)
                    open_.append(other)
        return seen
    reached = {one: reach(one) for one in uses}
    groups = {tuple(sorted(other for other in reached[one] if one in reached.get(other, ()))) for one in uses if one in reached[one]}
    return sorted(groups)


def module_of(path):
    best = None
    for prefix, module in MODULES.items():
        if path.startswith(prefix + "/") and (best is None or len(prefix) > len(best[0])):
            best = (prefix, module)
    return best[1] if best else None


class Tidy:
    def __init__(self, root):
        self.root = root
        self.findings = []
        self.places = set()  # lines of this file that found something
        self.headings = {}  # of pages that are linked to
        self.files = self.list_files()
        self.sources = [f for f in self.files if f.endswith((".c", ".h", ".cu", ".cuh"))]

    def list_files(self):
        """What git tracks or would; without git, every file outside the build folders."""
        names = []
        if shutil.which("git"):
            names = subprocess.run(["git", "-C", self.root, "ls-files", "-co", "--exclude-standard"],
                                   capture_output=True, text=True).stdout.splitlines()
        if not names:
            for folder, folders, files in os.walk(self.root):
                folders[:] = [d for d in folders if d not in (".git", "build", "out")]
                names += [os.path.relpath(os.path.join(folder, f), self.root) for f in files]
        return sorted(n for n in names if os.path.isfile(os.path.join(self.root, n)))

    def read(self, name):
        with open(os.path.join(self.root, name), encoding="utf-8", errors="replace") as file:
            return file.read().split("\n")

    def report(self, name, line, rule, text):
        self.places.add(sys._getframe(1).f_lineno)
        self.findings.append(f"{name}:{line}: {rule}: {text}")

    # ---- rules over one file ---------------------------------------------------------------------------------

    def resolve(self, name, include):
        roots = [os.path.dirname(name), "", "engine", "engine/include", "device", "device/include", "device/port",
                 "device/port/h2", "gateway", "fleet-sim", "bench", "tests/support"]
        for root in roots:
            path = os.path.normpath(os.path.join(root, include))
            if os.path.isfile(os.path.join(self.root, path)):
                return path
        return None

    def check_includes(self, name, lines):
        module = module_of(name)
        if module is None:
            return
        allowed = USES[module]
        for number, line in enumerate(lines, 1):
            found = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
            if not found:
                continue
            header = found.group(2)
            target = self.resolve(name, header)
            if target:
                other = module_of(target)
                if allowed is not None and other and other != module and other not in allowed:
                    self.report(name, number, "dependency",
                                f"{module} may not use {other} ({header}); it may use: {', '.join(allowed) or 'nothing'}")
                continue
            if module in ("bench", "tests"):
                continue
            for pattern, doors in DOORS:
                if re.match(pattern, header) and not any(name.startswith(d) for d in doors):
                    self.report(name, number, "door", f"<{header}> belongs behind {', '.join(doors)}")

    def check_parts(self, name, lines):
        """The parts of the gateway's core use one another in one direction."""
        if not name.startswith(SVC):
            return
        level = svc_level(name)
        if level is None:
            self.report(name, 1, "parts", f"a folder that is no part of {SVC}: name it in tests/tidy/tidy.py")
            return
        for number, line in enumerate(lines, 1):
            found = re.match(r'\s*#\s*include\s*"svc/([^"]+)"', line)
            other = svc_level(SVC + found.group(1)) if found else None
            if other is not None and other > level:
                self.report(name, number, "parts", f"{found.group(1)} is above it: move what both need down, or pass a function")

    def check_pipeline(self, name, lines):
        """The folders of the data pipeline include one another in one direction."""
        if not name.startswith(PIPELINE):
            return
        part = os.path.dirname(name[len(PIPELINE):])
        if part not in PIPELINE_PARTS:
            self.report(name, 1, "parts", f"a folder that is no part of {PIPELINE}: name it in tests/tidy/tidy.py")
            return
        for number, line in enumerate(lines, 1):
            found = re.match(r'\s*#\s*include\s*"pipeline/([^"]+)"', line)
            other = os.path.dirname(found.group(1)) if found else part
            if other != part and other not in PIPELINE_PARTS[part]:
                self.report(name, number, "parts", f"{found.group(1)} is not below it: move what both need down, or pass a function")

    def check_routes(self, name, lines):
        if not name.startswith(ROUTES_OF) or name in ROUTES_IN:
            return
        in_comment = False
        for number, line in enumerate(lines, 1):
            code, in_comment = strip_comment(line, in_comment)
            if '""' in code and re.search(ROUTES, line):
                self.report(name, number, "routes", "a path of the gateway: ask its route (svc/route.h)")

    def check_members(self, name, lines):
        """Outside of its owner's folder, a member of a task's record is not assigned to and its address is not taken."""
        if not name.startswith(RUNTIME):
            return
        in_comment = False
        for number, line in enumerate(lines, 1):
            code, in_comment = strip_comment(line, in_comment)
            for member, owners in TASK_MEMBERS_OF.items():
                whole = rf"\w[\w\[\]]*(?:(?:->|\.)\w[\w\[\]]*)*(?:->|\.){member}\b"
                within = r"(?:\.\w[\w\[\]]*)*"
                seen = r"(?![\w.])" if member in TASK_MEMBERS_SEEN else within
                written = (rf"{whole}{within}{CHANGES}|(?:\+\+|--){whole}|(?<![&\w)\]])\s*&{whole}{seen}"
                           rf"|\bmem(?:set|cpy|move)\(&?{whole}")
                if not name.startswith(owners) and re.search(written, code):
                    self.report(name, number, "members", f"{member} is written by {owners[0]} alone: call what it offers")

    def check_folders(self):
        """No folder of product code is crowded, and no two include each other, straight or through others."""
        counts, uses = {}, {}
        for name in self.sources:
            if name.startswith(PRODUCT):
                folder = os.path.dirname(name)
                counts[folder] = counts.get(folder, 0) + 1
                for number, target in self.included(name):
                    one, other = folder_of(name), folder_of(target)
                    if target.startswith(PRODUCT) and one != other:
                        uses.setdefault(one, {}).setdefault(other, f"{name}:{number}")
        for folder, count in counts.items():
            if count > FOLDER_FILES_MAX:
                self.report(folder, 1, "folder", f"{count} files; at most {FOLDER_FILES_MAX}: find the seam")
        for circle in circles({one: list(others) for one, others in uses.items()}):
            places = [uses[one][other] for one in circle for other in circle if other in uses.get(one, {})]
            self.report(places[0].split(":")[0], int(places[0].split(":")[1]), "folder",
                        f"{', '.join(circle)} use one another ({', '.join(places[1:6])}): move what both need down")

    def check_asserts(self):
        for folder, least in ASSERTS_MIN.items():
            texts = ["\n".join(self.read(name)) for name in self.sources if os.path.dirname(name) == folder and name.endswith(".c")]
            lines = sum(text.count("\n") for text in texts)
            asserts = sum(len(re.findall(ASSERT, text)) for text in texts)
            if asserts * 1000 < least * lines:
                self.report(folder, 1, "asserts", f"{asserts} in {lines} lines; at least {least} in 1,000: say what "
                            "functions rely on with base_assert")
        for name in self.sources:
            if name.endswith(".c") and os.path.dirname(name) in ASSERTS_MIN:
                self.check_long_functions(name)

    def check_long_functions(self, name):
        begun, asserts, in_comment = None, 0, False
        for number, line in enumerate(self.read(name), 1):
            code, in_comment = strip_comment(line, in_comment)
            asserts += len(re.findall(ASSERT, code))
            if line == "{":
                begun, asserts = number, 0
            elif line == "}" and begun is not None:
                if number - begun - 1 >= ASSERT_FUNCTION_LINES and asserts == 0:
                    self.report(name, begun, "asserts", f"{number - begun - 1} lines without an assert: say what the function relies on")
                begun = None

    def included(self, name):
        """(line, file of the tree) of what a file includes."""
        for number, line in enumerate(self.read(name), 1):
            found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            target = self.resolve(name, found.group(1)) if found else None
            if target:
                yield number, target

    def check_calls(self, path):
        """The same rule over the calls of the built archive, whatever header brought them."""
        places = {os.path.basename(name): name for name in self.sources if name.startswith(SVC) and name.endswith(".c")}
        defines, needs, member = {}, {}, None
        listing = subprocess.run(["nm", "-P", path], capture_output=True, text=True, check=True).stdout
        for line in listing.splitlines():
            found = re.match(r".*\[(\w+\.c)\.o\]:$", line)
            fields = line.split()
            if found:
                member = places.get(found.group(1))
            elif member and len(fields) > 1 and fields[1] in "TDBR" and fields[0].startswith("gw_"):
                defines[fields[0]] = member
            elif member and len(fields) > 1 and fields[1] == "U":
                needs.setdefault(member, []).append(fields[0])
        for name, calls in sorted(needs.items()):
            for call in calls:
                target = defines.get(call)
                if target and svc_level(target) > svc_level(name):
                    self.report(name, 0, "parts", f"{call} is of {target}, which is above it")

    def check_cmake(self, name, lines):
        """Link lines obey the same rules as includes."""
        text = "\n".join(lines)
        names = {"device-core": "device", "device-wire": "wire", "device-vm": "vm", "device-runner": "runner", "device-model": "model", "device-pipeline": "pipeline", "device-tunnel": "tunnel", "fleet-tunnel": "fleet", "device-crypto": "port", "device-mem": "mem", "device-posix": "port", "device-zstd": "port", "device-lines": "lines",
                 "device-h2": "h2", "device-ed25519": "ed25519", "gateway-svc": "svc", "gateway-store": "store", "gateway-signing": "signing", "gateway-cli": "cli", "gateway-api": "api", "gateway-http": "http",
                 "gateway-ddi": "ddi", "gateway-infer": "infer", "gateway-schema": "gateway-tunnel"}
        for found in re.finditer(r"walle_library\(\s*NAME\s+([\w-]+)(.*?)\)", text, re.S):
            module = names.get(found.group(1), found.group(1))
            uses = re.search(r"USES\s+([^)]*?)(?:INCLUDE|SOURCES|DIR|$)", found.group(2), re.S)
            if module not in USES or USES[module] is None or not uses:
                continue
            for use in uses.group(1).split():
                other = names.get(use, use)
                if other in USES and other != module and other not in USES[module]:
                    line = text[:found.start()].count("\n") + 1
                    self.report(name, line, "dependency", f"{module} may not link {other}")

    def check_sizes(self, name, lines):
        if len(lines) - 1 > FILE_LINES_MAX:
            self.report(name, FILE_LINES_MAX, "size", f"{len(lines) - 1} lines; at most {FILE_LINES_MAX}: find the seam")
        start = None
        for number, line in enumerate(lines, 1):
            if len(line) > LINE_COLUMNS_MAX:
                self.report(name, number, "size", f"{len(line)} columns; at most {LINE_COLUMNS_MAX}")
            if line == "{" and number > 1:
                start = number
            elif line == "}" and start is not None:
                if name.endswith((".c", ".cu")) and number - start - 1 > FUNCTION_LINES_MAX:
                    self.report(name, start, "size",
                                f"function of {number - start - 1} lines; at most {FUNCTION_LINES_MAX}")
                start = None

    def check_parameters(self, name, lines):
        """How many a function takes, and, where the field's formulas tempt, whether they are words."""
        template = name.startswith(KERNELS) and name.endswith(".h")
        if not name.endswith((".c", ".h")) or template or module_of(name) in (None, "tests", "bench"):
            return
        text = "\n".join(lines)
        for found in FUNCTION_HEAD.finditer(text):
            if "\\\n" in found.group(0) or re.search(LIBRARY_SHAPED, found.group(2)):
                continue
            parameters = split_parameters(found.group(2))
            line = text[:found.start(1)].count("\n") + 1
            if len(parameters) > PARAMETERS_MAX:
                self.report(name, line, "parameters", f"{found.group(1)} takes {len(parameters)}; at most {PARAMETERS_MAX}, a "
                            "struct beyond")
            for parameter in parameters if name.startswith(WORDED) else []:
                letter = re.search(r"(?<!\w)([A-Za-z])(\[[^]]*\])*$", parameter.strip())
                if letter:
                    self.report(name, line, "parameters", f"{found.group(1)} calls one {letter.group(1)}: a word says what it is")

    def check_private(self, name, lines):
        """A header that many files share is a knot: what stands in it belongs to one of them."""
        shared = re.search(r"_(private|internal|parts)\.h$", name) and module_of(name) not in (None, "bench", "tests")
        if shared and len(lines) - 1 > PRIVATE_LINES_MAX:
            self.report(name, PRIVATE_LINES_MAX, "private", f"{len(lines) - 1} lines; at most {PRIVATE_LINES_MAX}: "
                        "give each part an owner with a header of its own")

    def check_private_by_use(self):
        """The same of a header whatever its name, that files of its folder alone include; templates of kernels are functions."""
        users = {}
        for name in self.sources:
            if name.startswith(PRODUCT):
                for _, target in self.included(name):
                    users.setdefault(target, set()).add(name)
        for name, by in sorted(users.items()):
            alone = {os.path.dirname(user) for user in by} == {os.path.dirname(name)} and len(by) >= PRIVATE_FILES
            if name.endswith(".h") and alone and not name.startswith(KERNELS):
                lines = sum(1 for line in self.read(name) if line.strip() and not line.strip().startswith("//"))
                if lines > PRIVATE_LINES_MAX:
                    self.report(name, 1, "private", f"{lines} lines without comments, and {os.path.dirname(name)} alone includes it; "
                                f"at most {PRIVATE_LINES_MAX}: give each part an owner with a header of its own")

    def check_banned(self, name, lines):
        if module_of(name) in (None, "tests"):
            return
        in_comment = False
        for number, line in enumerate(lines, 1):
            code, in_comment = strip_comment(line, in_comment)
            if re.match(r'\s*#\s*include\s*["<]\.\./', line):
                self.report(name, number, "banned", "include from the module's root, so that the rules of folders see it")
            for pattern, instead in BANNED:
                found = re.search(pattern, code)
                if found and BANNED_EXEMPT.get(name, "-") not in found.group(0):
                    self.report(name, number, "banned", f"{found.group(0).strip()}: {instead}")
            self.check_terminal(name, number, code, line)
            if re.search(CLOCK_CALLS[0], code) and not any(name.startswith(d) for d in CLOCK_CALLS[1]):
                self.report(name, number, "banned", "real clocks and entropy live in engine/base: use a port")
            if re.search(LOCALE_CALLS[0], code) and not any(name.startswith(d) for d in LOCALE_CALLS[1]):
                self.report(name, number, "banned", "goes by the app's locale: use base/text/real.h")

    def check_keyed(self, name, lines):
        if not name.startswith("gateway/") or name.startswith(("gateway/cli/", "gateway/console/")) or name in UNKEYED_MAY:
            return
        in_comment = False
        for number, line in enumerate(lines, 1):
            code, in_comment = strip_comment(line, in_comment)
            found = re.search(UNKEYED, code)
            if found:
                self.report(name, number, "keyed", f"{found.group(1)}: tables of the gateway use base/keyed_hash.h; what "
                            "is no table, or must not depend on the key, is named in tests/tidy/tidy.py")

    def check_terminal(self, name, number, code, line):
        """What is shown goes through the guard of engine/base/text/terminal.h, in every program."""
        if name.startswith("engine/base/") or "/examples/" in name or module_of(name) == "bench":
            return
        if re.search(r"\b(write|dprintf|fdopen)\s*\(\s*(STDOUT_FILENO|STDERR_FILENO|1|2)\s*,|/dev/(tty|std)", code):
            self.report(name, number, "terminal", "goes past the guard of standard output: use stdout or stderr")
        if re.search(r"\\(033|x1b|e\[)", line, re.I) and "snprintf(move" not in line and "base_terminal_control(" not in line:
            self.report(name, number, "terminal", "an escape sequence goes through base_terminal_control")
        if re.search(r"\bint main\(", code) and name.endswith(".c") and "base_terminal_guard();" not in "\n".join(self.read(name)):
            self.report(name, number, "terminal", "main begins with base_terminal_guard()")

    def check_shape(self, name, lines):
        text = "\n".join(lines)
        base = os.path.basename(name)
        if name.endswith(".h"):
            if not re.search(r"^#ifndef (\w+_H)\n#define \1$", text, re.M) and "#pragma once" not in text:
                self.report(name, 1, "shape", "no header guard NAME_H")
        if name.endswith(".c") and module_of(name) not in ("tests", "bench"):
            own = base[:-2] + ".h"
            first = re.search(r'^#include\s+["<]([^">]+)[">]', text, re.M)
            exists = any(os.path.basename(f) == own for f in self.sources)
            if first and exists and not self.brings(name, first.group(1), own):
                self.report(name, text[:first.start()].count("\n") + 1, "shape", f"first include is not its own {own}")
            opening = len(re.match(r"(?://[^\n]*\n)*", text).group().splitlines())
            if not OPENING_LINES_MIN <= opening <= OPENING_LINES_MAX:
                self.report(name, 1, "shape", f"an opening comment of {opening} lines, not of {OPENING_LINES_MIN} to {OPENING_LINES_MAX}: "
                            "what lives here, who calls it, on which thread")
        if "\t" in text:
            self.report(name, text[: text.index("\t")].count("\n") + 1, "shape", "tab: use spaces")

    def brings(self, name, include, own):
        """Is `include` the header `own`, or a private header that starts from it?"""
        if os.path.basename(include) == own:
            return True
        target = self.resolve(name, include)
        return target is not None and re.search(rf'#include "(.*/)?{re.escape(own)}"', "\n".join(self.read(target)))

    def check_words(self, name, lines):
        if name in FORBIDDEN_EXEMPT:
            return
        for number, line in enumerate(lines, 1):
            for pattern, why in FORBIDDEN:
                if re.search(pattern, line):
                    self.report(name, number, "words", why)

    def check_page(self, name, lines):
        """Fences are closed, tables are tables, and prose is of a width that people read."""
        fence, opened, table = None, 0, []
        for number, line in enumerate(lines, 1):
            mark = re.match(r"\s*(```+)(.*)$", line)
            if fence is not None:
                if mark and mark.group(1) == fence and not mark.group(2).strip():
                    fence = None
                elif mark or re.match(TABLE_RULE, line):
                    self.report(name, opened, "page", f"fence that line {number} finds open: close it with {fence}")
                    fence = mark.group(1) if mark else None
                    opened = number
                continue
            if line.lstrip().startswith("|"):
                table.append((number, line.strip()))
                continue
            self.check_table(name, table)
            table = []
            if mark:
                fence, opened = mark.group(1), number
            elif len(line) > PROSE_COLUMNS_MAX and not re.fullmatch(ONE_PIECE, line):
                self.report(name, number, "page", f"{len(line)} columns of prose; at most {PROSE_COLUMNS_MAX}: wrap it")
        self.check_table(name, table)
        if fence is not None:
            self.report(name, opened, "page", f"fence that the page's end finds open: close it with {fence}")

    def check_table(self, name, table):
        if not table:
            return
        if len(table) < 2 or not re.match(TABLE_RULE, table[1][1]) or re.match(TABLE_RULE, table[0][1]):
            self.report(name, table[0][0], "page", "table without its header and |---| below it")
            return
        cells = [len(re.findall(r"(?<!\\)\|", line)) for _, line in table]
        for (number, line), count in zip(table, cells):
            if not line.endswith("|") or count != cells[0]:
                self.report(name, number, "page", f"row of {count - 1} cells in a table of {cells[0] - 1}, or without its last |")

    def check_links(self, name, lines):
        """Links lead to files that are there, and to headings that the page has."""
        for number, line in prose_of(lines):
            for link in re.findall(r"\]\(([^)\s:]+)\)", re.sub(r"`[^`]*`", "", line)):
                path, _, anchor = link.partition("#")
                target = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
                if not os.path.exists(os.path.join(self.root, target)):
                    self.report(name, number, "link", f"no {target}: say where it is now")
                elif anchor and target.endswith(".md") and anchor not in self.anchors(target):
                    self.report(name, number, "link", f"no heading #{anchor} in {target}")

    def anchors(self, page):
        """The headings of a page, as links name them."""
        if page not in self.headings:
            found = (re.match(r"#+ (.*)", line) for _, line in prose_of(self.read(page)))
            self.headings[page] = {re.sub(r"[^\w\- ]", "", one.group(1).lower()).strip().replace(" ", "-") for one in found if one}
        return self.headings[page]

    def check_walks(self, name, lines):
        """A step of a walk is a function that is there, in the file that the page names."""
        files = {os.path.basename(path): path for path in self.sources if module_of(path) not in (None, "tests", "bench")}
        promised, count = None, 0
        for number, line in enumerate(lines, 1):
            title = re.match(r"\*\*.*: (\d+) steps\.\*\*", line)
            if title:
                promised, count = int(title.group(1)), 0
            step = re.match(r"\| (\d+) \| `(\w+)` \| `([\w.]+)` \|", line)
            if step is None:
                if promised is not None and re.match(r"\|\s*[*`\d]", line):
                    self.report(name, number, "walk", "a step is | number | `function` | `file.c` | what becomes of it |")
                elif promised is not None and not line.startswith("|") and count:
                    if promised != count:
                        self.report(name, number, "walk", f"{count} steps, and its title says {promised}")
                    promised = None
                continue
            count += 1
            if promised is not None and int(step.group(1)) != count:
                self.report(name, number, "walk", f"step {step.group(1)} is number {count}")
            path = files.get(step.group(3))
            text = "\n".join(self.read(path)) if path else ""
            if not re.search(r"^[A-Za-z_][^;{}#=]*\b%s\s*\([^;{}]*\)\n\{" % step.group(2), text, re.M):
                self.report(name, number, "walk", f"{step.group(3)} has no function {step.group(2)}")

    def check_named(self, name, lines):
        """A page that sends its reader to files names files that are there."""
        for number, line in enumerate(lines, 1):
            for named in re.findall(NAMED_FILE, line):
                if not any(f == named or f.endswith("/" + named) for f in self.files):
                    self.report(name, number, "named", f"no file {named}: say where it is now")

    # ---- rules over the tree ---------------------------------------------------------------------------------

    def check_names(self):
        seen = {}
        for name in self.sources:
            base = os.path.basename(name)
            if base in seen:
                self.report(name, 1, "names", f"file name also at {seen[base]}: names are unique in the tree")
            seen[base] = name

    def check_format(self):
        config = os.path.join(self.root, ".clang-format")
        if not self.sources or not os.path.isfile(config):
            return
        paths = [os.path.join(self.root, s) for s in self.sources if not s.endswith((".cu", ".cuh"))]
        run = subprocess.run(["clang-format", "--dry-run", f"--style=file:{config}"] + paths,
                             capture_output=True, text=True)
        seen = set()
        for found in re.finditer(r"^(.*?):(\d+):\d+: warning: code should be clang-formatted", run.stderr, re.M):
            name = os.path.relpath(found.group(1), self.root)
            if name not in seen:
                seen.add(name)
                self.report(name, int(found.group(2)), "format", "run clang-format -i")

    def check_symbols(self, lib):
        with open(os.path.join(self.root, "tests/tidy/core_symbols"), encoding="utf-8") as file:
            allowed = {line.split("#")[0].strip() for line in file} - {""}
        for archive, friends in CORES.items():
            path = os.path.join(lib, archive)
            if not os.path.isfile(path):
                self.report(path, 0, "symbols", "archive is missing: build it first")
                continue
            if archive == "libwalle-gateway-svc.a":
                self.check_calls(path)
            own = symbols(path, "--defined-only")
            known = set().union(*(symbols(os.path.join(lib, f), "--defined-only") for f in friends)) if friends else set()
            for symbol in sorted(symbols(path, "--undefined-only") - own):
                if SANITIZER.match(symbol) or f"{archive[9:-2]} {symbol}" in allowed:
                    continue
                if REAL_WORLD.match(symbol):
                    self.report(archive, 0, "symbols", f"{symbol}: the core reaches for the outside world; take a port")
                elif symbol not in known and symbol not in allowed:
                    self.report(archive, 0, "symbols", f"{symbol} is not in tests/tidy/core_symbols")

    def run(self, lib=None, formatting=True):
        for name in self.files:
            if name.endswith((".c", ".h", ".cu", ".cuh")):
                lines = self.read(name)
                self.check_includes(name, lines)
                self.check_parts(name, lines)
                self.check_pipeline(name, lines)
                self.check_routes(name, lines)
                self.check_members(name, lines)
                self.check_sizes(name, lines)
                self.check_parameters(name, lines)
                self.check_private(name, lines)
                self.check_banned(name, lines)
                self.check_keyed(name, lines)
                self.check_shape(name, lines)
                self.check_words(name, lines)
            elif name.endswith("CMakeLists.txt"):
                self.check_cmake(name, self.read(name))
                self.check_words(name, self.read(name))
            elif name.endswith(".md"):
                lines = self.read(name)
                self.check_page(name, lines)
                self.check_links(name, lines)
                if name in NAMING_PAGES:
                    self.check_named(name, lines)
                if name == WALKS_PAGE:
                    self.check_walks(name, lines)
                self.check_words(name, lines)
            elif name.endswith((".py", ".sh", ".conf", ".cmake", ".json")) or "." not in os.path.basename(name):
                self.check_words(name, self.read(name))
        self.check_names()
        self.check_folders()
        self.check_private_by_use()
        self.check_asserts()
        if formatting:
            self.check_format()
        if lib:
            self.check_symbols(lib)
        return self.findings


def prose_of(lines):
    """(number, line) of what stands outside of fences."""
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield number, line


def strip_comment(line, in_comment):
    """Code of a line without comments and string contents."""
    line = re.sub(r'"(\\.|[^"\\])*"', '""', line)
    out = ""
    while line:
        if in_comment:
            end = line.find("*/")
            if end < 0:
                return out, True
            line, in_comment = line[end + 2:], False
            continue
        line_comment, block = line.find("//"), line.find("/*")
        if line_comment >= 0 and (block < 0 or line_comment < block):
            return out + line[:line_comment], False
        if block < 0:
            return out + line, False
        out, line, in_comment = out + line[:block], line[block + 2:], True
    return out, in_comment


def symbols(path, which):
    run = subprocess.run(["nm", "-P", which, path], capture_output=True, text=True, check=True)
    return {line.split()[0] for line in run.stdout.splitlines() if line and not line.endswith(":")}


# ---- self-test: each rule broken once -------------------------------------------------------------------------

OPENING = "// A file.\n// Called by tests.\n// On any thread.\n"
GOOD = OPENING + '#include "policy/good.h"\n\nint pol_good(void)\n{\n    pol_assert(1);\n    return 1;\n}\n'
GOOD_H = "#ifndef POL_GOOD_H\n#define POL_GOOD_H\n\nint pol_good(void);\n\n#endif\n"
LONG = "word " * 30


def including(guard, header):
    return f'#ifndef {guard}_H\n#define {guard}_H\n\n#include "{header}"\n\n#endif\n'


GOOD_PAGE = (f"# {LONG}\n\n## The 2. `good` part\n\n[{LONG}](good.md#the-2-good-part)\n\n`{LONG}`\n\n| a | b |\n|---|---|\n| {LONG} | `x \\| y` |\n\n"
             f"```sh\n| {LONG}\n```\n")
# Rule, where it is found, and what that file holds; or several files and what they hold.
BREAKS = [
    ("dependency", "policy/bad.c", '// A file.\n#include "base/status.h"\n'),
    ("dependency", "device/core/bad.c", '// A file.\n#include "http/worker.h"\n'),
    ("dependency", "policy/CMakeLists.txt", "walle_library(NAME policy DIR . USES base)\n"),
    ("parameters", "engine/base/bad.c", OPENING + "int bad(int a, int b, int c, int d, int (*e)(int, int),\n        int f)\n{\n    return 1;\n}\n"),
    ("routes", "gateway/http/bad.c", OPENING + 'static const char bad[] = "/v1/checkin";\n'),
    ("parts", "gateway/svc/access/bad.c", OPENING + '#include "svc/rollout/rollouts.h"\n'),
    ("parts", "gateway/svc/bad.c", OPENING + '#include "svc/access/access.h"\n'),
    ("parts", "gateway/svc/new/bad.c", OPENING),
    ("folder", "engine/lower", {f"engine/lower/bad{i}.c": OPENING for i in range(FOLDER_FILES_MAX + 1)}),
    ("folder", "engine/lower/bad.h", {"engine/lower/bad.h": including("LOWER", "model/bad_model.h"),
                                      "engine/model/bad_model.h": including("MODEL", "program/bad_program.h"),
                                      "engine/program/bad_program.h": including("PROGRAM", "lower/bad.h")}),
    ("parts", "device/pipeline/record/bad.c", OPENING + '#include "pipeline/trigger/trigger.h"\n'),
    ("parts", "device/pipeline/stream/bad.c", OPENING + '#include "pipeline/pipeline.h"\n'),
    ("parts", "device/pipeline/new/bad.c", OPENING),
    ("members", "device/core/offer/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    task->lease.held = false;\n}\n"),
    ("members", "device/core/run/bad.c", OPENING + "void f(void)\n{\n    runtime->tasks[i].content.repairs++;\n}\n"),
    ("members", "device/core/device_state.c", OPENING + "void f(struct dev_task *task)\n{\n    task->content = *other;\n}\n"),
    ("members", "device/core/pull/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    g(&task->lease);\n}\n"),
    ("members", "device/core/slots/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    task->runs.beside.digest = 0;\n}\n"),
    ("members", "device/core/slots/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    task->offer.again = none;\n}\n"),
    ("members", "device/core/sweep/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    memset(&task->offer.newest_manifest, 0, 1);\n}\n"),
    ("members", "device/core/sweep/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    task->incoming.leftover = false;\n}\n"),
    ("members", "device/core/offer/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    task->slots.active.by = task->offer.accepted_by;\n}\n"),
    ("members", "device/core/run/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    g(&task->slots);\n}\n"),
    ("members", "device/core/sweep/bad.c", OPENING + "void f(struct dev_task *task)\n{\n    task->listed++;\n}\n"),
    ("asserts", "policy/stat/bad.c", OPENING + "int pol_bad(void)\n{\n" + "    // base_assert(true);\n" * 20 + "}\n"),
    ("asserts", "engine/lower", {"engine/lower/bad.c": OPENING + "int eng_bad(void)\n{\n    return 1;\n}\n"}),
    ("door", "gateway/svc/bad.c", OPENING + "#include <lmdb.h>\n"),
    ("door", "device/core/bad.c", OPENING + "#include <sys/socket.h>\n"),
    ("size", "policy/bad.c", OPENING + "\n" * (FILE_LINES_MAX + 1)),
    ("size", "policy/bad.c", OPENING + "int f(void)\n{\n" + "    f();\n" * (FUNCTION_LINES_MAX + 1) + "}\n"),
    ("private", "policy/bad_private.h", GOOD_H.replace("int pol_good(void);", "int pol_good(void);\n" * PRIVATE_LINES_MAX)),
    ("size", "policy/bad.c", OPENING + "// " + "x" * LINE_COLUMNS_MAX + "\n"),
    ("private", "policy/stat/bad.h", {"policy/stat/bad.h": GOOD_H.replace("int pol_good(void);", "int pol_good(void);\n" * PRIVATE_LINES_MAX),
                                      **{f"policy/stat/use{i}.c": OPENING + '#include "policy/stat/bad.h"\n' for i in range(PRIVATE_FILES)}}),
    ("parts", "gateway/svc/core_worker.h", including("WORKER", "svc/plan/cohort.h")),
    ("banned", "policy/sub/bad.c", OPENING + '#include "../good.h"\n'),
    ("banned", "gateway/svc/bad.c", OPENING + "#include <svc/core.h>\n"),
    ("banned", "policy/bad.c", OPENING + "void f(char *a)\n{\n    strcpy(a, a);\n}\n"),
    ("banned", "device/core/bad.c", OPENING + "void f(void)\n{\n    clock_gettime(0, 0);\n}\n"),
    ("banned", "device/vm/bad.c", OPENING + "double f(void)\n{\n    return strtod(0, 0);\n}\n"),
    ("keyed", "gateway/svc/bad.c", OPENING + "int f(void)\n{\n    return (int)base_hash64(0, 0);\n}\n"),
    ("keyed", "gateway/tunnel/bad.c", OPENING + "void f(void)\n{\n    HASH_ADD(hh, a, b, 1, c);\n}\n"),
    ("terminal", "gateway/cli/bad.c", OPENING + "int main(void)\n{\n    return 0;\n}\n"),
    ("terminal", "gateway/cli/bad.c", OPENING + "void f(void)\n{\n    write(STDOUT_FILENO, 0, 0);\n}\n"),
    ("terminal", "gateway/cli/bad.c", '// A file.\nvoid f(void)\n{\n    puts("\\033[2J");\n}\n'),
    ("shape", "policy/bad.h", "int f(void);\n"),
    ("shape", "policy/bad.c", "int f(void);\n"),
    ("shape", "policy/bad.c", "// A file.\n// Called by tests.\nint f(void);\n"),
    ("shape", "policy/bad.c", "// A file.\n" * (OPENING_LINES_MAX + 1) + "int f(void);\n"),
    ("shape", "policy/bad.c", {"policy/bad.c": OPENING + '#include "policy/good.h"\n', "policy/bad.h": GOOD_H.replace("GOOD", "BAD")}),
    ("shape", "policy/bad.c", OPENING + "int f(void)\n{\n\treturn 1;\n}\n"),
    ("format", "policy/bad.c", OPENING + "int f( void )\n{\n    return 1;\n}\n"),
    ("names", "policy/sub/good.c", OPENING),
    ("words", "docs/bad.md", "see /wor" + "k/main\n"),
    ("link", "docs/bad.md", "see [it](../policy/gone.c)\n"),
    ("link", "docs/bad.md", "see [it](good.md#the-3-part)\n"),
    ("walk", "docs/ARCHITECTURE.md", "**A walk: 2 steps.**\n\n| step | function | file |\n|---|---|---|\n| 1 | `pol_good` | `good.c` | what |\n\nEnd.\n"),
    ("walk", "docs/ARCHITECTURE.md", "**A walk: 1 steps.**\n\n| step | function | file |\n|---|---|---|\n| 2 | `pol_good` | `good.c` | what |\n\nEnd.\n"),
    ("walk", "docs/ARCHITECTURE.md", "**A walk: 1 steps.**\n\n| step | function | file |\n|---|---|---|\n| 1 | pol_good | `good.c` | what |\n\nEnd.\n"),
    ("walk", "docs/ARCHITECTURE.md", "| step | function | file |\n|---|---|---|\n| 1 | `pol_gone` | `good.c` | what |\n"),
    ("named", "docs/HACKING.md", "see `good.h`, `policy/good.c` and `policy/gone.c`\n"),
    ("page", "docs/bad.md", "```\nopen to the end\n"),
    ("page", "docs/bad.md", "```\nopen\n\n```sh\nls\n```\n"),
    ("page", "docs/bad.md", "```\nopen\n| a | b |\n|---|---|\n| 1 | 2 |\n"),
    ("page", "docs/bad.md", "| 1 | 2 |\n| 3 | 4 |\n"),
    ("page", "docs/bad.md", "| a | b |\n|---|---|\n| 1 |\n"),
    ("page", "docs/bad.md", LONG + "\n"),
]


# Rule, what its finding names, files, and archives with the sources they are made of; None: the archive is not there.
BROKEN_ARCHIVES = [
    ("symbols", "is missing", {}, {"libwalle-gateway-svc.a": None}),
    ("symbols", "malloc is not in", {}, {"libwalle-policy.a": {"bad.c": "void *malloc(unsigned long); void *f(void) { return malloc(1); }"}}),
    ("symbols", "base_clock_mono_us: the core", {},
     {"libwalle-policy.a": {"bad.c": "int base_clock_mono_us(void); int f(void) { return base_clock_mono_us(); }"}}),
    ("parts", "gw_high is of gateway/svc/view/high.c", {"gateway/svc/view/high.c": OPENING, "gateway/svc/access/low.c": OPENING},
     {"libwalle-gateway-svc.a": {"high.c": "int gw_high(void) { return 1; }", "low.c": "int gw_high(void); int gw_low(void) { return gw_high(); }"}}),
]


class Scratch:
    """A clean tree, and what is broken in it."""

    def __init__(self, root):
        self.root = root
        for name, content in {"policy/good.c": GOOD, "policy/good.h": GOOD_H, "engine/base/status.h": GOOD_H,
                              "gateway/http/worker.h": GOOD_H.replace("good", "worker"), "docs/good.md": GOOD_PAGE}.items():
            self.write(name, content)

    def write(self, name, content):
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def archive(self, name, sources):
        """An archive of what the files of `sources` define and call, its members named as CMake names them."""
        objects = []
        for source, code in sources.items():
            self.write(os.path.join("lib", source), code)
            path = os.path.join(self.root, "lib", source)
            subprocess.run(["cc", "-w", "-c", path, "-o", path + ".o"], check=True)
            objects.append(path + ".o")
        subprocess.run(["ar", "rc", os.path.join(self.root, "lib", name), *objects], check=True)
        for path in objects:
            os.remove(path)
            os.remove(path[:-2])

    def archives(self, broken):
        """All core archives, those of `broken` with what is wrong in them."""
        self.write("tests/tidy/core_symbols", "memcpy\n")
        for name in sorted(set(CORES) | {friend for friends in CORES.values() for friend in friends}):
            if broken.get(name, ()) is not None:
                self.archive(name, broken.get(name, {f"empty_{name[9:-2].replace('-', '_')}.c": "extern int nothing;"}))
        return os.path.join(self.root, "lib")


def report_places():
    """The lines of this file that report something."""
    with open(os.path.realpath(__file__), encoding="utf-8") as file:
        tree = ast.parse(file.read())
    return {node.lineno for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "report"}


def self_test():
    failures, places = 0, set()
    everything = [
        *((rule, path, text, None) for rule, path, text in BREAKS), *BROKEN_ARCHIVES]
    for rule, path, text, broken in everything:
        with tempfile.TemporaryDirectory() as root:
            scratch = Scratch(root)
            formatting = rule == "format"
            if formatting:
                scratch.write(".clang-format", "IndentWidth: 4\nBreakBeforeBraces: Linux\nColumnLimit: 100\n")
            lib = scratch.archives({}) if broken is not None else None
            clean = Tidy(root).run(lib, formatting)
            for name, content in (text if isinstance(text, dict) else {path: text}).items():
                scratch.write(name, content)
            if broken is not None:
                shutil.rmtree(lib)
                scratch.archives(broken)
            tidy = Tidy(root)
            hit = any(f": {rule}: " in finding and (path in finding if lib else finding.startswith(path)) for finding in tidy.run(lib, formatting))
            places |= tidy.places
            if clean or not hit:
                failures += 1
                print(f"self-test: rule {rule} on {path}: clean {clean}, broken {tidy.findings}")
    unbroken = sorted(report_places() - places)
    for line in unbroken:
        print(f"self-test: line {line} of tidy.py reported nothing: add what breaks its rule to BREAKS")
    print(f"self-test: {len(everything) - failures} of {len(everything)} broken trees reported, "
          f"{len(report_places()) - len(unbroken)} of {len(report_places())} places that report")
    return 1 if failures or unbroken else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=".")
    parser.add_argument("--lib", help="folder with the built archives")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    findings = Tidy(os.path.abspath(options.root)).run(options.lib)
    for finding in findings:
        print(finding)
    print(f"tidy: {len(findings)} finding(s)")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
