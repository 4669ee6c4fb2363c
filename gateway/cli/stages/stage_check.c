// Checks of what stages say. Called by ladder.c for a file and by cli_release.c for a signed draft;
// one thread. Members that are a number or a word, as most are, are held against the table that the
// gateway goes by (policy/fields/stage_fields.h); those that are lists or objects have a function
// each. The gateway checks the same (api/stage_body.c), and a test holds both side by side.
#include "cli/stages/stage_check.h"

#include "cli/base/cli_json.h"
#include "cli/stages/audience_check.h"
#include "cli/stages/check_place.h"
#include "cli/stages/ladder.h"
#include "cli/stages/tolerance_json.h"

#include "policy/pace.h"
#include "policy/rollout.h"
#include "policy/fields/stage_fields.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PPM 1e6

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

// null says nothing.
static bool is_said(const struct check_place *at, const char *key)
{
    const json_t *value = json_object_get(at->object, key);

    return value != NULL && !json_is_null(value);
}

// ---- Objects and lists within a stage

static enum cli_exit check_rate(const struct check_place *stage)
{
    const char *names[POL_RATE_FIELD_COUNT + 1];
    struct check_place rate;
    enum cli_exit code = check_enter(stage, "rate", &rate);

    if (code != CLI_EXIT_OK || rate.object == NULL) {
        return code;
    }
    pol_field_names(pol_rate_fields, POL_RATE_FIELD_COUNT, names);
    code = check_only(&rate, names);
    if (code == CLI_EXIT_OK) {
        code = check_fields(&rate, pol_rate_fields, POL_RATE_FIELD_COUNT);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    long factor = lround(json_number_value(json_object_get(rate.object, "factor")) * 100);
    bool ramps = factor > 100;
    return ramps && (cli_json_u64(rate.object, "step") == 0 ||
                     cli_json_u64(rate.object, "per_minute") == 0)
               ? check_refuse(&rate, "factor", "a ramp needs a step and a per_minute above 0")
               : CLI_EXIT_OK;
}

static enum cli_exit check_days(const struct check_place *window)
{
    const json_t *list = NULL;
    unsigned mask = 0;
    enum cli_exit code = check_list(window, "days", COUNT_OF(pol_weekdays), &list);

    for (size_t i = 0; code == CLI_EXIT_OK && i < json_array_size(list); ++i) {
        const char *text = json_string_value(json_array_get(list, i));
        unsigned before = mask;
        for (unsigned k = 0; k < COUNT_OF(pol_weekdays); ++k) {
            mask |= text != NULL && strcmp(text, pol_weekdays[k]) == 0 ? 1u << k : 0;
        }
        if (mask == before) {
            code = cli_fail(CLI_EXIT_USAGE, "%sdays[%zu]: mon tue wed thu fri sat sun, each once",
                            window->path, i);
        }
    }
    return code;
}

static bool is_time(const char *text)
{
    return strlen(text) == 5 && text[0] >= '0' && text[0] <= '2' && text[1] >= '0' &&
           text[1] <= (text[0] == '2' ? '3' : '9') && text[2] == ':' && text[3] >= '0' &&
           text[3] <= '5' && text[4] >= '0' && text[4] <= '9';
}

static enum cli_exit check_window(const struct check_place *window)
{
    const char *names[POL_WINDOW_FIELD_COUNT + 1];
    enum cli_exit code;

    pol_field_names(pol_window_fields, POL_WINDOW_FIELD_COUNT, names);
    code = check_only(window, names);
    code = code == CLI_EXIT_OK ? check_days(window) : code;
    code = code == CLI_EXIT_OK ? check_fields(window, pol_window_fields, POL_WINDOW_FIELD_COUNT)
                               : code;
    if (code == CLI_EXIT_OK &&
        (!is_time(json_string_value(json_object_get(window->object, "start"))) ||
         cli_json_u64(window->object, "minutes") == 0)) {
        code = cli_fail(CLI_EXIT_USAGE, "%sstart: hours and minutes as \"22:00\"; minutes: 1 to %u",
                        window->path, POL_WINDOW_MINUTES_MAX);
    }
    return code;
}

static enum cli_exit check_windows(const struct check_place *stage)
{
    const json_t *list = NULL;
    enum cli_exit code = check_list(stage, "windows", POL_WINDOWS_MAX, &list);

