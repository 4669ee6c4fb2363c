// model.conf, and which models and versions a folder has: names that climb, links, policies, faults
// with the place where they are.
#include "infer_kit.h"

#include <sys/stat.h>
#include <unistd.h>

static struct gw_infer_settings parsed(const char *text)
{
    struct gw_infer_settings settings;
    struct base_error error = {0};
    gw_infer_settings_defaults(&settings);
    assert_int_equal(gw_infer_settings_parse(&settings, base_str_of(text), &error), BASE_OK);
    return settings;
}

static void test_settings(void **state)
{
    struct gw_infer_settings none = parsed("");
    struct gw_infer_settings all = parsed(
        "# how it is served\nmax_batch = 32  # rows\r\n\n batch_delay_us=500\ninstances = 2\n"
        "queue = 9\nversions = 3, 1\nwarm_rows = 1,32\naliases = best, top.1");
    (void)state;
    assert_int_equal(none.max_batch, 1);
    assert_int_equal(none.queue, GW_INFER_QUEUE_USUAL);
    assert_int_equal(all.max_batch, 32);
    assert_int_equal(all.batch_delay_us, 500);
    assert_int_equal(all.instances, 2);
    assert_int_equal(all.queue, 9);
    assert_int_equal(all.version_count, 2);
    assert_int_equal(all.versions[0], 3);
    assert_int_equal(all.warm_count, 2);
    assert_int_equal(all.warm_rows[1], 32);
    assert_string_equal(all.aliases[1], "top.1");
    assert_true(parsed("versions = all").all_versions);
    assert_int_equal(parsed("versions = latest").version_count, 0);
}

static void test_settings_refused(void **state)
{
    static const struct {
        const char *text;
        uint32_t line;
        const char *says;
    } cases[] = {
        {"max_batch = 0", 1, "max_batch: '0' is not a number from 1 to 128"},
        {"\nmax_batch = 129", 2, "max_batch: '129' is not a number from 1 to 128"},
        {"max_batch = x", 1, "max_batch: 'x' is not a number from 1 to 128"},
        {"max_batch", 1, "not KEY = VALUE"},
        {"batch = 2", 1, "'batch' is no setting of a model"},
        {"queue = 1\n#\nqueue = 2", 3, "queue: is set twice"},
        {"versions = 0", 1,
         "versions: '0' is not latest, all, or at most 8 numbers from 1 with commas"},
        {"versions = 1,", 1,
         "versions: '1,' is not latest, all, or at most 8 numbers from 1 with commas"},
        {"versions = 1,2,3,4,5,6,7,8,9", 1,
         "versions: '1,2,3,4,5,6,7,8,9' is not latest, all, or at most 8 numbers from 1 with "
         "commas"},
        {"warm_rows = 0", 1, "warm_rows: '0' is not at most 8 numbers from 1 to 128 with commas"},
        {"aliases = ../x", 1, "aliases: '../x' is not at most 8 names of models with commas"},
    };
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        struct gw_infer_settings settings;
        struct base_error error = {0};
        gw_infer_settings_defaults(&settings);
        assert_int_equal(gw_infer_settings_parse(&settings, base_str_of(cases[i].text), &error),
                         BASE_ERR_INVALID);
        assert_string_equal(error.text, cases[i].says);
        assert_int_equal(error.line, cases[i].line);
    }
}

