// The story of one device, written while it happens. Called by run/ where a device lives and by
// faults/ where one is met, on the thread that runs the device's shard; begun and ended on the
// coordinator's thread, by run/fleet_virtual.c.
#include "run/device_story.h"

#include "base/alloc.h"
#include "base/check.h"
#include "run/fleet.h"

#include <stdlib.h>
#include <string.h>

#define ANSWER_BYTES_MAX (1u << 20)

// ---- The file

// The index of the device that is named, by index or by id; false: the fleet has none such.
static bool index_find(const struct sim_options *options, uint64_t *out_index)
{
    const struct sim_population population = sim_options_population(options);
    for (uint32_t i = 0; i < options->devices; i++) {
        uint64_t index = sim_options_index(options, &population, i);
        bool found = options->told_by_id
                         ? sim_population_device_id(&population, index) == options->told
                         : index == options->told;
        if (found) {
            *out_index = index;
            return true;
        }
    }
    return false;
}

static json_t *attributes_of(const struct sim_population *population, uint64_t index)
{
    struct sim_traits traits;
    json_t *all = json_object();
    sim_population_draw(population, index, &traits);
    for (uint32_t i = 0; i < SIM_TRAIT_COUNT; i++) {
        if (traits.value[i] != SIM_TRAIT_ABSENT) {
            const char *text = sim_trait_text(traits.people, (enum sim_trait)i, traits.value[i]);
            (void)json_object_set_new(all, sim_trait_name((enum sim_trait)i), json_string(text));
        }
    }
    return all;
}

static void head_write(struct sim_story *story, const struct sim_options *options)
{
    const struct sim_population population = sim_options_population(options);
    char id[WIRE_DEVICE_HEX + 1];
    (void)snprintf(id, sizeof(id), "%016llx",
                   (unsigned long long)sim_population_device_id(&population, story->index));
    sim_story_write(story, json_pack("{s:s, s:I, s:s, s:o}", "what", "device", "index",
                                     (json_int_t)story->index, "id", id, "attributes",
                                     attributes_of(&population, story->index)));
}

