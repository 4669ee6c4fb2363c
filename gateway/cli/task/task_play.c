// Events of a file through the device's data pipeline, until a run is due. Called by cli_task_run.c
// on its thread. Pipeline, trigger engine and recorder are the device's own, over a store in
// memory; the clock is that of the lines, so a play depends on its file alone. Runs follow each
// other: no match is dropped because a device would be busy, unlike in the field.
#include "cli/task/task_play.h"

#include "cli/base/cli_files.h"

#include "base/alloc.h"
#include "base/carve.h"
#include "base/clock.h"
#include "lines/event_lines.h"
#include "mem/mem_kv.h"
#include "runner/runner_events.h"
#include "vm/vm_features.h"
#include "wire/digest.h"

#include <stdlib.h>
#include <string.h>

enum { COLLECT, RECORDER, FEATURES, PIPELINE, BLOCKS };

// Events of a version without triggers, each with its texts behind it.
struct kept {
    struct dev_event events[DEV_VM_EVENTS_MAX];
    uint8_t *bytes[DEV_VM_EVENTS_MAX];
    uint32_t count;
    bool full;
    bool no_memory;
};

struct task_play {
    struct task_play_options options;
    struct mem_kv kv;
    struct dev_kv_port store;
    void *blocks[BLOCKS];
    struct dev_collect *collect;
    struct dev_recorder *recorder;
    struct dev_feature_store *features;
    struct dev_pipeline *pipeline;
    uint64_t task_id;
    bool triggered; // the version has triggers
    bool over;      // and has none, and had its run
    const char *left_out;
    uint8_t *text;
    size_t size;
    size_t at;
    uint32_t line;
    uint64_t now_us;
    uint64_t wall_ms;
    struct task_play_stats stats;
    struct event_line *taken; // the next line, whose time has not come; NULL: none
    struct dev_recording recording;
    // The run under way.
    struct dev_pipeline_start start; // token 0: none
    struct dev_runner_events events;
    struct dev_vm_features asked;
    struct dev_vm_data_port data;
    struct kept kept;
    uint8_t *input; // of the one run of a version without triggers; malloc
};

// ---- Ports

static enum base_status start_task(void *ctx, const struct dev_pipeline_start *start)
{
    struct task_play *play = ctx;
    play->start = *start;
    return BASE_OK;
}

static enum base_status upload(void *ctx, uint64_t now_us, const struct wire_upload_record *upload)
{
    struct task_play *play = ctx;
    (void)now_us;
    play->options.upload(play->options.ctx, upload);
    return BASE_OK;
}

static void left_out(void *ctx, uint64_t task_id, const char *why)
{
    struct task_play *play = ctx;
    (void)task_id;
    play->left_out = why;
}

static struct base_str text_keep(uint8_t **at, const void *bytes, size_t size)
{
    struct base_str kept = {(const char *)*at, size};
    if (size > 0) {
        memcpy(*at, bytes, size);
    }
    *at += size;
    return kept;
}

static void on_event(void *ctx, const struct dev_event *event)
{
    struct task_play *play = ctx;
    struct kept *kept = &play->kept;
    if (play->triggered) {
        return;
    }
    if (kept->count == DEV_VM_EVENTS_MAX) {
        kept->full = true;
        return;
    }
    uint8_t *at =
        malloc(event->name.size + event->page.size + event->item.size + event->attrs_bytes + 1);
    if (at == NULL) {
        kept->no_memory = true;
        return;
    }
    struct dev_event *copy = &kept->events[kept->count];
    kept->bytes[kept->count++] = at;
    *copy = *event;
    copy->name = text_keep(&at, event->name.data, event->name.size);
    copy->page = text_keep(&at, event->page.data, event->page.size);
    copy->item = text_keep(&at, event->item.data, event->item.size);
    copy->attrs = (const uint8_t *)text_keep(&at, event->attrs, event->attrs_bytes).data;
}

// ---- Life

