// Lines of keys in the text of a JSON file: those of objects that look alike, of texts that look
// like objects, and where nothing is found.
#include "test_kit.h"

#include "cli/base/json_place.h"

#include <string.h>

static const char text[] = "{\n"
                           "  \"name\": \"a {\\\" \\\\\",\n"
                           "  \"files\": [\"x\", {\"name\": 1},\n"
                           "    {\"name\": {},\n"
                           "     \"size\" : 2}],\n"
                           "  \"config\": {\"size\":\n 1, \"list\": [[], [{\"size\": 1}]]},\n"
                           "  \"list\": [\"size\", \"last\"],\n"
                           "  \"\\u0041\": 1,\n"
                           "  \"last\": 1\n"
                           "}\n";

static void test_lines(void **state)
{
    (void)state;
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(root);
    json_t *files = json_object_get(root, "files");
    json_t *config = json_object_get(root, "config");
    json_t *deep = json_array_get(json_array_get(json_object_get(config, "list"), 1), 0);
    json_t *other = json_object();
    const struct {
        const json_t *object;
        const char *key;
        uint32_t line;
    } cases[] = {
        {root, "name", 2},
        {root, "files", 3},
        {json_array_get(files, 1), "name", 3},
        {json_array_get(files, 2), "name", 4},
        {json_array_get(files, 2), "size", 5},
        {config, "size", 6},
        {config, "list", 7},
        {deep, "size", 7},
        {root, "list", 8},
        {root, "last", 10},
        {root, "A", 0},    // written with an escape
        {root, "size", 0}, // of others
        {files, "name", 0},
        {other, "name", 0},
        {NULL, "name", 0},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(json_place_line(base_str_of(text), root, cases[i].object, cases[i].key),
                         cases[i].line);
    }
    assert_int_equal(json_place_line_of("/nowhere", root, root, "name"), 0);
    json_decref(other);
    json_decref(root);
}

static void deep_is(uint32_t depth, uint32_t line)
{
    char nested[256] = "";
    json_t *inner = NULL;
    memset(nested, '[', depth);
    strcat(nested, "{\"a\": 1}");
    memset(nested + strlen(nested), ']', depth);
    json_t *root = json_loads(nested, 0, NULL);
    for (inner = root; json_is_array(inner);) {
        inner = json_array_get(inner, 0);
    }
    assert_int_equal(json_place_line(base_str_of(nested), root, inner, "a"), line);
    json_decref(root);
}

static void test_deep(void **state)
{
    (void)state;
    deep_is(0, 1);
    deep_is(JSON_PLACE_DEPTH_MAX, 1);
    deep_is(JSON_PLACE_DEPTH_MAX + 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
