// Scripts from a stranger, as source: compiled as the build tool compiles them, run under small
// budgets, and checked for an end that is one of those a run may have. The sanitizers look for the
// rest; they see each block of a script's heap as if it came from malloc.
//
// An input that begins with '#' is source itself: seeds and findings are readable. Of any other,
// each byte chooses among the texts of source_grammar.h, which make a program over what a script
// can import: operands of every kind, classes whose special methods change what is being worked
// on, buffers that grow while they are looked at, numbers too large for anything.
#include "fuzz_target.h"

#include "source_grammar.h"

#include "base/error.h"
#include "vm/vm.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE_MAX       16384
#define DEPTH_MAX        4
#define STATEMENTS_MAX   12
#define INSTRUCTIONS_MAX 20000
#define TIME_MS          20000

struct maker {
    const uint8_t *data;
    size_t size;
    size_t at;
    char source[SOURCE_MAX];
    size_t length;
};

static struct dev_vm *vms[3];

static void start(void)
{
    static const uint32_t heaps_kib[] = {16, 64, 512};
    for (size_t i = 0; i < sizeof(vms) / sizeof(vms[0]); i++) {
        if (dev_vm_new(heaps_kib[i], &vms[i]) != BASE_OK) {
            __builtin_trap();
        }
    }
}

// The next choice; when the input is used up, always the first, which is always short.
static size_t choose(struct maker *maker, size_t count)
{
    return maker->at < maker->size ? maker->data[maker->at++] % count : 0;
}

static void put(struct maker *maker, const char *text, size_t size)
{
    if (size <= sizeof(maker->source) - maker->length) {
        memcpy(maker->source + maker->length, text, size);
        maker->length += size;
    }
}

static void put_string(struct maker *maker, const char *text)
{
    put(maker, text, strlen(text));
}

// A quoted text of `count` or fewer characters of an alphabet.
static void put_characters(struct maker *maker, const char *alphabet, size_t most)
{
    size_t letters = strlen(alphabet);
    size_t count = choose(maker, most + 1);
    put_string(maker, "'");
    for (size_t i = 0; i < count; i++) {
        put(maker, alphabet + choose(maker, letters), 1);
    }
    put_string(maker, "'");
}

static void put_text(struct maker *maker, const char *text, size_t indent, int depth);

static void put_one_of(struct maker *maker, const struct grammar_rule *rule, size_t indent,
                       int depth)
{
    size_t which = depth < DEPTH_MAX ? choose(maker, rule->count) : 0;
    put_text(maker, rule->texts[which], indent, depth + 1);
}

// Writes a text of the grammar: `@x` stands for a choice of rule x, a line break for one that keeps
// the indent.
static void put_text(struct maker *maker, const char *text, size_t indent, int depth)
{
    size_t lead = 0; // spaces the line begins with, while there is nothing else on it
    bool leading = true;
    for (const char *at = text; *at != '\0'; at++) {
        lead = *at == '\n' ? 0 : lead + (leading && *at == ' ');
        leading = *at == '\n' || (leading && *at == ' ');
        if (*at == '\n') {
            put(maker, "\n                ", 1 + (indent < 16 ? indent : 16));
        } else if (*at != '@') {
            put(maker, at, 1);
        } else {
            at++;
            const struct grammar_rule *rule = grammar_rule_of(*at);
            if (rule != NULL) {
                put_one_of(maker, rule, indent + lead, depth);
            } else if (*at == 'R') {
                put_characters(maker, "ab()[]*+?.|^$-dwsS:0", 14);
            } else if (*at == 'F') {
                put_characters(maker, "%{}:<>=^!,.*+-0129sdxfrcegb#_", 12);
            } else if (*at == 'P') {
                put_characters(maker, "0123456789bBhHiIlLqQsPfdx<>=@!", 8);
            } else if (*at == 'J') {
                put_characters(maker, "[]{}:,\"0123e+-.ntrufalse \\", 16);
            } else {
                __builtin_trap();
            }
        }
    }
}

static void program_make(struct maker *maker)
{
    put_string(maker, grammar_prelude);
    for (int i = 0; i < GRAMMAR_VARIABLES; i++) {
        char name[] = {'t', 'r', 'y', ':', ' ', 'v', (char)('0' + i), '=', '\0'};
        put_string(maker, name);
        put_text(maker, "@e\nexcept Exception: pass\n", 0, 1);
    }
    // What the special methods do meanwhile: two statements, each a few times.
    put_string(maker, "def hook():\n global n\n n += 1\n if n > 40: return\n");
    put_text(maker, " if n % 2:\n  @c\n else:\n  @c\n", 0, 1);
    size_t count = 1 + choose(maker, STATEMENTS_MAX);
    for (size_t i = 0; i < count && maker->at < maker->size; i++) {
        put_string(maker, "n = 0\ntry:\n ");
        put_text(maker, "@s", 1, 0);
        put_string(maker, "\nexcept Exception as e: x = e\n");
    }
}

static void run(struct base_str source, struct dev_vm *vm)
{
    uint8_t *mpy = NULL;
    size_t size = 0;
    struct base_error error = {.status = BASE_OK};
    if (dev_vm_compile(source, BASE_STR("main.py"), &mpy, &size, &error) != BASE_OK) {
        return;
    }
    struct dev_vm_module module = {.name = BASE_STR("main"), .mpy = mpy, .size = size};
    struct dev_vm_job job = {.modules = &module,
                             .module_count = 1,
                             .entry = BASE_STR("main"),
                             .config = BASE_STR("{\"a\": [1, {\"b\": null}]}"),
                             .input = BASE_STR("[1, 2.5, \"x\"]"),
                             .instruction_max = INSTRUCTIONS_MAX,
                             .time_ms = TIME_MS};
    struct dev_vm_result result;
    if (dev_vm_run(vm, &job, &result) != BASE_OK || result.end >= DEV_VM_END_COUNT ||
        result.end == DEV_VM_LOAD || memchr(result.message, 0, sizeof(result.message)) == NULL ||
        result.output.size > DEV_VM_OUTPUT_MAX) {
        __builtin_trap();
    }
    // What ran out of its time did too much for its units: a loop that is not counted.
    if (result.end == DEV_VM_BUDGET && strncmp(result.message, "time", 4) == 0) {
        __builtin_trap();
    }
    free(mpy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct maker maker;
    if (vms[0] == NULL) {
        start();
    }
    if (size == 0) {
        return 0;
    }
    if (data[0] == '#') {
        run((struct base_str){(const char *)data, size}, vms[1]);
        return 0;
    }
    maker.data = data + 1;
    maker.size = size - 1;
    maker.at = 0;
    maker.length = 0;
    program_make(&maker);
    run((struct base_str){maker.source, maker.length}, vms[data[0] % 3]);
    return 0;
}
