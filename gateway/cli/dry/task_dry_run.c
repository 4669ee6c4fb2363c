// Dry runs, see the header. Each sample is a version loaded anew: what a script keeps (walle.store)
// goes on between the runs of one recording only, as on a device. The clock here decides about
// "time_ms"; on a machine that is busy a run that was over its time is tried again.
#include "cli/dry/task_dry_run.h"

#include "cli/base/cli_json.h"
#include "cli/base/json_place.h"
#include "cli/dry/task_apart.h"
#include "cli/dry/task_load.h"
#include "cli/task/task_play.h"
#include "cli/task/task_samples.h"
#include "cli/task/task_trace.h"
#include "cli/task/task_uploads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS_MAX 512

struct dry {
    const struct task_dry_run *ask;
    struct task_apart *apart;
    struct task_load load;
    struct task_sample sample;
    json_t *runs; // of the sample; borrowed
    enum cli_exit code;
};

// ---- What is said of a failure

// Where task.json sets a limit, or that it does not.
static void setting_words(const struct dry *dry, const char *key, uint32_t value, const char *unit,
                          char out[WORDS_MAX])
{
    char path[CLI_PATH_MAX];
    json_t *document = NULL;
    struct base_error error = {.status = BASE_OK};
    uint32_t line = 0;
    if (snprintf(path, sizeof(path), "%s/task.json", dry->ask->source) < CLI_PATH_MAX &&
        cli_json_load(path, &document, &error) == BASE_OK) {
        line = json_place_line_of(path, document, document, key);
    }
    json_decref(document);
    size_t size = strlen(out);
    if (line > 0) {
        (void)snprintf(out + size, WORDS_MAX - size, "; \"%s\" is %u (task.json: line %u)", key,
                       value, line);
    } else {
        (void)snprintf(out + size, WORDS_MAX - size,
                       "; \"%s\" of task.json is not set: %u %s are the default", key, value, unit);
    }
}

static uint32_t heap_kib_of(const struct dry *dry)
{
    uint32_t heap_kib = dry->load.build.manifest.heap_kib;
    return heap_kib != 0 ? heap_kib : DEV_VM_HEAP_KIB_DEFAULT;
}

static uint32_t time_ms_of(const struct dry *dry)
{
    uint32_t time_ms = dry->load.build.manifest.time_ms;
    return time_ms != 0 ? time_ms : DEV_VM_TIME_MS_DEFAULT;
}

// Which limit it was, and which setting; empty: none.
static void limit_words(const struct dry *dry, const struct dev_vm_result *result,
                        char out[WORDS_MAX])
{
    out[0] = '\0';
    if (result->end == DEV_VM_MEMORY) {
        (void)snprintf(out, WORDS_MAX, ": over the heap's %u KiB", heap_kib_of(dry));
        setting_words(dry, "heap_kib", heap_kib_of(dry), "KiB", out);
    } else if (result->end == DEV_VM_BUDGET) {
        (void)snprintf(out, WORDS_MAX, ": over the run's %u ms, in each of %d tries",
                       time_ms_of(dry), TASK_DRY_TRIES);
        setting_words(dry, "time_ms", time_ms_of(dry), "ms", out);
    } else if (result->end == DEV_VM_STACK) {
        (void)snprintf(out, WORDS_MAX,
                       ": calls went deeper than the %d KiB of C stack that every task has; no "
                       "setting of task.json changes that",
                       DEV_VM_STACK_KIB);
    }
}

static void failure_say(struct dry *dry, const struct dev_vm_result *result)
{
    char place[DEV_VM_FILE_MAX + 32] = "";
    char words[WORDS_MAX];
    char call[DEV_VM_FILE_MAX + 16];
    if (result->line > 0) {
        (void)snprintf(place, sizeof(place), "%s: line %u: ", result->file, result->line);
    }
    (void)snprintf(call, sizeof(call), "%s:%u", result->file, result->line);
    (void)fflush(stdout);
    task_trace_print(stderr, dry->ask->build,
                     result->stack[0] != '\0' || result->line == 0 ? result->stack : call);
    limit_words(dry, result, words);
    dry->code = cli_fail(CLI_EXIT_FAILED, "%s%s, run %zu: %s: %s%s%s%s", place, dry->sample.label,
                         json_array_size(dry->runs), dev_vm_end_name(result->end), result->type,
                         result->message[0] != '\0' ? ": " : "", result->message, words);
}

