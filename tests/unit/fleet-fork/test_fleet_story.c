// A device's story read again: what is not one is refused, and what is shown is one line an event.
#include "test_kit.h"

#include "story/device_replay.h"

#include <unistd.h>

static enum base_status read_text(const char *text, json_t **out_story)
{
    char path[] = "/tmp/walle-story-XXXXXX";
    struct base_error error = {.status = BASE_OK};
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(file);
    json_t *versions =
        json_pack("[{s:s, s:s, s:s}]", "manifest", "abcd", "task", "ipv", "version", "1.0.0");
    enum base_status status = sim_replay_read(path, versions, out_story, &error);
    assert_true(status == BASE_OK || error.text[0] != '\0');
    json_decref(versions);
    (void)unlink(path);
    return status;
}

#define HEAD "{\"what\":\"device\",\"index\":7,\"id\":\"07\",\"attributes\":{\"os\":\"ios\"}}\n"
#define TAIL                                                                                       \
    "{\"what\":\"gateway\",\"truth\":{\"wakes\":2},\"device\":{},\"why\":null,\"not_written\":3}"  \
    "\n"

static void a_story_is_shown(void **state)
{
    (void)state;
    json_t *story = NULL;
    char *text = NULL;
    size_t size = 0;
    assert_int_equal(read_text(HEAD "{\"t_s\":1.5,\"what\":\"offer\",\"text\":\"a\\nb\\u001b[1m\","
                                    "\"manifest\":\"abcd\"}\n" TAIL,
                               &story),
                     BASE_OK);
    FILE *out = open_memstream(&text, &size);
    sim_replay_print(story, out);
    (void)fclose(out);
    assert_non_null(strstr(text, "device 7, id 07: os=ios\n"));
    assert_non_null(strstr(text, "     1.500000  offer      a b [1m [ipv 1.0.0 abcd]\n"));
    assert_non_null(strstr(text, "3 more events\n"));
    assert_non_null(strstr(text, "truth      2 wakes\n"));
    assert_null(strchr(text, '\x1b'));
    free(text);
    json_decref(story);
}

static void what_is_no_story_is_refused(void **state)
{
    (void)state;
    static const char *const odd[] = {"",
                                      HEAD,
                                      TAIL,
                                      HEAD "{\"t_s\":1}\n" TAIL,
                                      HEAD "{\"what\":\"wake\"}\n" TAIL,
                                      HEAD "{\"t_s\":1,\"what\":\"wa",
                                      HEAD "[]\n" TAIL,
                                      HEAD "x\n" TAIL};
    for (size_t i = 0; i < TEST_COUNT(odd); i++) {
        json_t *story = NULL;
        if (read_text(odd[i], &story) != BASE_ERR_INVALID) {
            fail_msg("story %zu is taken", i);
        }
        assert_null(story);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_story_is_shown),
        cmocka_unit_test(what_is_no_story_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
