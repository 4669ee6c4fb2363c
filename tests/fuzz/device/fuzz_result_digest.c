// Any bytes as the result of a run: the digest reads nothing behind them, is the same each time,
// and is another one for a list of them.
#include "fuzz_target.h"

#include "core/base/runtime.h"
#include "core/run/result_digest.h"

#include "base/check.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); // exactly as large, so that a byte too far is seen
    char *wrapped = malloc(size + 2);
    if (copy != NULL && wrapped != NULL) {
        memcpy(copy, data, size);
        uint64_t digest = dev_result_digest((struct base_str){copy, size});
        base_check(digest == dev_result_digest((struct base_str){copy, size}));
        wrapped[0] = '[';
        memcpy(wrapped + 1, data, size);
        wrapped[size + 1] = ']';
        base_check(digest != dev_result_digest((struct base_str){wrapped, size + 2}));
    }
    free(copy);
    free(wrapped);
    return 0;
}