// ---- Runs

static void run_note(struct dry *dry, const struct dev_vm_result *result)
{
    (void)json_array_append_new(
        dry->runs, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "end", dev_vm_end_name(result->end),
                             "events", (json_int_t)dry->load.job.event_count, "heap_peak_bytes",
                             (json_int_t)result->heap_peak_bytes, "stack_peak_bytes",
                             (json_int_t)result->stack_peak_bytes, "instructions",
                             (json_int_t)result->instructions, "duration_us",
                             (json_int_t)result->duration_us));
}

static enum base_status run_one(struct dry *dry, struct base_str input,
                                const struct dev_vm_result **out, struct base_error *error)
{
    for (uint32_t i = 0; i < TASK_DRY_TRIES; ++i) {
        BASE_TRY(task_apart_run(dry->apart, &dry->load.job, input, out, error));
        if ((*out)->end != DEV_VM_BUDGET) {
            break;
        }
    }
    run_note(dry, *out);
    if ((*out)->end != DEV_VM_FINISHED) {
        failure_say(dry, *out);
    }
    return BASE_OK;
}

// A record that the gateway would refuse fails the dry run, as it fails `walle task run`.
static void on_upload(void *ctx, const struct wire_upload_record *upload)
{
    struct dry *dry = ctx;
    char why[GW_SCHEMA_WHY_MAX + 1];
    if (dry->code == CLI_EXIT_OK && task_upload_refused(upload, why)) {
        dry->code =
            cli_fail(CLI_EXIT_FAILED, "%s, run %zu: upload %.*s: the gateway would refuse it: %s",
                     dry->sample.label, json_array_size(dry->runs), (int)upload->key.name.size,
                     upload->key.name.data, why);
    }
}

static enum base_status play_runs(struct dry *dry, struct task_play *play, struct base_error *error)
{
    enum base_status status = BASE_OK;
    while (dry->code == CLI_EXIT_OK) {
        const struct dev_vm_result *result = NULL;
        const uint8_t *input = NULL;
        size_t size = 0;
        status = task_play_next(play, &dry->load.job, error);
        if (status != BASE_OK) {
            return status == BASE_ERR_NOT_FOUND ? BASE_OK : status; // all was played
        }
        status = task_play_input(play, &input, &size);
        if (status != BASE_OK) {
            return base_error_set(error, status, "%s: %s", dry->sample.label,
                                  base_status_text(status));
        }
        BASE_TRY(run_one(dry, (struct base_str){(const char *)input, size}, &result, error));
        task_play_ran(play, result);
    }
    return BASE_OK;
}

static enum base_status sample_play(struct dry *dry, struct base_error *error)
{
    const struct task_play_options options = {.path = dry->sample.events,
                                              .manifest = &dry->load.build.manifest,
                                              .upload = on_upload,
                                              .ctx = dry};
    struct task_play *play = NULL;
    BASE_TRY(task_play_new(&options, &play, error));
    enum base_status status = play_runs(dry, play, error);
    task_play_free(play);
    return status;
}

