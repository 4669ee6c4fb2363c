// The stub files of what a script may call (device/vm/api): walle/np/__init__.pyi and the like,
// which editors read. Their texts are made by the build, by .ci/script-api; `walle task stubs`
// writes them.
#ifndef TASK_STUBS_H
#define TASK_STUBS_H

#include <stddef.h>
#include <stdint.h>

struct task_stub {
    const char *path; // "walle/np/__init__.pyi": folders, then the file
    const char *text;
    size_t size;
};

extern const struct task_stub task_stubs[];
extern const uint32_t task_stub_count;

#endif
