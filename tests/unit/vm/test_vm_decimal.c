// Numbers with a decimal point in scripts: literals, which go through the compiler and a task's
// bytes, and float() of a text come to the double that is nearest, as Python's do. 20,000 of them
// from a seed, beside the C library's strtod, which rounds correctly.
#include "vm_kit.h"

#include <math.h>

#define COUNT  20000
#define BATCH  500
#define TEXT   1200
#define SOURCE (BATCH * (2 * TEXT + 100))
#define SEED   20261130u

static uint64_t next_of(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 11 ^ *state >> 37;
}

static size_t digits_put(char *text, size_t count, uint64_t *state)
{
    for (size_t i = 0; i < count; i++) {
        text[i] = (char)('0' + next_of(state) % 10);
    }
    return count;
}

// Any double in 17 digits; half way between two, with all its digits; short ones; long ones.
static void text_make(char text[TEXT], uint64_t *state)
{
    uint64_t bits = (next_of(state) ^ next_of(state) << 32) & INT64_MAX;
    double value = 1;
    memcpy(&value, &bits, sizeof(value));
    value = isfinite(value) ? value : 0x1p-1074;
    size_t at = 0;
    switch (next_of(state) % 5) {
    case 0:
        (void)snprintf(text, TEXT, "%.17g", value);
        break;
    case 1: { // a neighbour's middle, and a little beside it
        double near =
            ldexp((double)(next_of(state) % (1u << 20)) + 0x1p52, (int)(next_of(state) % 60) - 80);
        long double middle = ((long double)near + (long double)nextafter(near, INFINITY)) / 2;
        at = (size_t)snprintf(text, TEXT, "%.80Lf", middle);
        text[at - 1] = (char)('0' + next_of(state) % 2);
        break;
    }
    case 2:
        at = digits_put(text, 1 + next_of(state) % 20, state);
        (void)snprintf(text + at, TEXT - at, "e%d", (int)(next_of(state) % 700) - 350);
        break;
    case 3:
        text[at++] = '0';
        text[at++] = '.';
        at += digits_put(text + at, 1 + next_of(state) % 25, state);
        (void)snprintf(text + at, TEXT - at, "e%d", (int)(next_of(state) % 40) - 20);
        break;
    default:
        at = digits_put(text, next_of(state) % (next_of(state) % 64 == 0 ? 500 : 30), state);
        text[at++] = '.';
        at += digits_put(text + at, 1 + next_of(state) % (next_of(state) % 64 == 0 ? 600 : 30),
                         state);
        (void)snprintf(text + at, TEXT - at, "e-%d", (int)(next_of(state) % 600));
    }
    for (at = 0; text[at] == '0' && text[at + 1] >= '0' && text[at + 1] <= '9'; at++) {
    }
    memmove(text, text + at, strlen(text + at) + 1); // no literal begins with zeros
    if (strpbrk(text, ".e") == NULL) {
        strcat(text, ".0");
    }
}

static size_t line_put(char *source, size_t room, const char *text, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return (size_t)snprintf(source, room,
                            "if b(%s) != %llu or b(float('%s')) != %llu: print('%.40s')\n", text,
                            (unsigned long long)bits, text, (unsigned long long)bits, text);
}

static const char head[] = "import struct\n"
                           "def b(x): return int.from_bytes(struct.pack('<d', x), 'little')\n";

static void source_run(struct vm_kit *kit, const char *source)
{
    kit_run_source(kit, source);
    kit_ended(kit, DEV_VM_FINISHED);
    kit_text_is(kit->result.output, "");
}

static void test_random_ones(void **state)
{
    struct vm_kit *kit = *state;
    uint64_t seed = SEED;
    char *source = malloc(SOURCE);
    assert_non_null(source);
    print_message("seed %u\n", SEED);
    for (uint32_t done = 0; done < COUNT; done += BATCH) {
        size_t at = (size_t)snprintf(source, SOURCE, "%s", head);
        for (uint32_t i = 0; i < BATCH; i++) {
            char text[TEXT];
            text_make(text, &seed);
            at += line_put(source + at, SOURCE - at, text, strtod(text, NULL));
        }
        source_run(kit, source);
    }
    free(source);
}

static void test_known_ones(void **state)
{
    static const char *const texts[] = {
        "5e-324",
        "2.4703282292062327e-324",
        "2.4703282292062328e-324",
        "2.2250738585072014e-308",
        "2.2250738585072011e-308",
        "1.7976931348623157e308",
        "1.7976931348623159e308",
        "1e23",
        "8.41e21",
        "9007199254740993.0",
        "9007199254740992.9999999999999999999",
        "123456789012345678e-30",
        "0.1",
        "1e22",
        "1e-22",
        "0.000000000000000000000000000000000001e36",
        "0e999999999999",
        "1e-999999999999",
        "1e999999999999",
    };
    char source[8192];
    size_t at = (size_t)snprintf(source, sizeof(source), "%s", head);
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        at += line_put(source + at, sizeof(source) - at, texts[i], strtod(texts[i], NULL));
    }
    (void)snprintf(source + at, sizeof(source) - at,
                   "if b(float(' -1_0.2_5e0_1 ')) != b(-102.5) or b(-0.0) != 1 << 63: print('x')\n"
                   "for t in ('1e', '1.2.3', '1x', '', '1e5e5'):\n"
                   "    try:\n        print(float(t))\n    except ValueError:\n        pass\n");
    source_run(*state, source);
}

static int setup(void **state)
{
    static struct vm_kit kit;
    kit_init(&kit, 4096);
    *state = &kit;
    return 0;
}

static int teardown(void **state)
{
    kit_done(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_ones),
        cmocka_unit_test(test_random_ones),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
