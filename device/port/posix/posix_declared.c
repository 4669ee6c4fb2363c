// Manifests of active versions, opened for the data pipeline. Called by posix_pipeline.c and by the
// fleet simulator's fleet_pipeline.c, on the runtime's thread, when the set of active versions has
// changed. Shared by the two because what a version declares, and which dictionary its uploads are
// compressed with, must be found the same way on a device and in a simulation. Contents are proven
// by the runtime (dev_content_open) before they are read.
#include "posix/posix_declared.h"

#include "wire/tunnel_dict.h"

static void dictionaries(const struct wire_manifest *manifest, struct dev_runtime *runtime,
                         posix_dictionary_fn dictionary, void *ctx)
{
    for (uint32_t i = 0; i < manifest->file_count; i++) {
        const struct wire_manifest_file *file = &manifest->files[i];
        const uint8_t *bytes = NULL;
        size_t size = 0;
        if (file->kind == WIRE_FILE_DATA &&
            base_str_equal(file->name, BASE_STR(WIRE_TUNNEL_DICT_FILE)) &&
            dev_content_open(runtime, &file->digest, file->bytes, &bytes, &size) == BASE_OK) {
            dictionary(ctx, manifest->task_name, &file->digest, bytes, size);
            dev_content_close(runtime, &file->digest, bytes, size);
        }
    }
}

void posix_declared_open(struct posix_declared *declared, struct dev_runtime *runtime,
                         posix_dictionary_fn dictionary, void *ctx)
{
    declared->count = 0;
    for (uint32_t i = 0; i < dev_task_count(runtime) && declared->count < DEV_TASKS_MAX; i++) {
        uint32_t at = declared->count;
        if (dev_active_open(runtime, i, &declared->bytes[at], &declared->sizes[at]) != BASE_OK) {
            continue;
        }
        if (wire_manifest_parse(declared->bytes[at], declared->sizes[at], &declared->manifest) !=
            BASE_OK) {
            dev_active_close(runtime, i, declared->bytes[at], declared->sizes[at]);
            continue;
        }
        declared->tasks[at] = (struct dev_pipeline_task){
            .task_id = wire_task_id(declared->manifest.task_name),
            .name = declared->manifest.task_name,
            .declaration = declared->manifest.declaration,
        };
        declared->indexes[at] = i;
        declared->count++;
        dictionaries(&declared->manifest, runtime, dictionary, ctx);
    }
}

void posix_declared_close(struct posix_declared *declared, struct dev_runtime *runtime)
{
    for (uint32_t i = 0; i < declared->count; i++) {
        dev_active_close(runtime, declared->indexes[i], declared->bytes[i], declared->sizes[i]);
    }
    declared->count = 0;
}

void posix_declared_keep(struct dev_runtime *runtime, struct dev_pipeline *pipeline,
                         uint64_t now_us)
{
    uint64_t ids[2 * DEV_TASKS_MAX]; // a shadow is one more
    uint32_t count = 0;
    struct dev_task_view view;
    while (count < 2 * DEV_TASKS_MAX && dev_task_view(runtime, count, &view) == BASE_OK) {
        ids[count++] = wire_task_id(view.name);
    }
    dev_pipeline_tasks_keep(pipeline, now_us, ids, count);
}
