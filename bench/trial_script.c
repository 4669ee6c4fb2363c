// Fleets drawn for trials: see trial_script.h.
#include "trial_script.h"

#include "policy/bucket.h"
#include "svc/plan/fleet_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IDLE_STEPS 5u // between two looks while nothing happens

void trial_script_model(uint32_t model, char out[TRIAL_SCRIPT_MODEL_MAX])
{
    (void)snprintf(out, TRIAL_SCRIPT_MODEL_MAX, "m%u", model % TRIAL_SCRIPT_MODELS);
}

static uint64_t segment_of(uint32_t model)
{
    char text[TRIAL_SCRIPT_MODEL_MAX];
    trial_script_model(model, text);
    const struct pol_attr attr = {
        .name = {"model", sizeof("model") - 1},
        .value = {.type = POL_TYPE_STRING, .text = {text, (uint32_t)strnlen(text, sizeof(text))}}};
    return gw_segment_of(&(struct pol_attrs){&attr, 1}, NULL);
}

struct trial_script *trial_script_new(uint32_t devices_max)
{
    struct trial_script *script = calloc(1, sizeof(*script));
    if (script == NULL) {
        return NULL;
    }
    script->capacity = devices_max;
    script->devices = calloc(devices_max, sizeof(script->devices[0]));
    if (script->devices == NULL) {
        free(script);
        return NULL;
    }
    for (uint32_t i = 0; i < TRIAL_SCRIPT_MODELS; i++) {
        script->segments[i] = segment_of(i);
    }
    return script;
}

void trial_script_free(struct trial_script *script)
{
    if (script != NULL) {
        free(script->devices);
        free(script);
    }
}

// The first model's devices are the cell's slice.
static double chance_to_fail(const struct trial_cell *cell, const struct trial_device *device)
{
    bool first = device->model == 0;
    double base = first && cell->slice_base > 0 ? cell->slice_base : cell->base;
    double rise = cell->rise + (first ? cell->slice_rise : 0);
    return base + (device->updated ? rise : 0);
}

static void draw_device(struct trial_script *script, const struct trial_cell *cell,
                        struct base_prng *prng, uint32_t index)
{
    struct trial_device *device = &script->devices[index];
    uint16_t bucket = pol_bucket(device->id, base_mix64(TRIAL_SCRIPT_ID));
    uint32_t comes = (uint32_t)base_prng_below(prng, TRIAL_SCRIPT_COME_S);
    device->model = (uint8_t)base_prng_below(prng, TRIAL_SCRIPT_MODELS);
    device->updated = bucket < POL_BUCKET_COUNT / 2;
    device->fails = base_prng_unit(prng) < chance_to_fail(cell, device);
    double seconds = trial_cell_delay_s(cell, device->fails, prng);
    seconds += device->updated ? cell->fetch_s : 0;
    bool lost = base_prng_unit(prng) < cell->loss;
    device->next_to_come = script->comes[comes];
    script->comes[comes] = index;
    if (!lost && comes + 1 + seconds < TRIAL_SCRIPT_STEPS) {
        uint32_t heard = comes + 1 + (uint32_t)seconds;
        device->next_to_report = script->reports[heard];
        script->reports[heard] = index;
    }
}

bool trial_script_draw(struct trial_script *script, const struct trial_cell *cell, uint64_t seed)
{
    struct base_prng prng;
    if (cell->devices > script->capacity / 2) {
        return false;
    }
    base_prng_seed(&prng, seed);
    script->count = cell->devices * 2;
    memset(script->comes, 0xff, sizeof(script->comes));
    memset(script->reports, 0xff, sizeof(script->reports));
    for (uint32_t i = 0; i < script->count; i++) {
        script->devices[i] =
            (struct trial_device){.id = base_mix64(seed * UINT64_C(0x1000003) + i)};
        draw_device(script, cell, &prng, i);
    }
    return true;
}

static bool brings(const struct trial_script *script, uint32_t step)
{
    return script->comes[step] != TRIAL_SCRIPT_NONE || script->reports[step] != TRIAL_SCRIPT_NONE;
}

bool trial_script_is_due(const struct trial_script *script, uint32_t step)
{
    return step % IDLE_STEPS == 0 || brings(script, step) || (step > 0 && brings(script, step - 1));
}

void trial_script_stages(const struct pol_gate *gate, struct pol_stage out[2])
{
    out[0] = (struct pol_stage){.kind = POL_STAGE_GRAY,
                                .max_bucket = POL_BUCKET_COUNT / 2,
                                .control_buckets = POL_BUCKET_COUNT / 2,
                                .gate = *gate,
                                .window_s = TRIAL_SCRIPT_WINDOW_S,
                                .execution_timeout_s = TRIAL_SCRIPT_WINDOW_S};
    out[0].gate.rule = POL_GATE_LOGRANK;
    out[1] = (struct pol_stage){.kind = POL_STAGE_FULL,
                                .max_bucket = POL_BUCKET_COUNT,
                                .gate = {.min_sample = 1},
                                .approval = true};
}

bool trial_seen_equal(const struct trial_seen *a, const struct trial_seen *b)
{
    return a->stopped == b->stopped && a->passed == b->passed && a->reason == b->reason &&
           a->steps == b->steps && a->held == b->held &&
           memcmp(&a->trial, &b->trial, sizeof(a->trial)) == 0;
}