static const char *given(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static enum base_status sample_try(struct dry *dry, struct base_error *error)
{
    const struct dev_vm_result *result = NULL;
    const struct task_load_ask ask = {.cli = dry->ask->cli,
                                      .user = dry->sample.user,
                                      .attrs = given(dry->sample.attrs),
                                      .give = given(dry->sample.give),
                                      .input = given(dry->sample.input)};
    BASE_TRY(task_load_open(&dry->load, dry->ask->build, &ask, error));
    if (dry->apart == NULL) {
        struct base_error why = {.status = BASE_OK};
        BASE_TRY(task_apart_new(dry->load.build.manifest.heap_kib, &dry->apart, &why));
        if (!task_apart_has_processes(dry->apart)) {
            fprintf(stderr, "walle: the dry run is in this process, in the same VM: %s\n",
                    cli_shown(why.text));
        }
    }
    return dry->sample.events[0] != '\0' ? sample_play(dry, error)
                                         : run_one(dry, (struct base_str){NULL, 0}, &result, error);
}

static enum cli_exit dry_run_all(struct dry *dry, json_t *list)
{
    struct base_error error = {.status = BASE_OK};
    for (size_t i = 0; i < json_array_size(dry->ask->samples) && dry->code == CLI_EXIT_OK; ++i) {
        enum base_status status =
            task_sample_take(dry->ask->source, dry->ask->samples, i, &dry->sample, &error);
        dry->runs = json_array();
        (void)json_array_append_new(
            list, json_pack("{s:s, s:o}", "sample", dry->sample.label, "runs", dry->runs));
        if (status == BASE_OK) {
            status = sample_try(dry, &error);
        }
        task_load_done(&dry->load);
        if (status != BASE_OK) {
            dry->code = cli_fail(CLI_EXIT_LOCAL, "%s: %s", dry->sample.label,
                                 error.text[0] != '\0' ? error.text : base_status_text(status));
        }
        if (i + 1 < json_array_size(dry->ask->samples)) {
            memset(&dry->load, 0, sizeof(dry->load));
        }
    }
    return dry->code;
}

enum cli_exit task_dry_run(const struct task_dry_run *ask, json_t **out_report)
{
    struct dry *dry = calloc(1, sizeof(*dry));
    json_t *list = json_array();
    *out_report = NULL;
    if (dry == NULL || list == NULL) {
        free(dry);
        json_decref(list);
        return cli_fail(CLI_EXIT_LOCAL, "out of memory");
    }
    dry->ask = ask;
    enum cli_exit code = dry_run_all(dry, list);
    bool apart = dry->apart != NULL && task_apart_has_processes(dry->apart);
    *out_report =
        json_array_size(list) == 0
            ? json_pack("{s:o}", "samples", list)
            : json_pack("{s:s, s:I, s:I, s:I, s:o}", "isolation", apart ? "process" : "thread",
                        "heap_bytes", (json_int_t)heap_kib_of(dry) * 1024, "stack_bytes",
                        (json_int_t)DEV_VM_STACK_KIB * 1024, "time_ms", (json_int_t)time_ms_of(dry),
                        "samples", list);
    task_apart_free(dry->apart);
    free(dry);
    return code;
}

// ---- The table

// The most of a figure in a sample's runs.
static uint64_t most_of(const json_t *runs, const char *figure)
{
    size_t index;
    json_t *run;
    uint64_t most = 0;
    json_array_foreach((json_t *)(uintptr_t)runs, index, run)
    {
        uint64_t value = cli_json_u64(run, figure);
        most = value > most ? value : most;
    }
    return most;
}

void task_dry_run_print(const json_t *report)
{
    const json_t *samples = json_object_get(report, "samples");
    size_t index;
    json_t *sample;
    if (json_array_size(samples) == 0) {
        puts("  dry run: none, the task has no samples: \"samples\" of task.json lists what to try "
             "it with (docs/VM.md)");
        return;
    }
    printf("  %-40s %6s %18s %18s %12s %18s\n", "dry run: most of a run", "runs", "heap, KiB",
           "C stack, KiB", "units", "time, ms");
    json_array_foreach(samples, index, sample)
    {
        const json_t *runs = json_object_get(sample, "runs");
        char heap[40];
        char stack[40];
        char time[40];
        (void)snprintf(heap, sizeof(heap), "%.1f of %llu",
                       (double)most_of(runs, "heap_peak_bytes") / 1024,
                       (unsigned long long)cli_json_u64(report, "heap_bytes") / 1024);
        (void)snprintf(stack, sizeof(stack), "%.1f of %llu",
                       (double)most_of(runs, "stack_peak_bytes") / 1024,
                       (unsigned long long)cli_json_u64(report, "stack_bytes") / 1024);
        (void)snprintf(time, sizeof(time), "%.2f of %llu",
                       (double)most_of(runs, "duration_us") / 1000,
                       (unsigned long long)cli_json_u64(report, "time_ms"));
        printf("  %-40s %6zu %18s %18s %12llu %18s\n", cli_json_text(sample, "sample", "?"),
               json_array_size(runs), heap, stack,
               (unsigned long long)most_of(runs, "instructions"), time);
    }
}
