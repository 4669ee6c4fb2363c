// Fuzz target of what the compiler tells of a source: any bytes as a script. It comes to its end,
// and tells names that end, of lines that the source has.
#include "fuzz_target.h"

#include "base/check.h"
#include "vm/vm.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct dev_vm_compiled told;
    uint32_t lines = 1;
    char *text = malloc(size > 0 ? size : 1); // of its own size: a byte beyond is found
    base_check(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    for (size_t i = 0; i < size; i++) {
        lines += text[i] == '\n' || text[i] == '\r';
    }
    if (dev_vm_compile_told((struct base_str){text, size}, BASE_STR("task.py"), &told, NULL) ==
        BASE_OK) {
        base_check(told.upload_count <= DEV_VM_UPLOADS_MAX);
        for (uint32_t i = 0; i < told.upload_count; i++) {
            base_check(memchr(told.uploads[i].name, '\0', DEV_VM_UPLOAD_MAX) != NULL);
            base_check(told.uploads[i].line >= 1 && told.uploads[i].line <= lines + 1);
        }
        free(told.mpy);
    }
    free(text);
    return 0;
}