static void *block(struct task_play *play, uint32_t index, size_t size)
{
    play->blocks[index] = size > 0 ? aligned_alloc(16, base_aligned(size, 16)) : NULL;
    return play->blocks[index];
}

static enum base_status parts_make(struct task_play *play)
{
    play->store = mem_kv_port(&play->kv);
    size_t size = dev_collect_bytes();
    BASE_TRY(dev_collect_init(block(play, COLLECT, size), size, &play->store, &play->collect));
    const struct dev_recorder_options recorder = {.entropy = 1, .collect = play->collect};
    size = dev_recorder_bytes(&recorder);
    BASE_TRY(dev_recorder_init(block(play, RECORDER, size), size, &recorder, &play->recorder));
    size = dev_feature_store_bytes();
    BASE_TRY(
        dev_feature_store_init(block(play, FEATURES, size), size, play->collect, &play->features));
    const struct dev_pipeline_options pipeline = {
        .collect = play->collect,
        .features = play->features,
        .recorder = play->recorder,
        .memory = base_alloc_heap(),
        .ports = {.ctx = play,
                  .start = start_task,
                  .uploads = {play, upload},
                  .on_event = on_event,
                  .left_out = left_out},
    };
    size = dev_pipeline_bytes(&pipeline);
    BASE_TRY(dev_pipeline_init(block(play, PIPELINE, size), size, &pipeline, &play->pipeline));
    return dev_pipeline_boot(play->pipeline, play->now_us, play->wall_ms);
}

// From here on what the version declares decides what is recorded.
static enum base_status declare(struct task_play *play, struct base_error *error)
{
    const struct wire_manifest *manifest = play->options.manifest;
    const struct dev_pipeline_task task = {.task_id = play->task_id,
                                           .name = manifest->task_name,
                                           .declaration = manifest->declaration};
    enum base_status status = dev_pipeline_declare(play->pipeline, play->now_us, &task, 1);
    if (status == BASE_OK && play->left_out != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "no device takes the version: %s",
                              play->left_out);
    }
    return status == BASE_OK ? BASE_OK
                             : base_error_set(error, status, "%s", base_status_text(status));
}

static bool has_triggers(const struct wire_manifest *manifest)
{
    struct wire_declaration declaration;
    return manifest->declaration.size > 0 &&
           wire_declaration_parse((const uint8_t *)manifest->declaration.data,
                                  manifest->declaration.size, &declaration) == BASE_OK &&
           declaration.trigger_count > 0;
}

static enum base_status open_all(struct task_play *play, struct base_error *error)
{
    BASE_TRY(
        cli_file_read(play->options.path, TASK_PLAY_BYTES_MAX, &play->text, &play->size, error));
    enum base_status status = parts_make(play);
    if (status != BASE_OK) {
        return base_error_set(error, status, "data pipeline: %s", base_status_text(status));
    }
    return play->triggered ? declare(play, error) : BASE_OK;
}

