// What the script VM's tests share: a job put together from Python source, compiled as the build
// tool compiles it, and checks of how it ended.
#ifndef VM_KIT_H
#define VM_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/error.h"
#include "vm/vm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIT_MODULES_MAX 8

#ifdef KIT_APART // every run also in a process of its own
#include "vm_kit_apart.h"
#endif

struct vm_kit {
    struct dev_vm *vm;
    uint32_t heap_kib;
    struct dev_vm_module modules[KIT_MODULES_MAX];
    uint8_t *owned[KIT_MODULES_MAX];
    struct dev_vm_job job;
    struct dev_vm_result result;
};

static inline void kit_init(struct vm_kit *kit, uint32_t heap_kib)
{
    memset(kit, 0, sizeof(*kit));
    assert_int_equal(dev_vm_new(heap_kib, &kit->vm), BASE_OK);
    kit->heap_kib = heap_kib;
    kit->job.modules = kit->modules;
    kit->job.entry = BASE_STR("main");
    kit->job.device_id = 0x0123456789abcdefULL;
    kit->job.time_ms = 30000;
}

static inline void kit_modules_drop(struct vm_kit *kit)
{
    for (uint32_t i = 0; i < kit->job.module_count; i++) {
        free(kit->owned[i]);
    }
    kit->job.module_count = 0;
}

static inline void kit_done(struct vm_kit *kit)
{
    kit_modules_drop(kit);
    dev_vm_free(kit->vm);
}

// Adds a module compiled from source; its file name is NAME.py.
static inline void kit_add(struct vm_kit *kit, const char *name, const char *source)
{
    uint32_t at = kit->job.module_count++;
    char file[DEV_VM_FILE_MAX];
    struct base_error error = {.status = BASE_OK};
    size_t size = 0;
    (void)snprintf(file, sizeof(file), "%s.py", name);
    enum base_status status =
        dev_vm_compile(base_str_of(source), base_str_of(file), &kit->owned[at], &size, &error);
    if (status != BASE_OK) {
        fail_msg("%s:%u: %s", file, error.line, error.text);
    }
    kit->modules[at] = (struct dev_vm_module){base_str_of(name), kit->owned[at], size};
}

static inline void kit_run(struct vm_kit *kit)
{
    assert_int_equal(dev_vm_run(kit->vm, &kit->job, &kit->result), BASE_OK);
#ifdef KIT_APART
    kit_run_apart(&kit->job, kit->heap_kib, &kit->result);
#endif
}

// Runs `source` as the only module.
static inline void kit_run_source(struct vm_kit *kit, const char *source)
{
    kit_modules_drop(kit);
    kit_add(kit, "main", source);
    kit_run(kit);
}

static inline void kit_ended(const struct vm_kit *kit, enum dev_vm_end end)
{
    if (kit->result.end != end) {
        fail_msg("ended %s, not %s: %s: %s (%s:%u)", dev_vm_end_name(kit->result.end),
                 dev_vm_end_name(end), kit->result.type, kit->result.message, kit->result.file,
                 kit->result.line);
    }
}

static inline void kit_text_is(struct base_str got, const char *want)
{
    if (!base_str_equal(got, base_str_of(want))) {
        (void)fprintf(stderr, "got '%.*s',\nwant '%s'\n", (int)got.size, got.data, want);
        fail();
    }
}

#endif
