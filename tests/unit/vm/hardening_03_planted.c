// Planted damage in real bytecode: the scripts of conf/tasks, tests/hostile_scripts and bench are
// compiled; the verifier passes each, and refuses each copy in which one jump leads to where no
// instruction begins, one index is beyond its table, one instruction takes instead of giving, one
// function declares too small stacks, or is said to be native.
//
// Where an instruction begins and what operand it has is worked out here from the formats that the
// interpreter itself defines (py/bc0.h), not from the verifier's tables.
#include "vm_kit.h"

#include "vm/mpy/mpy_check.h"

#include "py/bc0.h"

#include <dirent.h>

#define SOURCE_MAX   (64 * 1024)
#define FILE_MAX     (64 * 1024)
#define SCRIPTS_MIN  20  // that are looked at
#define PLANTED_MIN  500 // of each kind of which many are possible
#define OP_TUPLE     10  // MP_PERSISTENT_OBJ_TUPLE
#define OP_ELLIPSIS  4   // types up to this one are nothing else
#define BIG_OPERAND  0x7F
#define JUMPS_TRIED  8
#define LOCALS_SHORT 15 // highest local that one byte tells of

enum kind { JUMP, INDEX, STACK, SLOTS, BLOCKS, NATIVE, KINDS };

struct planted {
    uint8_t *bytes;
    size_t size;
    size_t at; // of the reader
    size_t names;
    size_t constants;
    const char *script;
    size_t counts[KINDS];
};

struct function {
    size_t head; // where its bytes begin
    size_t code; // where its instructions do
    size_t end;
    size_t slots; // that it declares
    size_t blocks;
    size_t children;
    bool starts[DEV_MPY_FUNCTION_MAX];
    bool landed[DEV_MPY_FUNCTION_MAX]; // a jump leads there
};

struct instruction {
    uint8_t op;
    size_t at;
    size_t operand; // where it is; the end where there is none
    size_t end;
};

static struct function function;

// ---- Reading

static size_t number_read(struct planted *planted)
{
    size_t value = 0;
    uint8_t byte;
    do {
        assert_true(planted->at < planted->size);
        byte = planted->bytes[planted->at++];
        value = value << 7 | (byte & 0x7F);
    } while ((byte & 0x80) != 0);
    return value;
}

static void constant_skip(struct planted *planted)
{
    uint8_t type = planted->bytes[planted->at++];
    if (type <= OP_ELLIPSIS) {
        return;
    }
    size_t size = number_read(planted);
    if (type == OP_TUPLE) {
        for (size_t i = 0; i < size; i++) {
            constant_skip(planted);
        }
        return;
    }
    planted->at += size + (type <= OP_ELLIPSIS + 2 ? 1 : 0); // texts and bytes have an end
}

static void tables_skip(struct planted *planted)
{
    planted->at = 4;
    planted->names = number_read(planted);
    planted->constants = number_read(planted);
    for (size_t i = 0; i < planted->names; i++) {
        size_t coded = number_read(planted);
        planted->at += (coded & 1) != 0 ? 0 : (coded >> 1) + 1;
    }
    for (size_t i = 0; i < planted->constants; i++) {
        constant_skip(planted);
    }
}

static struct instruction instruction_at(const struct planted *planted, size_t at)
{
    const uint8_t *bytes = planted->bytes;
    struct instruction one = {.op = bytes[at], .at = at, .operand = at + 1, .end = at + 1};
    unsigned format = MP_BC_FORMAT(one.op);
    size_t extra = (one.op & MP_BC_MASK_EXTRA_BYTE) == 0;
    if (format == MP_BC_FORMAT_QSTR || format == MP_BC_FORMAT_VAR_UINT) {
        while ((bytes[one.end++] & 0x80) != 0) {
        }
    } else if (format == MP_BC_FORMAT_OFFSET) {
        one.end += (bytes[one.end] & 0x80) == 0 ? 1 : 2;
    }
    one.end += format == MP_BC_FORMAT_QSTR ? 0 : extra;
    return one;
}

