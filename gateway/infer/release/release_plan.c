// See release_plan.h. Called on a worker's thread where a request is read, on the background thread
// where a release starts, and at the start for those of the store. Every member is a row of one
// table, by which it is read, checked, written and, when it is left out, set.
#include "infer/release/release_plan.h"

#include "base/check.h"
#include "policy/bucket.h"

#include <math.h>
#include <string.h>

struct member {
    const char *name;
    size_t offset;
    double least;
    double most;
    double usual;
    bool whole; // a uint32_t, else a double
};

#define REAL(name, least, most, usual)                                                             \
    {                                                                                              \
#name, offsetof(struct gw_release_stage, name), least, most, usual, false                  \
    }
#define WHOLE(name, least, most, usual)                                                            \
    {                                                                                              \
#name, offsetof(struct gw_release_stage, name), least, most, usual, true                   \
    }

static const struct member members[] = {
    REAL(share, 0, GW_RELEASE_SHARE_MAX, 0),
    REAL(shadow, 0, 1, 0),
    WHOLE(min_calls, 1, GW_RELEASE_CALLS_MAX, 500),
    WHOLE(min_s, 0, GW_RELEASE_SECONDS_MAX, 60),
    REAL(max_rise, 0.000001, 0.999, 0.01),
    REAL(max_slow, 0, GW_RELEASE_SLOW_MAX, 1.5),
    REAL(max_differ, 0.000001, 0.999, 0.01),
    WHOLE(per_caller, 0, GW_INFER_PER_CALLER_MAX, GW_RELEASE_PER_CALLER),
};
#define MEMBER_COUNT (sizeof(members) / sizeof(members[0]))

static void set(struct gw_release_stage *stage, const struct member *member, double value)
{
    char *at = (char *)stage + member->offset;
    if (member->whole) {
        *(uint32_t *)(void *)at = (uint32_t)value;
    } else {
        *(double *)(void *)at = value;
    }
}

static double get(const struct gw_release_stage *stage, const struct member *member)
{
    const char *at = (const char *)stage + member->offset;
    return member->whole ? *(const uint32_t *)(const void *)at : *(const double *)(const void *)at;
}

static struct gw_release_stage usual_stage(void)
{
    struct gw_release_stage stage = {0};
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        set(&stage, &members[i], members[i].usual);
    }
    return stage;
}

static void plan_default(struct gw_release_plan *out)
{
    static const double shares[] = {0, 0.01, 0.1, 0.5};
    memset(out, 0, sizeof(*out));
    out->count = sizeof(shares) / sizeof(shares[0]);
    for (uint32_t i = 0; i < out->count; i++) {
        out->stages[i] = usual_stage();
        out->stages[i].share = shares[i];
        out->stages[i].shadow = i == 0 ? 0.1 : 0;
    }
}

// ---- Reading

static enum base_status read_word(const json_t *value, const char *name, const char *const words[2],
                                  bool *out, struct base_error *error)
{
    const char *text = json_string_value(value);
    bool second = text != NULL && strcmp(text, words[1]) == 0;
    if (text == NULL || (!second && strcmp(text, words[0]) != 0)) {
        return base_error_set(error, BASE_ERR_INVALID, "%s: is \"%s\" or \"%s\"", name, words[0],
                              words[1]);
    }
    *out = second;
    return BASE_OK;
}

static const char *const fail_words[2] = {"roll_back", "hold"};
static const char *const pass_words[2] = {"advance", "pause"};

static enum base_status read_member(struct gw_release_stage *stage, const char *name,
                                    const json_t *value, struct base_error *error)
{
    if (strcmp(name, "on_fail") == 0) {
        return read_word(value, name, fail_words, &stage->hold, error);
    }
    if (strcmp(name, "on_pass") == 0) {
        return read_word(value, name, pass_words, &stage->pause, error);
    }
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        const struct member *member = &members[i];
        if (strcmp(member->name, name) != 0) {
            continue;
        }
        double number = json_number_value(value);
        bool good = json_is_number(value) && number >= member->least && number <= member->most &&
                    (!member->whole || json_is_integer(value));
        if (!good) {
            return base_error_set(error, BASE_ERR_INVALID, "%s: is %s from %g to %g", name,
                                  member->whole ? "a whole number" : "a number", member->least,
                                  member->most);
        }
        set(stage, member, number);
        return BASE_OK;
    }
    return base_error_set(error, BASE_ERR_INVALID, "there is no member \"%.40s\"", name);
}

static enum base_status read_stage(const json_t *value, struct gw_release_stage *out,
                                   struct base_error *error)
{
    const char *name;
    json_t *item;
    *out = usual_stage();
    if (!json_is_object(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "is an object");
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, item)
    {
        BASE_TRY(read_member(out, name, item, error));
    }
    if (out->share == 0 && out->shadow == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "has neither \"share\" nor \"shadow\"");
    }
    return BASE_OK;
}