enum base_status task_play_new(const struct task_play_options *options, struct task_play **out,
                               struct base_error *error)
{
    struct task_play *play = calloc(1, sizeof(*play));
    if (play == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    play->options = *options;
    play->now_us = 1;
    play->wall_ms = base_clock_wall_us() / 1000;
    play->task_id = wire_task_id(options->manifest->task_name);
    play->triggered = has_triggers(options->manifest);
    mem_kv_init(&play->kv);
    enum base_status status = open_all(play, error);
    if (status != BASE_OK) {
        task_play_free(play);
        return status;
    }
    *out = play;
    return BASE_OK;
}

void task_play_free(struct task_play *play)
{
    if (play == NULL) {
        return;
    }
    dev_pipeline_done(play->pipeline);
    for (uint32_t i = 0; i < play->kept.count; i++) {
        free(play->kept.bytes[i]);
    }
    for (uint32_t i = 0; i < BLOCKS; i++) {
        free(play->blocks[i]);
    }
    event_line_free(play->taken);
    free(play->input);
    dev_runner_events_done(&play->events);
    mem_kv_done(&play->kv);
    free(play->text);
    free(play);
}

// ---- Playing

// The next line that is not empty; false: there is none.
static bool line_next(struct task_play *play, struct base_str *out)
{
    while (play->at < play->size) {
        const char *text = (const char *)play->text + play->at;
        const char *end = memchr(text, '\n', play->size - play->at);
        size_t size = end != NULL ? (size_t)(end - text) : play->size - play->at;
        play->at += size + 1;
        play->line++;
        if (size > 0) {
            *out = (struct base_str){text, size};
            return true;
        }
    }
    return false;
}

// To a moment: the wall clock goes where it is told, the monotonic one forwards only.
static void clock_move(struct task_play *play, uint64_t wall_ms)
{
    if (play->stats.events > 0 && wall_ms > play->wall_ms) {
        play->now_us += (wall_ms - play->wall_ms) * 1000;
    }
    play->wall_ms = wall_ms;
}

// Does the first pending start time out before `wall_ms`? Then it is that time, and its run is due.
static bool timeout_play(struct task_play *play, uint64_t wall_ms)
{
    uint64_t due_us = dev_pipeline_timeout_due(play->pipeline);
    uint64_t left_ms = due_us > play->now_us ? (due_us - play->now_us) / 1000 : 0;
    if (due_us == UINT64_MAX || play->wall_ms + left_ms > wall_ms) {
        return false;
    }
    clock_move(play, play->wall_ms + left_ms);
    (void)dev_pipeline_step(play->pipeline, play->now_us, play->wall_ms);
    return true;
}

// The next line, until it is played; *out_found false: there is none.
static enum base_status line_take(struct task_play *play, bool *out_found, struct base_error *error)
{
    struct base_error inner = {.status = BASE_OK};
    struct base_str text;
    *out_found = play->taken != NULL || line_next(play, &text);
    if (play->taken != NULL || !*out_found) {
        return BASE_OK;
    }
    enum base_status status = event_line_parse(text, &play->taken, &play->recording, &inner);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.80s, line %u: %.70s", play->options.path,
                              play->line, inner.text);
    }
    if (play->recording.wall_ms == 0) {
        play->recording.wall_ms = play->wall_ms + (play->stats.events > 0 ? TASK_PLAY_GAP_MS : 0);
    }
    return BASE_OK;
}

// Plays the line that was taken.
static enum base_status line_play(struct task_play *play, struct base_error *error)
{
    clock_move(play, play->recording.wall_ms);
    play->recording.mono_us = play->now_us;
    enum base_status status = dev_record(play->recorder, &play->recording);
    event_line_free(play->taken);
    play->taken = NULL;
    if (status != BASE_OK) {
        return base_error_set(error, status, "%.80s, line %u: %s", play->options.path, play->line,
                              base_status_text(status));
    }
    play->stats.events++;
    (void)dev_pipeline_step(play->pipeline, play->now_us, play->wall_ms);
    return BASE_OK;
}

static void job_fill(struct task_play *play, const struct dev_event *events, uint32_t count,
                     struct dev_vm_job *job)
{
    play->asked = (struct dev_vm_features){
        .store = play->features, .now_us = play->now_us, .of = {.task_id = play->task_id}};
    play->data = dev_vm_features_port(&play->asked);
    job->events = events;
    job->event_count = count;
    job->data = &play->data;
    play->stats.runs++;
}

static enum base_status next_match(struct task_play *play, struct dev_vm_job *job,
                                   struct base_error *error)
{
    bool found = true;
    (void)dev_pipeline_step(play->pipeline, play->now_us, play->wall_ms);
    while (play->start.token == 0) {
        BASE_TRY(line_take(play, &found, error));
        if (timeout_play(play, found ? play->recording.wall_ms : UINT64_MAX)) {
            continue; // behind the last event the clock runs on until nothing is pending
        }
        if (!found) {
            return BASE_ERR_NOT_FOUND;
        }
        BASE_TRY(line_play(play, error));
    }
    enum base_status status =
        dev_runner_events_make(play->start.events, play->start.events_bytes, &play->events);
    if (status != BASE_OK) {
        return base_error_set(error, status, "%s", base_status_text(status));
    }
    job_fill(play, play->events.events, play->events.count, job);
    job->events_missing = play->events.missing;
    job->events_timed_out = play->events.timed_out;
    return BASE_OK;
}