static void test_names(void **state)
{
    static const char *const good[] = {"a", "resnet-50", "A.b_c", "0"};
    static const char *const bad[] = {"",     ".",   "..",   ".a",      "a/b",
                                      "../a", "a b", "a%2e", "\xc3\xa9"};
    char longest[GW_INFER_MODEL_NAME_MAX + 1];
    uint64_t number = 0;
    (void)state;
    memset(longest, 'a', sizeof(longest));
    for (size_t i = 0; i < TEST_COUNT(good); i++) {
        assert_true(gw_infer_name_ok(base_str_of(good[i])));
    }
    for (size_t i = 0; i < TEST_COUNT(bad); i++) {
        assert_false(gw_infer_name_ok(base_str_of(bad[i])));
    }
    assert_true(gw_infer_name_ok((struct base_str){longest, GW_INFER_MODEL_NAME_MAX}));
    assert_false(gw_infer_name_ok((struct base_str){longest, GW_INFER_MODEL_NAME_MAX + 1}));
    assert_true(gw_infer_version_number(BASE_STR("10"), &number) && number == 10);
    assert_false(gw_infer_version_number(BASE_STR("0"), &number));
    assert_false(gw_infer_version_number(BASE_STR("01"), &number));
    assert_false(gw_infer_version_number(BASE_STR("1x"), &number));
    assert_false(gw_infer_version_number(BASE_STR("99999999999999999999"), &number));
}

static void test_versions(void **state)
{
    struct infer_kit kit;
    struct gw_infer_found found;
    struct base_error error = {0};
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "m", "9", NULL);
    infer_kit_add(&kit, "m", "10", NULL);
    infer_kit_add(&kit, "m", "2", NULL);
    infer_kit_folder(&kit, "m/next");
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("m"), &found, &error), BASE_OK);
    assert_int_equal(found.version_count, 1);
    assert_int_equal(found.versions[0], 10);
    infer_kit_text(&kit, "m/model.conf", "versions = all");
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("m"), &found, &error), BASE_OK);
    assert_int_equal(found.version_count, 3);
    assert_int_equal(found.versions[0], 10);
    assert_int_equal(found.versions[1], 9);
    assert_int_equal(found.versions[2], 2);
    infer_kit_text(&kit, "m/model.conf", "versions = 2,3");
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("m"), &found, &error),
                     BASE_ERR_NOT_FOUND);
    infer_kit_text(&kit, "m/model.conf", "\nversion = 2");
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("m"), &found, &error),
                     BASE_ERR_INVALID);
    assert_string_equal(error.text, "m/model.conf:2: 'version' is no setting of a model");
    infer_kit_end(&kit);
}

static void test_places(void **state)
{
    struct infer_kit kit;
    struct gw_infer_found found;
    struct gw_infer_names *names = malloc(sizeof(*names));
    struct eng_model *model = NULL;
    struct base_error error = {0};
    char path[600];
    (void)state;
    infer_kit_begin(&kit);
    infer_kit_add(&kit, "b", "1", NULL);
    infer_kit_add(&kit, "a", "1", NULL);
    infer_kit_folder(&kit, ".hidden");
    infer_kit_text(&kit, "file", "x");
    snprintf(path, sizeof(path), "%s/link", kit.dir);
    assert_int_equal(symlink("a", path), 0);
    assert_int_equal(gw_infer_repository_list(kit.dir, names, &error), BASE_OK);
    assert_int_equal(names->count, 2);
    assert_string_equal(names->names[0], "a");
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("../a"), &found, &error),
                     BASE_ERR_INVALID);
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("link"), &found, &error),
                     BASE_ERR_INVALID);
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("file"), &found, &error),
                     BASE_ERR_INVALID);
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("c"), &found, &error),
                     BASE_ERR_NOT_FOUND);
    assert_int_equal(gw_infer_repository_look(kit.dir, BASE_STR("a"), &found, &error), BASE_OK);
    assert_int_equal(gw_infer_repository_load(kit.dir, &found, 1, &model, &error), BASE_OK);
    eng_model_unref(model);
    snprintf(path, sizeof(path), "%s/a/1/model.onnx", kit.dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("../../b/1/model.onnx", path), 0);
    assert_int_not_equal(gw_infer_repository_load(kit.dir, &found, 1, &model, &error), BASE_OK);
    assert_memory_equal(error.text, "a/1: ", 5);
    assert_int_equal(gw_infer_repository_list("/nonexistent", names, &error), BASE_ERR_NOT_FOUND);
    free(names);
    infer_kit_end(&kit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings), cmocka_unit_test(test_settings_refused),
        cmocka_unit_test(test_names),    cmocka_unit_test(test_versions),
        cmocka_unit_test(test_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