static bool jumps_signed(uint8_t op)
{
    return op == MP_BC_UNWIND_JUMP || op == MP_BC_JUMP || op == MP_BC_POP_JUMP_IF_TRUE ||
           op == MP_BC_POP_JUMP_IF_FALSE;
}

// Where it leads with this operand of one byte, from the beginning of the file; may be outside.
static ptrdiff_t target_of(const struct instruction *one, uint8_t operand)
{
    ptrdiff_t behind =
        (ptrdiff_t)one->operand + 1; // an extra byte is behind the place it counts from
    return behind + operand - (jumps_signed(one->op) ? 0x40 : 0);
}

static ptrdiff_t target_now(const struct planted *planted, const struct instruction *one)
{
    const uint8_t *operand = planted->bytes + one->operand;
    if ((operand[0] & 0x80) == 0) {
        return target_of(one, operand[0]);
    }
    ptrdiff_t far = (operand[0] & 0x7F) | operand[1] << 7;
    return (ptrdiff_t)one->operand + 2 + far - (jumps_signed(one->op) ? 0x4000 : 0);
}

static void head_read(const struct planted *planted)
{
    size_t at = function.head;
    uint8_t byte = planted->bytes[at++];
    function.slots = (byte >> 3 & 0xF) + 1U;
    function.blocks = byte >> 2 & 1;
    for (unsigned n = 0; (byte & 0x80) != 0; n++) {
        byte = planted->bytes[at++];
        function.slots += (size_t)(byte & 0x30) << (2 * n);
        function.blocks |= (size_t)(byte & 2) << n;
    }
    size_t info = 0;
    size_t cells = 0;
    unsigned m = 0;
    do {
        byte = planted->bytes[at++];
        cells |= (size_t)(byte & 1) << m;
        info |= (size_t)(byte >> 1 & 0x3F) << (6 * m++);
    } while ((byte & 0x80) != 0);
    function.code = at + info + cells;
}

static void places_read(const struct planted *planted)
{
    memset(function.starts, 0, sizeof(function.starts));
    memset(function.landed, 0, sizeof(function.landed));
    for (size_t at = function.code; at < function.end;) {
        struct instruction one = instruction_at(planted, at);
        function.starts[at - function.head] = true;
        if (MP_BC_FORMAT(one.op) == MP_BC_FORMAT_OFFSET) {
            ptrdiff_t target = target_now(planted, &one);
            assert_true(target >= (ptrdiff_t)function.code && target < (ptrdiff_t)function.end);
            function.landed[(size_t)target - function.head] = true;
        }
        at = one.end;
    }
}

// ---- Planting

static void refused(struct planted *planted, enum kind kind, size_t at)
{
    struct dev_mpy_fault fault = {.what = NULL};
    if (dev_mpy_check(planted->bytes, planted->size, &fault) == BASE_OK) {
        fail_msg("%s: damage of kind %d at byte %zu (%02x) is not seen", planted->script, (int)kind,
                 at, planted->bytes[at]);
    }
    assert_non_null(fault.what);
    assert_true(fault.offset <= planted->size);
    planted->counts[kind]++;
}

static void plant(struct planted *planted, enum kind kind, size_t at, uint8_t byte)
{
    uint8_t kept = planted->bytes[at];
    if (kept == byte) {
        return;
    }
    planted->bytes[at] = byte;
    refused(planted, kind, at);
    planted->bytes[at] = kept;
}

// Operands that lead to no instruction, from all over the range.
static void jump_plant(struct planted *planted, const struct instruction *one)
{
    if ((planted->bytes[one->operand] & 0x80) != 0) {
        return;
    }
    unsigned tried = 0;
    for (unsigned i = 0; i < 0x80 && tried < JUMPS_TRIED; i++) {
        uint8_t operand = (uint8_t)(i * 37 & 0x7F);
        ptrdiff_t target = target_of(one, operand);
        bool lands = target >= (ptrdiff_t)function.code && target < (ptrdiff_t)function.end &&
                     function.starts[(size_t)target - function.head];
        if (!lands) {
            plant(planted, JUMP, one->operand, operand);
            tried++;
        }
    }
}

