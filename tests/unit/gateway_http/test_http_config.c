// The settings table, its file format, and conf/gateway.conf, which must show every row with its
// default and nothing else.
#include "http/config/http_config.h"

#include "test_kit.h"

#include <stdlib.h>
#include <string.h>

static struct base_str text(const char *from)
{
    return base_str_of(from);
}

static void expect_error(const char *file, uint32_t line, const char *message)
{
    struct gw_http_config config;
    struct base_error error = {0};
    gw_http_config_defaults(&config);
    assert_int_equal(gw_http_config_parse(&config, text(file), &error), BASE_ERR_INVALID);
    assert_int_equal(error.line, line);
    assert_string_equal(error.text, message);
}

static void test_defaults_are_within_their_ranges(void **state)
{
    (void)state;
    size_t count = 0;
    const struct gw_config_row *rows = gw_http_config_rows(&count);
    assert_true(count > 30);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].kind == GW_CONFIG_NUMBER) {
            assert_in_range(rows[i].number, rows[i].min, rows[i].max);
        }
        assert_true(strlen(rows[i].help) > 0);
    }
}

static void test_values_are_taken(void **state)
{
    (void)state;
    struct gw_http_config config;
    struct base_error error = {0};
    gw_http_config_defaults(&config);
    assert_int_equal(gw_http_config_parse(&config,
                                          text("# all\n\n  limits.body_bytes=4096 # four\r\n"
                                               "proxy.upstream = http://127.0.0.1:9000\n"
                                               "listen.tls =\n"
                                               "workers = 3"),
                                          &error),
                     BASE_OK);
    assert_int_equal(config.limits.body_bytes, 4096);
    assert_string_equal(config.upstream, "http://127.0.0.1:9000");
    assert_string_equal(config.listen_tls, "");
    assert_int_equal(config.workers, 3);
    assert_int_equal(config.limits.streams, 2048);
}

static void test_errors_say_what_and_where(void **state)
{
    (void)state;
    expect_error("\n\nlimits.body_bytes = abc\n", 3,
                 "limits.body_bytes: 'abc' is not a number between 1024 and 1073741824");
    expect_error("workers = 65", 1, "workers: '65' is not a number between 0 and 64");
    expect_error("workers = -1", 1, "workers: '-1' is not a number between 0 and 64");
    expect_error("workers =", 1, "workers: '' is not a number between 0 and 64");
    expect_error("workers = 99999999999999999999", 1,
                 "workers: '99999999999999999999' is not a number between 0 and 64");
    expect_error("tls.cert = a", 1, "unknown setting 'tls.cert': did you mean tls.certificate?");
    expect_error("# x\nworker = 1", 2, "unknown setting 'worker': did you mean workers?");
    expect_error("workers", 1, "'workers' is not a line 'key = value'");
    expect_error("workers = 1\nworkers = 1", 2, "workers is set twice");
    char longest[700];
    memset(longest, 'a', sizeof(longest));
    memcpy(longest, "proxy.upstream = ", 17);
    longest[sizeof(longest) - 1] = '\0';
    expect_error(longest, 1, "proxy.upstream: longer than 511 bytes");
}

static void test_fixed_settings_are_named(void **state)
{
    (void)state;
    struct gw_http_config a;
    struct gw_http_config b;
    gw_http_config_defaults(&a);
    b = a;
    assert_null(gw_http_config_fixed_change(&a, &b));
    b.limits.body_bytes++;
    assert_null(gw_http_config_fixed_change(&a, &b));
    b.workers++;
    assert_string_equal(gw_http_config_fixed_change(&a, &b), "workers");
}

static char *read_conf(void)
{
    FILE *file = fopen(WALLE_SOURCE_DIR "/conf/gateway.conf", "re");
    assert_non_null(file);
    char *content = calloc(1, GW_CONFIG_FILE_MAX);
    assert_non_null(content);
    assert_true(fread(content, 1, GW_CONFIG_FILE_MAX - 1, file) > 0);
    (void)fclose(file);
    return content;
}

static void test_the_file_shows_every_row(void **state)
{
    (void)state;
    char *content = read_conf();
    size_t count = 0;
    const struct gw_config_row *rows = gw_http_config_rows(&count);
    for (size_t i = 0; i < count; i++) {
        char line[GW_CONFIG_TEXT_MAX + 64];
        if (rows[i].kind == GW_CONFIG_NUMBER) {
            (void)snprintf(line, sizeof(line), "\n%s = %llu\n", rows[i].name,
                           (unsigned long long)rows[i].number);
        } else {
            (void)snprintf(line, sizeof(line), "\n%s =%s%s\n", rows[i].name,
                           rows[i].text[0] != '\0' ? " " : "", rows[i].text);
        }
        if (strstr(content, line) == NULL) {
            fail_msg("conf/gateway.conf lacks the line '%.*s'", (int)strlen(line) - 2, line + 1);
        }
    }
    free(content);
}

static void test_the_file_loads_as_the_defaults(void **state)
{
    (void)state;
    struct gw_http_config config;
    struct gw_http_config defaults;
    struct base_error error = {0};
    gw_http_config_defaults(&defaults);
    memset(&config, 0, sizeof(config));
    assert_int_equal(gw_http_config_load(&config, WALLE_SOURCE_DIR "/conf/gateway.conf", &error),
                     BASE_OK);
    assert_memory_equal(&config.limits, &defaults.limits, sizeof(config.limits));
    assert_null(gw_http_config_fixed_change(&config, &defaults));
    assert_int_equal(gw_http_config_load(&config, "/nonexistent/x.conf", &error),
                     BASE_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_within_their_ranges),
        cmocka_unit_test(test_values_are_taken),
        cmocka_unit_test(test_errors_say_what_and_where),
        cmocka_unit_test(test_fixed_settings_are_named),
        cmocka_unit_test(test_the_file_shows_every_row),
        cmocka_unit_test(test_the_file_loads_as_the_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
