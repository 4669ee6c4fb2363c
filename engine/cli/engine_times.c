// How long a run takes, for `walle-engine run` and `bench`: the smallest models take less than the
// microsecond that the product's clock counts, so that a measuring program asks the kernel itself.
//
// Called by the commands of this program; no state.
#include "cli/engine_cli.h"

#include "base/check.h"

#include <time.h>

uint64_t eng_cli_now_ns(void)
{
    struct timespec now = {0, 0};
    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0 || now.tv_sec < 0) {
        return 0;
    }
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int eng_cli_ms_digits(uint64_t ns)
{
    int digits = 3; // of milliseconds
    for (uint64_t enough_ns = 100000; digits < 6 && ns < enough_ns; enough_ns /= 10) {
        digits++;
    }
    base_assert(digits >= 3 && digits <= 6);
    return digits;
}