// How many there are of what its operand is an index of; 0: it is none.
static size_t table_of(const struct planted *planted, const struct instruction *one)
{
    switch (one->op) {
    case MP_BC_LOAD_CONST_OBJ:
        return planted->constants + 1;
    case MP_BC_MAKE_FUNCTION:
    case MP_BC_MAKE_FUNCTION_DEFARGS:
    case MP_BC_MAKE_CLOSURE:
    case MP_BC_MAKE_CLOSURE_DEFARGS:
        return function.children + 1;
    case MP_BC_LOAD_FAST_N:
    case MP_BC_STORE_FAST_N:
    case MP_BC_DELETE_FAST:
    case MP_BC_LOAD_DEREF:
    case MP_BC_STORE_DEREF:
    case MP_BC_DELETE_DEREF:
        return function.slots + 1;
    default:
        return MP_BC_FORMAT(one->op) == MP_BC_FORMAT_QSTR ? planted->names + 1 : 0;
    }
}

static void index_plant(struct planted *planted, const struct instruction *one)
{
    size_t table = table_of(planted, one);
    if (table > 0 && table <= BIG_OPERAND && (planted->bytes[one->operand] & 0x80) == 0) {
        plant(planted, INDEX, one->operand, BIG_OPERAND);
    }
    bool loads = one->op >= MP_BC_LOAD_FAST_MULTI && one->op < MP_BC_LOAD_FAST_MULTI + 16;
    bool stores = one->op >= MP_BC_STORE_FAST_MULTI && one->op < MP_BC_STORE_FAST_MULTI + 16;
    if ((loads || stores) && function.slots <= LOCALS_SHORT) {
        plant(planted, INDEX, one->at,
              (uint8_t)((loads ? MP_BC_LOAD_FAST_MULTI : MP_BC_STORE_FAST_MULTI) + LOCALS_SHORT));
    }
}

static bool gives(uint8_t op)
{
    return op == MP_BC_LOAD_CONST_NONE || op == MP_BC_LOAD_CONST_TRUE ||
           op == MP_BC_LOAD_CONST_FALSE || op == MP_BC_LOAD_NULL ||
           (op >= MP_BC_LOAD_CONST_SMALL_INT_MULTI && op < MP_BC_STORE_FAST_MULTI);
}

static bool goes_on(uint8_t op)
{
    return op != MP_BC_RETURN_VALUE && op != MP_BC_JUMP && op != MP_BC_RAISE_OBJ &&
           op != MP_BC_RAISE_LAST && op != MP_BC_RAISE_FROM && op != MP_BC_POP_EXCEPT_JUMP &&
           op != MP_BC_UNWIND_JUMP;
}

static void code_plant(struct planted *planted)
{
    bool reached = true;
    bool sets_up = false;
    for (size_t at = function.code; at < function.end;) {
        struct instruction one = instruction_at(planted, at);
        reached = reached || function.landed[at - function.head];
        if (MP_BC_FORMAT(one.op) == MP_BC_FORMAT_OFFSET) {
            jump_plant(planted, &one);
        }
        index_plant(planted, &one);
        if (reached && gives(one.op)) {
            plant(planted, STACK, at, MP_BC_POP_TOP);
        }
        sets_up =
            sets_up || (reached && (one.op == MP_BC_SETUP_WITH || one.op == MP_BC_SETUP_EXCEPT ||
                                    one.op == MP_BC_SETUP_FINALLY));
        reached = reached && goes_on(one.op);
        at = one.end;
    }
    uint8_t first = planted->bytes[function.head];
    if (sets_up && function.blocks == 1) {
        plant(planted, BLOCKS, function.head, first & (uint8_t)~4U);
    }
    if ((first & 0x80) == 0 && function.slots >= 4) { // one slot where several are used
        plant(planted, SLOTS, function.head, first & (uint8_t)~0x78U);
    }
}

