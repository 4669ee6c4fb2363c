// The line of power in `rollout status` and `explain`, as a release engineer reads it.
#include "test_kit.h"

#include "cli/rollout/rollout_explain.h"
#include "cli/rollout/rollout_show.h"

#include <stdlib.h>

struct line {
    const char *power; // JSON
    const char *text;  // "" for no line
};

static const struct line lines[] = {
    {"null", ""},
    {"{\"rise\": 0.01, \"completed\": 420, \"devices\": 5000, \"needed\": 1303, \"can_detect\": "
     "true, "
     "\"sees\": 0.021, \"best\": 0.004, \"base\": 0.005, \"base_measured\": true, \"seconds\": "
     "720}",
     "  power: 420 devices show a rise of +2.1 points or more; +1 takes 883 more, about 12 "
     "minutes\n"},
    {"{\"rise\": 0.01, \"completed\": 420, \"devices\": 5000, \"needed\": 1303, \"can_detect\": "
     "true, "
     "\"sees\": null, \"best\": 0.004, \"base\": 0.005, \"base_measured\": true, \"seconds\": "
     "null}",
     "  power: 420 devices show no rise; +1 takes 883 more\n"},
    {"{\"rise\": 0.01, \"completed\": 1420, \"devices\": 5000, \"needed\": 1303, \"can_detect\": "
     "true, "
     "\"sees\": 0.0095, \"best\": 0.004, \"base\": 0.005, \"base_measured\": true, \"seconds\": "
     "null}",
     "  power: 1420 devices show a rise of +0.95 points or more, so +1 would show by now\n"},
    {"{\"rise\": 0.005, \"completed\": 10, \"devices\": 1000, \"needed\": null, \"can_detect\": "
     "false, "
     "\"sees\": 0.5, \"best\": 0.009, \"base\": 0.005, \"base_measured\": true, \"seconds\": null}",
     "  power: cannot see +0.5 points: the stage's 1000 devices show a rise of +0.9 points or "
     "more\n"},
    {"{\"rise\": 0.005, \"completed\": 0, \"devices\": 3, \"needed\": null, \"can_detect\": false, "
     "\"sees\": null, \"best\": null, \"base\": 0.005, \"base_measured\": false, \"seconds\": "
     "null}",
     "  power: cannot see +0.5 points: the stage's 3 devices show no rise, if 0.5 % of control "
     "fail\n"},
    {"{\"rise\": 0.05, \"completed\": 0, \"devices\": 1000, \"needed\": 258, \"can_detect\": true, "
     "\"sees\": null, \"best\": 0.02, \"base\": 0.005, \"base_measured\": false, \"seconds\": "
     "null}",
     "  power: nobody is done yet; +5 points take 258 devices, if 0.5 % of control fail\n"},
};

static void one_line_says_what_the_stage_sees(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEST_COUNT(lines); i++) {
        char *text = NULL;
        size_t size = 0;
        json_t *rollout =
            json_pack("{s:o}", "power", json_loads(lines[i].power, JSON_DECODE_ANY, NULL));
        FILE *file = open_memstream(&text, &size);
        assert_non_null(rollout);
        assert_int_equal(rollout_explain_power(file, rollout), lines[i].text[0] != 0);
        fclose(file);
        assert_string_equal(text, lines[i].text);
        free(text);
        json_decref(rollout);
    }
}

static void times_have_the_unit_people_use(void **state)
{
    (void)state;
    static const struct {
        int seconds;
        const char *text;
    } cases[] = {{1, ", about 1 second\n"},    {119, ", about 119 seconds\n"},
                 {120, ", about 2 minutes\n"}, {7199, ", about 120 minutes\n"},
                 {7200, ", about 2 hours\n"},  {172799, ", about 48 hours\n"},
                 {200000, ", about 2 days\n"}};
    for (size_t i = 0; i < TEST_COUNT(cases); i++) {
        char *text = NULL;
        size_t size = 0;
        json_t *rollout = json_pack("{s:{s:f, s:i, s:i, s:b, s:f, s:b, s:i}}", "power", "rise",
                                    0.01, "completed", 1, "needed", 100, "can_detect", 1, "sees",
                                    0.5, "base_measured", 1, "seconds", cases[i].seconds);
        FILE *file = open_memstream(&text, &size);
        assert_int_equal(rollout_explain_power(file, rollout), 1);
        fclose(file);
        if (strstr(text, cases[i].text) == NULL) {
            fail_msg("%d seconds: %s", cases[i].seconds, text);
        }
        free(text);
        json_decref(rollout);
    }
}

// The picture that is drawn over counts its lines.
static void the_picture_counts_the_line(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        char *text = NULL;
        size_t size = 0;
        unsigned newlines = 0;
        json_t *power = json_loads(lines[1].power, 0, NULL);
        json_t *rollout = json_pack("{s:s, s:s, s:[{s:s}]}", "id", "01", "state", "running",
                                    "stages", "name", "gray");
        (void)json_object_set_new(rollout, "power", with ? power : json_null());
        FILE *file = open_memstream(&text, &size);
        unsigned told = rollout_show(file, rollout);
        fclose(file);
        for (size_t i = 0; i < size; i++) {
            newlines += text[i] == '\n';
        }
        assert_int_equal(told, newlines);
        assert_int_equal(strstr(text, "power: 420") != NULL, with);
        free(text);
        json_decref(rollout);
        if (!with) {
            json_decref(power);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_says_what_the_stage_sees),
        cmocka_unit_test(times_have_the_unit_people_use),
        cmocka_unit_test(the_picture_counts_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
