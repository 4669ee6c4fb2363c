// The end of a run as it may be told to others. Called by device_run.c and device_shadow.c before
// an outcome is made; the embedding app hears the whole.
//
// An exception's text can hold anything a script has read, and so can the name of a class that it
// made. Of a version with "leaves" therefore only this is told, unless it lets words go: the type,
// where it is one of Python's own; the file, where it is one of the version's, as the manifest
// calls it; the line. Whoever knows the script knows what stands there.
#include "core/run/run_told.h"

#include "core/run/run_parts.h"

#include "base/check.h"
#include "base/hash.h"

#include <stdio.h>

#define LINE_MAX_TOLD    65535u
#define CLOUD_TOLD_FIRST 8u // decisions; of fewer the first run tells alone

static bool type_known(struct base_str type)
{
    static const char *const types[] = {
        "ArithmeticError",  "AssertionError", "AttributeError",    "BaseException",
        "EOFError",         "Exception",      "GeneratorExit",     "ImportError",
        "IndentationError", "IndexError",     "KeyError",          "KeyboardInterrupt",
        "LookupError",      "MemoryError",    "NameError",         "NotImplementedError",
        "OSError",          "OverflowError",  "RuntimeError",      "StopAsyncIteration",
        "StopIteration",    "SyntaxError",    "SystemExit",        "TypeError",
        "UnicodeError",     "ValueError",     "ZeroDivisionError",
    };
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (base_str_equal(type, base_str_of(types[i]))) {
            return true;
        }
    }
    return false;
}

// "features" of "features.py" and "features.mpy".
static struct base_str stem(struct base_str name)
{
    size_t size = name.size;
    while (size > 0 && name.data[size - 1] != '.' && name.data[size - 1] != '/') {
        size--;
    }
    return size > 0 && name.data[size - 1] == '.' ? (struct base_str){name.data, size - 1} : name;
}

// The script of the version that the task's process speaks of, as the manifest calls it without its
// ending: no byte that the process sent is in it. In *manifest; empty: there is none.
static struct base_str file_known(const struct dev_run *run, struct base_str file,
                                  struct wire_manifest *manifest)
{
    base_assert(run->manifest != NULL);
    if (file.size == 0 ||
        wire_manifest_again(run->manifest, run->manifest_bytes, manifest) != BASE_OK) {
        return (struct base_str){NULL, 0};
    }
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        struct base_str name = stem(manifest->files[i].name);
        if (manifest->files[i].kind == WIRE_FILE_SCRIPT && base_str_equal(name, stem(file))) {
            return name;
        }
    }
    return (struct base_str){NULL, 0};
}

// "ValueError (features.py:41)"
static void place_write(const struct dev_run *run, const struct dev_task_end *end, char *out,
                        size_t capacity)
{
    const struct dev_task_place *place = &end->place;
    const char *type = place->type[0] == '\0'                 ? wire_outcome_name(end->outcome)
                       : type_known(base_str_of(place->type)) ? place->type
                                                              : "Exception";
    struct wire_manifest manifest;
    struct base_str file = file_known(run, base_str_of(place->file), &manifest);
    if (file.size > 0 && place->line <= LINE_MAX_TOLD) {
        (void)snprintf(out, capacity, "%s (%.*s.py:%u)", type, (int)file.size, file.data,
                       (unsigned)place->line);
    } else {
        (void)snprintf(out, capacity, "%s", type);
    }
}

const struct dev_task_end *dev_run_told(struct dev_runtime *runtime, const struct dev_task_end *end,
                                        struct dev_told *told)
{
    const struct dev_run *run = dev_run_current(runtime);
    base_assert(run->run != 0);
    if (!run->quiet || end->place.of_port || !wire_outcome_is_failure(end->outcome)) {
        return end;
    }
    told->end = *end;
    place_write(run, end, told->detail, sizeof(told->detail));
    told->end.detail = base_str_of(told->detail);
    told->end.fingerprint = base_hash64(told->end.detail.data, told->end.detail.size);
    return &told->end;
}

void dev_run_count_cloud(struct dev_task *task, const struct dev_task_end *end)
{
    base_assert(!task->shadow);
    if (wire_cloud_add(&task->runs.clouds.counts, &end->cloud)) {
        task->runs.clouds.told /= 2;
    }
}

bool dev_run_cloud_is_news(const struct dev_task *task)
{
    uint32_t asked = task->runs.clouds.counts.asked;
    base_assert(!task->shadow);
    return asked >= CLOUD_TOLD_FIRST && asked >= 2u * task->runs.clouds.told;
}

struct wire_figures dev_run_figures(const struct dev_runtime *runtime, const struct dev_task *task,
                                    const struct dev_task_end *end)
{
    struct wire_figures figures = {
        .heap_peak_bytes = end->heap_peak_bytes,
        .left_out = end->left_out,
        .privacy_refusals = (uint64_t)end->refused + dev_run_current(runtime)->refused,
    };
    if (!task->shadow && task->runs.clouds.counts.asked > 0) {
        wire_cloud_figures_set(&figures, &task->runs.clouds.counts);
    }
    return figures;
}

void dev_run_refused(struct dev_runtime *runtime, uint32_t count)
{
    struct dev_run *run = dev_run_current(runtime);
    if (run->run != 0) {
        run->refused += count;
    }
}
