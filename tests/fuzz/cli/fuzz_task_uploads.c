// Fuzz target of the search for uploads that are not declared: any bytes as a script. It comes to
// its end, and reads nothing that is not the script's.
#include "fuzz_target.h"

#include "base/check.h"
#include "cli/task/task_uploads.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct task_source source;
    static FILE *nowhere;
    if (source.document == NULL) {
        source.document = json_pack("{s:[{s:s}, {s:s}]}", "uploads", "name", "clicks", "name", "a");
        nowhere = fopen("/dev/null", "w");
        base_check(source.document != NULL && nowhere != NULL);
    }
    char *text = malloc(size > 0 ? size : 1); // of its own size: a byte beyond is found
    base_check(text != NULL);
    if (size > 0) {
        memcpy(text, data, size);
    }
    FILE *kept = stderr;
    stderr = nowhere;
    task_uploads_warn_script(&source, "task.py", (struct base_str){text, size});
    stderr = kept;
    free(text);
    return 0;
}
