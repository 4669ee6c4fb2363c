// What a certificate is made of: its pack of bad releases, and the bounds that it states.
#include "test_kit.h"

#include "certify/certify.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void bounds_are_what_they_say(void **state)
{
    (void)state;
    assert_true(sim_certify_share(0) == 0);
    assert_true(fabs(sim_certify_share(1) - 0.05) < 1e-12);
    assert_true(sim_certify_share(58) < 0.95 && sim_certify_share(59) > 0.95);
    // Nothing seen: 1 - 0.05^(1/n). The others by summing the distribution.
    assert_true(fabs(sim_certify_rate_bound(0, 20) - (1 - pow(0.05, 1.0 / 20))) < 1e-9);
    assert_true(sim_certify_rate_bound(20, 20) == 1);
    for (uint32_t seen = 1; seen < 10; seen++) {
        double rate = sim_certify_rate_bound(seen, 10);
        double sum = 0;
        double ways = 1;
        for (uint32_t k = 0; k <= seen; k++) {
            sum += ways * pow(rate, k) * pow(1 - rate, 10 - k);
            ways = ways * (10 - k) / (k + 1);
        }
        assert_true(fabs(sum - 0.05) < 1e-6);
        assert_true(rate > (double)seen / 10);
    }
}

static void the_products_pack_can_be_read(void **state)
{
    (void)state;
    static struct sim_certify_pack pack;
    struct base_error error = {0};
    assert_int_equal(sim_certify_pack_read("", &pack, &error), BASE_OK);
    assert_true(pack.count > 3);
    assert_string_equal(pack.cases[0].name, "healthy");
    assert_string_equal(pack.cases[0].rule, "");
    for (uint32_t i = 1; i < pack.count; i++) {
        struct sim_bad_rule rule;
        assert_int_equal(sim_bad_rule_parse(base_str_of(pack.cases[i].rule), &rule, &error),
                         BASE_OK);
    }
    assert_int_equal(sim_certify_pack_read("/nowhere/at/all", &pack, &error), BASE_ERR_NOT_FOUND);
}

static void packs_that_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t size;
        const char *words;
    } rows[] = {
#define ROW(text, words) {text, sizeof(text) - 1, words}
        ROW("a: all => crash\n\na: all => hang\n", ":3: 'a' is the name of an earlier rule"),
        ROW("healthy: all => crash\n", ":1: 'healthy' is the release without a rule"),
        ROW("a: all => crash\0 @ 1%\n", ":1: a NUL byte"),
        ROW("a: all => crash\n# \0\n", ":2: a NUL byte"),
        ROW("a\x1b[2J: all => crash\n", ":1: NAME: RULE is expected, a name of 1 to 32 characters"),
        ROW("a: all => crash\n\0", ":2: a NUL byte"),
    };
    char path[] = "/tmp/walle-pack-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t i = 0; i < TEST_COUNT(rows); i++) {
        static struct sim_certify_pack pack;
        struct base_error error = {0};
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, rows[i].text, rows[i].size, 0), rows[i].size);
        assert_int_equal(sim_certify_pack_read(path, &pack, &error), BASE_ERR_INVALID);
        print_message("%s\n", error.text);
        assert_non_null(strstr(error.text, rows[i].words));
    }
    close(fd);
    unlink(path);
}

// A line may have so many bytes, its end not counted, and the last one needs no end.
static void lines_of_a_pack(void **state)
{
    (void)state;
    char path[] = "/tmp/walle-pack-XXXXXX";
    char text[600];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (size_t size = 509; size <= 512; size++) {
        static struct sim_certify_pack pack;
        struct base_error error = {0};
        memset(text, ' ', sizeof(text));
        memcpy(text, "a: all => crash", 15);
        text[size] = '\n';
        memcpy(text + size + 1, "b: all => hang", 14);
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, text, size + 15, 0), size + 15);
        enum base_status status = sim_certify_pack_read(path, &pack, &error);
        print_message("%zu: %s\n", size, error.text);
        assert_int_equal(status, size <= 510 ? BASE_OK : BASE_ERR_TOO_LARGE);
        assert_int_equal(pack.count, size <= 510 ? 3 : 1);
    }
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_what_they_say),
        cmocka_unit_test(the_products_pack_can_be_read),
        cmocka_unit_test(packs_that_are_refused),
        cmocka_unit_test(lines_of_a_pack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
