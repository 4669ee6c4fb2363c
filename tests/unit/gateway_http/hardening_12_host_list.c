// Which authorities are the gateway's own, and which settings are names at all.
#include "http/guard/host_list.h"

#include "test_kit.h"

static struct gw_host_list *list_of(const char *text)
{
    struct gw_host_list *list = NULL;
    struct base_error error = {0};
    if (gw_host_list_new(text, &list, &error) != BASE_OK) {
        fail_msg("'%s': %s", text, error.text);
    }
    return list;
}

static void expect(struct gw_host_list *list, const char *const *authorities, bool wanted)
{
    for (; *authorities != NULL; authorities++) {
        // A copy of exactly its size: nothing behind it may be read.
        size_t size = strlen(*authorities);
        char *copy = malloc(size > 0 ? size : 1);
        assert_non_null(copy);
        memcpy(copy, *authorities, size);
        if (gw_host_list_allows(list, (struct base_str){copy, size}) != wanted) {
            fail_msg("'%s': expected %d", *authorities, wanted);
        }
        free(copy);
    }
}

static void test_names_and_addresses(void **state)
{
    (void)state;
    static const char *const ours[] = {"localhost",           "LOCALHOST:1",
                                       "a.localhost",         "localhost.",
                                       "localhost.:80",       "127.0.0.1",
                                       "10.1.2.3:65535",      "[::1]",
                                       "[fe80::1]:80",        "fleet.example",
                                       "Fleet.EXAMPLE.:8443", "n1.pool.example",
                                       "localhost:",          NULL};
    static const char *const others[] = {"",
                                         ":80",
                                         ".",
                                         "localhostx",
                                         "xlocalhost",
                                         ".localhost",
                                         "localhost.example",
                                         "fleet.example.evil",
                                         "evil.fleet.example",
                                         "pool.example",
                                         "a.b.pool.example",
                                         "fleet.example:80x",
                                         "fleet.example:123456",
                                         "fleet.example:80:80",
                                         "1.2.3",
                                         "1.2.3.4.5",
                                         "1.2.3.256",
                                         "0x7f.0.0.1",
                                         "[::1",
                                         "::1",
                                         "[::1]x",
                                         "[]",
                                         "[127.0.0.1]",
                                         "user@localhost",
                                         "fleet.example\n",
                                         NULL};
    struct gw_host_list *list = list_of(" fleet.example, *.pool.example\t");
    expect(list, ours, true);
    expect(list, others, false);
    gw_host_list_unref(list);
    list = list_of("*");
    expect(list, ours, true);
    expect(list, others, true);
    gw_host_list_unref(gw_host_list_ref(list));
    gw_host_list_unref(list);
}

static void test_settings_that_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"a/b", "*.",       "**",    "a b*",
                                        ".a",  "http://a", "[::1]", "a:80"};
    for (size_t i = 0; i < TEST_COUNT(wrong); i++) {
        struct gw_host_list *list = NULL;
        struct base_error error = {0};
        assert_int_equal(gw_host_list_new(wrong[i], &list, &error), BASE_ERR_INVALID);
        assert_non_null(strstr(error.text, "listen.hosts: '"));
        assert_null(list);
    }
    struct gw_host_list *list = NULL;
    struct base_error error = {0};
    char many[2 * (GW_HOSTS_MAX + 1) + 1];
    for (size_t i = 0; i <= GW_HOSTS_MAX; i++) {
        memcpy(many + 2 * i, "a ", 3);
    }
    assert_int_equal(gw_host_list_new(many, &list, &error), BASE_ERR_LIMIT);
    assert_string_equal(error.text, "listen.hosts: more than 64 names");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_and_addresses),
        cmocka_unit_test(test_settings_that_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