enum base_status sim_tale_new(const struct sim_options *options, uint64_t start_us,
                              struct sim_tale **out_tale, struct base_error *error)
{
    uint64_t index = 0;
    *out_tale = NULL;
    if (!options->tells) {
        return BASE_OK;
    }
    if (!index_find(options, &index)) {
        return base_error_set(error, BASE_ERR_NOT_FOUND,
                              options->told_by_id ? "no device of the run has the id %016llx"
                                                  : "no device of the run has the index %llu",
                              (unsigned long long)options->told);
    }
    struct sim_tale *tale = calloc(1, sizeof(*tale));
    if (tale == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    tale->story = (struct sim_story){.index = index, .start_us = start_us};
    enum base_status status = sim_story_open(&tale->story, options->out, error);
    if (status != BASE_OK) {
        free(tale);
        return status;
    }
    head_write(&tale->story, options);
    *out_tale = tale;
    return BASE_OK;
}

enum base_status sim_tale_free(struct sim_tale *tale, struct base_error *error)
{
    enum base_status status = BASE_OK;
    if (tale != NULL) {
        status = sim_story_close(&tale->story, error);
        free(tale);
    }
    return status;
}

// ---- The end

static json_t *answer_of(const struct sim_story_end *end, const char *path)
{
    struct base_buffer said;
    base_buffer_init(&said, base_alloc_heap(), ANSWER_BYTES_MAX);
    int status = end->ask(end->ctx, path, &said);
    json_t *body = status / 100 == 2 ? json_loadb((const char *)said.data, said.size, 0, NULL)
                                     : json_pack("{s:i}", "status", status);
    base_buffer_done(&said);
    return body != NULL ? body : json_null();
}

static json_t *truth_of(const struct sim_story *story, const struct sim_shard *shard)
{
    for (uint32_t i = 0; i < shard->ledger.count; i++) {
        if (sim_shard_index(shard, i) == story->index) {
            const struct sim_ledger_entry *entry = &shard->ledger.entries[i];
            const struct sim_ledger_masks masks = sim_ledger_masks(&shard->ledger, i);
            const struct sim_ledger_times times = sim_ledger_times(&shard->ledger, i);
            return json_pack("{s:b, s:i, s:i, s:i, s:i, s:i, s:b, s:b}", "online",
                             (int)entry->arrived, "wakes", (int)shard->devices[i].wakes,
                             "offered_ms", (int)times.offered_ms, "downloaded_ms",
                             (int)times.downloaded_ms, "activated_ms", (int)times.activated_ms,
                             "ran_ms", (int)times.ran_ms, "ran", (int)(masks.ran != 0), "failed",
                             (int)(masks.failed != 0));
        }
    }
    return NULL;
}

void sim_tale_end(struct sim_tale *tale, const struct sim_story_end *end)
{
    char path[128 + WIRE_TASK_NAME_MAX];
    struct sim_story *story = &tale->story;
    json_t *truth = truth_of(story, end->shard);
    if (truth == NULL) { // of another shard
        return;
    }
    const struct sim_population population = sim_options_population(end->shard->options);
    unsigned long long id = sim_population_device_id(&population, story->index);
    (void)snprintf(path, sizeof(path), "/api/v1/devices/%016llx", id);
    json_t *device = answer_of(end, path);
    json_t *why = json_null();
    if (end->task[0] != '\0') {
        (void)snprintf(path, sizeof(path), "/api/v1/devices/%016llx/why?task=%s", id, end->task);
        why = answer_of(end, path);
    }
    sim_story_write(story, json_pack("{s:s, s:o, s:o, s:o, s:I}", "what", "gateway", "truth", truth,
                                     "device", device, "why", why, "not_written",
                                     story->events > SIM_STORY_EVENTS_MAX
                                         ? (json_int_t)(story->events - SIM_STORY_EVENTS_MAX)
                                         : (json_int_t)0));
}

// ---- The device

// NULL: it is another.
static struct sim_tale *of(const struct sim_awake *awake)
{
    struct sim_tale *tale = awake->shard->tale;
    return tale != NULL && tale->story.index == awake->index ? tale : NULL;
}

static uint64_t now_us(const struct sim_awake *awake)
{
    const struct base_clock_port *clock = &awake->shard->clock;
    return clock->mono_us(clock->ctx);
}

static const char *kind_text(enum sim_exchange_kind kind)
{
    static const char *const texts[SIM_EXCHANGE_KIND_COUNT] = {
        [SIM_EXCHANGE_CHECKIN] = "check-in",   [SIM_EXCHANGE_BLOB] = "content",
        [SIM_EXCHANGE_REPORT] = "report",      [SIM_EXCHANGE_HINTS] = "hints",
        [SIM_EXCHANGE_TUNNEL] = "tunnel",      [SIM_EXCHANGE_META] = "metadata",
        [SIM_EXCHANGE_ENROL] = "enrolment",    [SIM_EXCHANGE_BUSINESS] = "business",
        [SIM_EXCHANGE_OTHER] = "other request"};
    return texts[kind];
}

void sim_story_woke(const struct sim_awake *awake, uint64_t intended_us)
{
    struct sim_tale *tale = of(awake);
    if (tale == NULL) {
        return;
    }
    const struct sim_device *device = &awake->shard->devices[awake->device];
    uint64_t now = now_us(awake);
    uint64_t late_ms = now > intended_us ? (now - intended_us) / 1000 : 0;
    const char *why = device->wakes == 0  ? "it comes online for the first time"
                      : device->rebooting ? "it starts again after its process died"
                                          : "it is due";
    sim_story_tell(&tale->story, &(struct sim_story_event){now, "wake", NULL}, "wake %u: %s%s",
                   device->wakes + 1u, why, awake->real ? "; it does everything for real" : "");
    if (late_ms > 0) {
        sim_story_tell(&tale->story, &(struct sim_story_event){now, "wake", NULL},
                       "%llu ms later than it was due", (unsigned long long)late_ms);
    }
    if (awake->clock_off_us != 0) {
        sim_story_tell(&tale->story, &(struct sim_story_event){now, "clock", NULL},
                       "its wall clock is wrong by %.0f s",
                       (double)(int64_t)awake->clock_off_us / 1e6);
    }
}

// Each task that it holds.
static void slots_tell(struct sim_tale *tale, const struct sim_awake *awake, const char *what)
{
    static const struct wire_sha256 none;
    struct dev_task_view view;
    for (uint32_t i = 0; dev_task_view(awake->runtime, i, &view) == BASE_OK; i++) {
        bool any = !wire_sha256_equal(&view.active, &none);
        sim_story_tell(
            &tale->story, &(struct sim_story_event){now_us(awake), what, any ? &view.active : NULL},
            "%s of %.*s%s%s", any ? "holds a version" : "holds no version", (int)view.name.size,
            view.name.data, view.on_trial ? ", on trial" : "", view.shadow ? ", as a shadow" : "");
    }
}

void sim_story_booted(const struct sim_awake *awake, enum base_status status)
{
    struct sim_tale *tale = of(awake);
    if (tale == NULL) {
        return;
    }
    if (status != BASE_OK) {
        sim_story_tell(&tale->story, &(struct sim_story_event){now_us(awake), "boot", NULL},
                       "the runtime does not start: %s", base_status_text(status));
        return;
    }
    dev_stats(awake->runtime, &tale->last);
    uint32_t count = dev_task_count(awake->runtime);
    sim_story_tell(&tale->story, &(struct sim_story_event){now_us(awake), "boot", NULL},
                   "the runtime starts: %u task%s, root %llu", count, count == 1 ? "" : "s",
                   (unsigned long long)tale->last.root_version);
    slots_tell(tale, awake, "boot");
}

void sim_story_slept(const struct sim_awake *awake, uint32_t due_ms)
{
    struct sim_tale *tale = of(awake);
    if (tale != NULL) {
        sim_story_tell(&tale->story, &(struct sim_story_event){now_us(awake), "sleep", NULL},
                       "until second %.3f", due_ms / 1e3);
    }
}

void sim_story_killed(const struct sim_awake *awake)
{
    struct sim_tale *tale = of(awake);
    if (tale != NULL) {
        sim_story_tell(&tale->story, &(struct sim_story_event){now_us(awake), "killed", NULL},
                       "its process dies; what was not saved or sealed is lost");
    }
}

void sim_story_saved(const struct sim_awake *awake, size_t bytes)
{
    struct sim_tale *tale = of(awake);
    if (tale != NULL) {
        sim_story_tell(&tale->story, &(struct sim_story_event){now_us(awake), "save", NULL},
                       "state of %zu bytes", bytes);
    }
}

// ---- What it asks and is told

void sim_story_asked(const struct sim_exchange *exchange, const struct dev_request *request)
{
    struct sim_tale *tale = of(exchange->owner);
    char range[40] = "";
    if (tale == NULL) {
        return;
    }
    if (request->range_from > 0) {
        (void)snprintf(range, sizeof(range), ", from byte %llu on",
                       (unsigned long long)request->range_from);
    }
    sim_story_tell(&tale->story, &(struct sim_story_event){now_us(exchange->owner), "ask", NULL},
                   "%s: %s %.*s, %zu bytes%s", kind_text(exchange->kind),
                   request->method == DEV_METHOD_POST ? "POST" : "GET", (int)request->path.size,
                   request->path.data, request->body_bytes, range);
}

void sim_story_answered(const struct sim_exchange *exchange, int status)
{
    struct sim_tale *tale = of(exchange->owner);
    if (tale != NULL) {
        uint64_t now = now_us(exchange->owner);
        sim_story_tell(&tale->story, &(struct sim_story_event){now, "answer", NULL},
                       "%s: %d, %.1f ms after it was asked", kind_text(exchange->kind), status,
                       (double)(now - exchange->started_us) / 1e3);
    }
}

void sim_story_failed(const struct sim_exchange *exchange, enum base_status status)
{
    struct sim_tale *tale = of(exchange->owner);
    if (tale != NULL) {
        sim_story_tell(&tale->story,
                       &(struct sim_story_event){now_us(exchange->owner), "no-answer", NULL},
                       "%s: %s", kind_text(exchange->kind), base_status_text(status));
    }
}

void sim_story_offered(const struct sim_awake *awake, const struct wire_release *release)
{
    struct sim_tale *tale = of(awake);
    if (tale != NULL) {
        sim_story_tell(&tale->story,
                       &(struct sim_story_event){now_us(awake), "offer", &release->manifest},
                       "%.*s, release %llu, for buckets below %u, of rollout %016llx: signed by as "
                       "many keys as it takes",
                       (int)release->task_name.size, release->task_name.data,
                       (unsigned long long)release->release_counter, release->max_bucket,
                       (unsigned long long)release->rollout_id);
    }
}

// ---- What becomes of it

// Counters of which each step is an event.
static const struct counter {
    size_t at; // in struct dev_stats
    const char *what;
    const char *text;
} counters[] = {
    {offsetof(struct dev_stats, deltas), "content", "made from the one before and a difference"},
    {offsetof(struct dev_stats, deltas_failed), "content", "a difference does not fit: all of it"},
    {offsetof(struct dev_stats, damaged), "content", "what it had stored is damaged"},
    {offsetof(struct dev_stats, mended), "content", "brought once more, and whole again"},
    {offsetof(struct dev_stats, refused_offers), "refuse", "the offer is not taken"},
    {offsetof(struct dev_stats, refused_metadata), "refuse", "metadata are not taken"},
    {offsetof(struct dev_stats, leases_lost), "lease", "its lease is over"},
    {offsetof(struct dev_stats, kills), "kill-list", "a version it held is killed"},
    {offsetof(struct dev_stats, bad_requests), "vain", "a request came to nothing"},
    {offsetof(struct dev_stats, activations), "activate", "a version is activated"},
    {offsetof(struct dev_stats, rollbacks), "back", "it goes back from a version"},
    {offsetof(struct dev_stats, withdrawals), "back", "a version is taken from it"},
};

static uint64_t counter_of(const struct dev_stats *stats, const struct counter *counter)
{
    uint64_t value = 0;
    memcpy(&value, (const char *)stats + counter->at, sizeof(value));
    return value;
}

static const char *why_of(const struct counter *counter, const struct dev_stats *stats)
{
    int16_t why =
        counter->at == offsetof(struct dev_stats, refused_offers)     ? stats->refused_offer_why
        : counter->at == offsetof(struct dev_stats, refused_metadata) ? stats->refused_metadata_why
                                                                      : 0;
    return why != 0 ? base_status_text((enum base_status)why) : NULL;
}

void sim_story_seen(const struct sim_awake *awake, const struct dev_stats *stats)
{
    struct sim_tale *tale = of(awake);
    if (tale == NULL) {
        return;
    }
    bool moved = false;
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        const char *why = why_of(&counters[i], stats);
        if (counter_of(stats, &counters[i]) > counter_of(&tale->last, &counters[i])) {
            sim_story_tell(
                &tale->story, &(struct sim_story_event){now_us(awake), counters[i].what, NULL},
                "%s%s%s", counters[i].text, why != NULL ? ": " : "", why != NULL ? why : "");
            moved = moved || counters[i].at == offsetof(struct dev_stats, activations) ||
                    strcmp(counters[i].what, "back") == 0;
        }
    }
    tale->last = *stats;
    if (moved) {
        slots_tell(tale, awake, "now");
    }
}

void sim_story_runs(const struct sim_awake *awake, bool injected)
{
    struct sim_tale *tale = of(awake);
    const struct dev_task_job *job = &awake->shard->job->job;
    if (tale != NULL) {
        sim_story_tell(&tale->story, &(struct sim_story_event){now_us(awake), "run", &job->version},
                       "run %llu of %.*s%s%s", (unsigned long long)job->run_index + 1,
                       (int)job->manifest->task_name.size, job->manifest->task_name.data,
                       job->shadow ? ", as a shadow" : "",
                       injected ? "; the bad release hits it" : "");
    }
}

void sim_story_ran(const struct sim_awake *awake, const struct sim_task_end *end)
{
    struct sim_tale *tale = of(awake);
    if (tale != NULL) {
        const struct base_str detail = end->end.detail;
        sim_story_tell(&tale->story, &(struct sim_story_event){now_us(awake), "outcome", NULL},
                       "%s after %.3f ms%s%.*s", wire_outcome_name(end->end.outcome),
                       (double)end->end.duration_us / 1e3, detail.size > 0 ? ": " : "",
                       (int)(detail.size < 200 ? detail.size : 200),
                       detail.size > 0 ? detail.data : "");
    }
}