    for (size_t i = 0; code == CLI_EXIT_OK && i < json_array_size(list); ++i) {
        struct check_place window;
        code = check_item(stage, "windows", i, json_array_get(list, i), &window);
        code = code == CLI_EXIT_OK ? check_window(&window) : code;
    }
    return code;
}

static enum cli_exit check_retries(const struct check_place *stage)
{
    const char *names[POL_FAILURE_COUNT + 1] = {NULL};
    bool logrank = strcmp(cli_json_text(stage->object, "rule", ""), "logrank") == 0;
    struct check_place retries;
    enum cli_exit code = check_enter(stage, "retries", &retries);

    if (code != CLI_EXIT_OK || retries.object == NULL) {
        return code;
    }
    for (unsigned i = 0; i < POL_FAILURE_COUNT; ++i) {
        names[i] = pol_failure_name((enum pol_failure)i);
    }
    code = check_only(&retries, names);
    for (unsigned i = 0; code == CLI_EXIT_OK && i < POL_FAILURE_COUNT; ++i) {
        const struct pol_field field = {names[i], POL_FIELD_WHOLE, .max = POL_RETRIES_MAX};
        code = check_fields(&retries, &field, 1);
        if (code == CLI_EXIT_OK && logrank && cli_json_u64(retries.object, names[i]) > 0) {
            code = check_refuse(&retries, names[i],
                                "the rule logrank counts a device's first failure");
        }
    }
    return code;
}

// What a shadow stage alone has.
static enum cli_exit check_times(const struct check_place *stage, const char *key)
{
    long percent = lround(json_number_value(json_object_get(stage->object, key)) * 100);

    if (percent != 0 && ladder_kind(stage->object) != POL_STAGE_SHADOW) {
        return check_refuse(stage, key, "for a shadow stage only");
    }
    return percent != 0 && percent < POL_SHADOW_PERCENT_MIN
               ? check_refuse(stage, key, "at least 1 (0: not judged)")
               : CLI_EXIT_OK;
}

static enum cli_exit check_tolerated_field(const struct check_place *fields, const char *name)
{
    const char *names[POL_TOLERANCE_FIELD_FIELDS + 1];
    struct check_place own;
    enum cli_exit code = check_enter(fields, name, &own);

    if (code != CLI_EXIT_OK || own.object == NULL) {
        return code;
    }
    pol_field_names(pol_tolerance_fields, POL_TOLERANCE_FIELD_FIELDS, names);
    code = check_only(&own, names);
    return code == CLI_EXIT_OK
               ? check_fields(&own, pol_tolerance_fields, POL_TOLERANCE_FIELD_FIELDS)
               : code;
}

static enum cli_exit check_tolerance(const struct check_place *stage)
{
    const char *names[POL_TOLERANCE_FIELD_COUNT + 1];
    struct wire_tolerances read;
    struct check_place own;
    struct check_place fields = {.object = NULL};
    const char *wrong = NULL;
    const char *name;
    json_t *value;
    enum cli_exit code = check_enter(stage, "tolerance", &own);

    if (code != CLI_EXIT_OK || own.object == NULL) {
        return code;
    }
    if (ladder_kind(stage->object) != POL_STAGE_SHADOW) {
        return check_refuse(stage, "tolerance", "for a shadow stage only");
    }
    pol_field_names(pol_tolerance_fields, POL_TOLERANCE_FIELD_COUNT, names);
    code = check_only(&own, names);
    code = code == CLI_EXIT_OK ? check_fields(&own, pol_tolerance_fields, POL_TOLERANCE_FIELD_COUNT)
                               : code;
    code = code == CLI_EXIT_OK ? check_enter(&own, "fields", &fields) : code;
    json_object_foreach((json_t *)(uintptr_t)fields.object, name, value)
    {
        code = code == CLI_EXIT_OK ? check_tolerated_field(&fields, name) : code;
    }
    return code == CLI_EXIT_OK && !tolerance_json_read(stage->object, &read, &wrong)
               ? check_refuse(&fields, "", wrong)
               : code;
}

// ---- Stages

// The rule's own numbers: with the rule threshold nobody asks them.
static enum cli_exit check_test(const struct check_place *stage)
{
    static const char *const keys[] = {"alpha", "beta"};
    const char *rule = cli_json_text(stage->object, "rule", "threshold");