// A function, then those in it. Depth is the compiler's.
static void function_plant(struct planted *planted)
{
    size_t coded_at = planted->at;
    size_t coded = number_read(planted);
    size_t last = planted->at - 1; // kind and nesting are its low bits
    function = (struct function){.head = planted->at};
    function.end = planted->at += coded >> 3;
    function.children = (coded & 4) != 0 ? number_read(planted) : 0;
    size_t children = function.children;
    assert_true(coded_at < planted->size && function.end <= planted->size);
    for (uint8_t kind = 1; kind <= 3; kind++) {
        plant(planted, NATIVE, last, planted->bytes[last] | kind);
    }
    head_read(planted);
    places_read(planted);
    code_plant(planted);
    for (size_t i = 0; i < children; i++) {
        function_plant(planted);
    }
}

static bool script_plant(struct planted *planted, const char *path)
{
    static char source[SOURCE_MAX];
    struct dev_mpy_fault fault;
    struct base_error error;
    uint8_t *mpy = NULL;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    size_t size = fread(source, 1, sizeof(source), file);
    (void)fclose(file);
    enum base_status status = dev_vm_compile((struct base_str){source, size}, BASE_STR("script.py"),
                                             &mpy, &planted->size, &error);
    if (status != BASE_OK) { // of newer Python
        (void)fprintf(stderr, "%s: %s\n", path, error.text);
        return false;
    }
    planted->bytes = mpy;
    planted->script = path;
    if (dev_mpy_check(mpy, planted->size, &fault) != BASE_OK) {
        fail_msg("%s is refused: %s", path, fault.what);
    }
    tables_skip(planted);
    function_plant(planted);
    assert_int_equal(planted->at, planted->size);
    assert_int_equal(dev_mpy_check(mpy, planted->size, &fault), BASE_OK); // all was put back
    free(mpy);
    return true;
}

static size_t folder_plant(struct planted *planted, const char *folder, const char *beginning)
{
    char path[1024];
    size_t count = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", WALLE_SOURCE_DIR, folder);
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        size_t length = strlen(entry->d_name);
        if (length > 3 && strcmp(entry->d_name + length - 3, ".py") == 0 &&
            strncmp(entry->d_name, beginning, strlen(beginning)) == 0) {
            (void)snprintf(path, sizeof(path), "%s/%s/%s", WALLE_SOURCE_DIR, folder, entry->d_name);
            count += script_plant(planted, path) ? 1 : 0;
        }
    }
    (void)closedir(dir);
    return count;
}

static void test_planted_damage_is_refused(void **state)
{
    static const char *const names[KINDS] = {"jumps",          "indices", "instructions",
                                             "declared slots", "blocks",  "kinds"};
    static const size_t wanted[KINDS] = {PLANTED_MIN, PLANTED_MIN, PLANTED_MIN, 10, 3, 100};
    (void)state;
    struct planted planted = {.bytes = NULL};
    size_t scripts = folder_plant(&planted, "tests/hostile_scripts", "") +
                     folder_plant(&planted, "conf/tasks/highlights", "") +
                     folder_plant(&planted, "conf/tasks/ipv", "") +
                     folder_plant(&planted, "conf/tasks/ipv_events", "") +
                     folder_plant(&planted, "conf/tasks/ipv_v2", "") +
                     folder_plant(&planted, "bench", "vm_");
    (void)fprintf(stderr, "%zu scripts;", scripts);
    for (unsigned i = 0; i < KINDS; i++) {
        (void)fprintf(stderr, " %zu %s", planted.counts[i], names[i]);
    }
    (void)fprintf(stderr, " refused\n");
    assert_true(scripts >= SCRIPTS_MIN);
    for (unsigned i = 0; i < KINDS; i++) {
        assert_true(planted.counts[i] >= wanted[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_planted_damage_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