static enum base_status all_at_once(struct task_play *play, struct dev_vm_job *job,
                                    struct base_error *error)
{
    const struct kept *kept = &play->kept;
    bool found = !play->over;
    if (play->over) {
        return BASE_ERR_NOT_FOUND;
    }
    while (!kept->full && !kept->no_memory && found) {
        BASE_TRY(line_take(play, &found, error));
        if (found) {
            BASE_TRY(line_play(play, error));
        }
    }
    if (kept->full) {
        return base_error_set(error, BASE_ERR_TOO_LARGE,
                              "%.80s: more than %d events, and the version has no trigger: one run "
                              "takes no more",
                              play->options.path, DEV_VM_EVENTS_MAX);
    }
    if (kept->no_memory) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    play->over = true;
    BASE_TRY(declare(play, error));
    job_fill(play, kept->events, kept->count, job);
    return BASE_OK;
}

enum base_status task_play_next(struct task_play *play, struct dev_vm_job *job,
                                struct base_error *error)
{
    enum base_status status =
        play->triggered ? next_match(play, job, error) : all_at_once(play, job, error);
    bool empty = status == BASE_ERR_NOT_FOUND || status == BASE_OK;
    if (empty && play->stats.events == 0) {
        return base_error_set(error, BASE_ERR_INVALID, "%.100s: no event in it",
                              play->options.path);
    }
    return status;
}

enum base_status task_play_input(struct task_play *play, const uint8_t **out_bytes,
                                 size_t *out_size)
{
    if (play->triggered) {
        *out_bytes = play->start.events;
        *out_size = play->start.events_bytes;
        return BASE_OK;
    }
    free(play->input);
    play->input = NULL;
    size_t size = 0;
    BASE_TRY(dev_runner_events_write(play->kept.events, play->kept.count, &play->input, &size));
    *out_bytes = play->input;
    *out_size = size;
    return BASE_OK;
}

void task_play_ran(struct task_play *play, const struct dev_vm_result *result)
{
    static const enum dev_effect_kind kinds[] = {[DEV_VM_EFFECT_STORE] = DEV_EFFECT_FEATURE,
                                                 [DEV_VM_EFFECT_UPLOAD] = DEV_EFFECT_UPLOAD,
                                                 [DEV_VM_EFFECT_SAVE] = DEV_EFFECT_SAVE};
    struct dev_effect effects[DEV_VM_EFFECTS_ALL];
    for (uint32_t i = 0; i < result->effect_count; i++) {
        const struct dev_vm_effect *from = &result->effects[i];
        effects[i] = (struct dev_effect){
            .kind = kinds[from->kind],
            .name = from->name,
            .key = from->key,
            .time_ms = from->time_ms,
            .format = from->format,
            .bytes = from->bytes,
            .size = from->size,
        };
    }
    const struct dev_pipeline_end end = {
        .ok = result->end == DEV_VM_FINISHED,
        .result = result->result,
        .effects = effects,
        .effect_count = result->effect_count,
    };
    uint64_t token = play->start.token;
    play->start = (struct dev_pipeline_start){0};
    dev_pipeline_on_end(play->pipeline, play->now_us, play->wall_ms,
                        (struct dev_pipeline_run){.token = token, .task_id = play->task_id}, &end);
    dev_pipeline_on_free(play->pipeline, token);
    dev_runner_events_done(&play->events);
}

void task_play_stats(const struct task_play *play, struct task_play_stats *out)
{
    struct dev_pipeline_stats stats;
    dev_pipeline_stats(play->pipeline, &stats);
    *out = play->stats;
    out->matches = stats.matches;
    out->dropped = stats.starts_dropped + stats.starts_lost;
}