    for (size_t i = 0; i < COUNT_OF(keys) && strcmp(rule, "threshold") != 0; ++i) {
        long ppm = lround(json_number_value(json_object_get(stage->object, keys[i])) * PPM);
        if (is_said(stage, keys[i]) && (ppm < 1 || ppm >= (long)(PPM / 2))) {
            return check_refuse(stage, "alpha, beta", "above 0 and below one half");
        }
    }
    return CLI_EXIT_OK;
}

static bool is_shown(const char *name)
{
    size_t size = strlen(name);

    if (size == 0 || name[0] == ' ' || name[size - 1] == ' ') {
        return false;
    }
    for (size_t i = 0; i < size; ++i) {
        if (name[i] < 0x20 || name[i] > 0x7e) {
            return false;
        }
    }
    return true;
}

static enum cli_exit check_head(const struct check_place *stage, bool whole)
{
    enum pol_stage_kind kind = ladder_kind(stage->object);

    if (!is_shown(json_string_value(json_object_get(stage->object, "name")))) {
        return cli_fail(CLI_EXIT_USAGE, "%sname: 1 to %u printable ASCII characters", stage->path,
                        POL_STAGE_NAME_MAX);
    }
    if ((kind == POL_STAGE_GRAY || kind == POL_STAGE_SHADOW) && !is_said(stage, "percent")) {
        return check_refuse(stage, "percent", "missing");
    }
    return whole && !is_said(stage, "max_failure") ? check_refuse(stage, "max_failure", "missing")
                                                   : CLI_EXIT_OK;
}

static enum cli_exit check_stage(const struct check_place *stage, bool whole)
{
    const char *names[POL_STAGE_FIELD_COUNT + 1];
    enum cli_exit code;

    pol_field_names(pol_stage_fields, whole ? POL_STAGE_FIELD_COUNT : POL_STAGE_FIELD_STATEMENT,
                    names);
    code = check_only(stage, names);
    code =
        code == CLI_EXIT_OK ? check_fields(stage, pol_stage_fields, POL_STAGE_FIELD_COUNT) : code;
    code = code == CLI_EXIT_OK ? check_head(stage, whole) : code;
    code = code == CLI_EXIT_OK ? audience_check(stage) : code;
    code = code == CLI_EXIT_OK ? check_test(stage) : code;
    code = code == CLI_EXIT_OK ? check_rate(stage) : code;
    code = code == CLI_EXIT_OK ? check_windows(stage) : code;
    code = code == CLI_EXIT_OK ? check_retries(stage) : code;
    code = code == CLI_EXIT_OK ? check_times(stage, "max_slowdown") : code;
    code = code == CLI_EXIT_OK ? check_times(stage, "max_memory") : code;
    return code == CLI_EXIT_OK ? check_tolerance(stage) : code;
}

enum cli_exit stage_check(const json_t *stages, bool whole)
{
    const struct check_place root = {.path = ""};
    size_t count = json_array_size(stages);
    enum cli_exit code = CLI_EXIT_OK;

    for (size_t i = 0; code == CLI_EXIT_OK && i < count; ++i) {
        struct check_place stage;
        code = check_item(&root, "stages", i, json_array_get(stages, i), &stage);
        code = code == CLI_EXIT_OK ? check_stage(&stage, whole) : code;
        if (code == CLI_EXIT_OK && i + 1 < count && cli_json_u64(stage.object, "guard_s") > 0) {
            code = check_refuse(&stage, "guard_s", "for the last stage only");
        }
    }
    return code;
}

static void forget_nulls(json_t *object)
{
    const char *key;
    json_t *value;
    void *next;

    json_object_foreach_safe(object, next, key, value)
    {
        if (json_is_null(value)) {
            (void)json_object_del(object, key);
        }
    }
}

void stage_check_forget_nulls(json_t *stages)
{
    size_t index;
    size_t at;
    json_t *stage;
    json_t *window;

    json_array_foreach(stages, index, stage)
    {
        forget_nulls(stage);
        forget_nulls(json_object_get(stage, "rate"));
        forget_nulls(json_object_get(stage, "retries"));
        forget_nulls(json_object_get(stage, "tolerance"));
        json_array_foreach(json_object_get(stage, "windows"), at, window)
        {
            forget_nulls(window);
        }
    }
}
