// Calls of walle.data.upload in a task's scripts: see task_uploads.h. task_build.c calls it, once
// they have compiled, and cli_task_run.c for what a run has uploaded; one thread. The compiler
// tells of the calls (device/vm/vm.h). It warns and refuses nothing: what a script uploads may be
// meant for another version's declaration.
#include "cli/task/task_uploads.h"

#include "cli/task/task_file.h"

#include "base/text/likeness.h"
#include "base/text/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WARNED_MAX 16 // calls of one script

static void warn(const char *file, uint32_t line, struct base_str name,
                 const struct base_nearest *nearest, bool any)
{
    fputs("walle: warning: ", stderr);
    if (file != NULL) {
        base_terminal_text(stderr, base_str_of(file));
        fprintf(stderr, ": line %u: ", line);
    }
    fputs("upload '", stderr);
    base_terminal_text(stderr, name);
    fprintf(stderr,
            "' is not declared: \"uploads\" of task.json %s, and a device drops what goes there",
            any ? "does not have it" : "is missing");
    if (nearest->found != NULL) {
        fprintf(stderr, ": did you mean '%s'?", nearest->found);
    }
    fputc('\n', stderr);
}

// Warns when it is not declared.
static bool check_name(const struct task_source *source, const char *file,
                       const struct dev_vm_upload *upload)
{
    const json_t *uploads = json_object_get(source->document, "uploads");
    struct base_str name = base_str_of(upload->name);
    struct base_nearest nearest = base_nearest_to(name);
    size_t index;
    json_t *item;

    json_array_foreach((json_t *)(uintptr_t)uploads, index, item)
    {
        const char *declared = json_string_value(json_object_get(item, "name"));
        if (declared != NULL && base_str_equal(base_str_of(declared), name)) {
            return false;
        }
        if (declared != NULL) {
            base_nearest_offer(&nearest, declared);
        }
    }
    warn(file, upload->line, name, &nearest, json_array_size(uploads) > 0);
    return true;
}

// Its bytecode has both names: it calls walle.cloud.infer, as it seems.
static bool calls_cloud(const struct dev_vm_compiled *told)
{
    return memmem(told->mpy, told->size, "cloud", 5) != NULL &&
           memmem(told->mpy, told->size, "infer", 5) != NULL;
}

static void warn_of_cloud(const char *file)
{
    fputs("walle: warning: ", stderr);
    base_terminal_text(stderr, base_str_of(file));
    fputs(": calls walle.cloud.infer, as it seems, but task.json has no \"leaves\": a device "
          "refuses each call\n",
          stderr);
}

void task_uploads_warn(const struct task_source *source)
{
    bool declared = json_object_get(source->document, "leaves") != NULL;
    for (uint32_t i = 0; i < source->file_count; i++) {
        const struct task_source_file *file = &source->files[i];
        struct dev_vm_compiled told;
        uint32_t warned = 0;
        if (file->kind != WIRE_FILE_SCRIPT ||
            task_file_compile(file->name, file->path, &told, NULL) != BASE_OK) {
            continue;
        }
        for (uint32_t k = 0; k < told.upload_count && warned < WARNED_MAX; k++) {
            warned += check_name(source, file->name, &told.uploads[k]) ? 1 : 0;
        }
        if (!declared && calls_cloud(&told)) {
            warn_of_cloud(file->name);
        }
        free(told.mpy);
    }
}

void task_uploads_warn_of(const struct wire_declaration *declaration, struct base_str name)
{
    const struct base_nearest nobody = {.found = NULL};

    if (wire_declaration_upload(declaration, name) == NULL) {
        warn(NULL, 0, name, &nobody, declaration->upload_count > 0);
    }
}

bool task_upload_refused(const struct wire_upload_record *upload, char why[GW_SCHEMA_WHY_MAX + 1])
{
    struct gw_schema *schema = NULL;
    struct base_error error = {.status = BASE_OK};
    why[0] = '\0';
    if (upload->schema.size == 0) {
        return false;
    }
    if (gw_schema_parse(upload->schema, &schema, &error) != BASE_OK) {
        (void)snprintf(why, GW_SCHEMA_WHY_MAX + 1, "no schema: %.140s", error.text);
    } else if (upload->format != WIRE_RECORD_JSON) {
        (void)snprintf(why, GW_SCHEMA_WHY_MAX + 1,
                       "a record of bytes, and its upload has a schema");
    } else {
        gw_schema_explain(schema, (struct base_str){(const char *)upload->bytes, upload->size},
                          why);
    }
    gw_schema_free(schema);
    return why[0] != '\0';
}