static enum base_status read_stages(const json_t *list, struct gw_release_plan *out,
                                    struct base_error *error)
{
    size_t count = json_array_size(list);
    double before = 0;
    if (!json_is_array(list) || count == 0 || count > GW_RELEASE_STAGES_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "stages: is a list of 1 to %u",
                              GW_RELEASE_STAGES_MAX);
    }
    for (size_t i = 0; i < count; i++) {
        struct base_error why = {0};
        struct gw_release_stage *stage = &out->stages[i];
        enum base_status status = read_stage(json_array_get(list, i), stage, &why);
        if (status == BASE_OK && stage->share < before) {
            status = base_error_set(&why, BASE_ERR_INVALID, "share: is smaller than before");
        }
        if (status == BASE_OK && i + 1 == count && stage->share == 0) {
            status = base_error_set(&why, BASE_ERR_INVALID,
                                    "share: the last stage needs one, shadows prove no latency");
        }
        if (status != BASE_OK) {
            return base_error_set(error, status, "stages[%zu]: %s", i, why.text);
        }
        before = stage->share;
    }
    out->count = (uint32_t)count;
    return BASE_OK;
}

static enum base_status read_tolerance(const json_t *value, struct gw_infer_agree *out,
                                       struct base_error *error)
{
    const char *name;
    json_t *item;
    memset(out, 0, sizeof(*out));
    if (!json_is_object(value)) {
        return base_error_set(error, BASE_ERR_INVALID, "tolerance: is an object");
    }
    json_object_foreach((json_t *)(uintptr_t)value, name, item)
    {
        bool relative = strcmp(name, "relative") == 0;
        double most = relative ? 1 : GW_RELEASE_TOLERANCE_MAX;
        if (strcmp(name, "argmax") == 0 && json_is_boolean(item)) {
            out->argmax = json_is_true(item);
        } else if ((relative || strcmp(name, "absolute") == 0) && json_is_number(item) &&
                   json_number_value(item) >= 0 && json_number_value(item) <= most) {
            *(relative ? &out->relative : &out->absolute) = json_number_value(item);
        } else {
            return base_error_set(error, BASE_ERR_INVALID,
                                  "tolerance: \"absolute\" from 0, \"relative\" from 0 to 1, or "
                                  "\"argmax\" true or false");
        }
    }
    return BASE_OK;
}

enum base_status gw_release_plan_read(const json_t *body, struct gw_release_plan *out,
                                      struct base_error *error)
{
    const json_t *stages = json_object_get(body, "stages");
    const json_t *tolerance = json_object_get(body, "tolerance");
    plan_default(out);
    if (stages != NULL) {
        BASE_TRY(read_stages(stages, out, error));
    }
    return tolerance != NULL ? read_tolerance(tolerance, &out->agree, error) : BASE_OK;
}

// ---- Writing

static json_t *write_stage(const struct gw_release_stage *stage)
{
    json_t *out = json_object();
    for (size_t i = 0; i < MEMBER_COUNT; i++) {
        const struct member *member = &members[i];
        double value = get(stage, member);
        (void)json_object_set_new(
            out, member->name, member->whole ? json_integer((json_int_t)value) : json_real(value));
    }
    (void)json_object_set_new(out, "on_fail", json_string(fail_words[stage->hold]));
    (void)json_object_set_new(out, "on_pass", json_string(pass_words[stage->pause]));
    return out;
}

bool gw_release_plan_write(const struct gw_release_plan *plan, json_t *body)
{
    json_t *stages = json_array();
    for (uint32_t i = 0; i < plan->count; i++) {
        (void)json_array_append_new(stages, write_stage(&plan->stages[i]));
    }
    return json_object_set_new(body, "stages", stages) == 0 &&
           json_object_set_new(body, "tolerance",
                               json_pack("{s:f, s:f, s:b}", "absolute", plan->agree.absolute,
                                         "relative", plan->agree.relative, "argmax",
                                         plan->agree.argmax)) == 0;
}

// ---- For the machine

uint16_t gw_release_buckets(double share)
{
    base_assert(share >= 0 && share <= 1);
    double buckets = floor(share * POL_BUCKET_COUNT + 0.5);
    return share > 0 && buckets < 1 ? 1 : (uint16_t)buckets;
}

void gw_release_plan_stages(const struct gw_release_plan *plan,
                            struct pol_stage out[GW_RELEASE_STAGES_MAX])
{
    memset(out, 0, GW_RELEASE_STAGES_MAX * sizeof(*out));
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct gw_release_stage *stage = &plan->stages[i];
        out[i].kind = stage->share > 0 ? POL_STAGE_GRAY : POL_STAGE_SHADOW;
        out[i].max_bucket = gw_release_buckets(stage->share > 0 ? stage->share : stage->shadow);
        out[i].on_fail = stage->hold ? POL_ON_FAIL_HOLD : POL_ON_FAIL_ROLL_BACK;
        out[i].on_pass = stage->pause ? POL_ON_PASS_PAUSE : POL_ON_PASS_ADVANCE;
    }
}
