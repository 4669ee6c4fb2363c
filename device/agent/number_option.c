// A whole number behind an option of the agent. Called by device_agent.c while arguments are
// parsed, on the main thread. A number that is none, 0, or above what the option takes ends the
// program with the option's name and its limits.
#include "number_option.h"

#include "base/str.h"

uint64_t number_option(struct argp_state *state, const char *name, const char *text, uint64_t max)
{
    uint64_t value = 0;
    if (base_str_u64(base_str_of(text), &value) != BASE_OK || value == 0 || value > max) {
        argp_error(state, "--%s: '%s' is not a number from 1 to %llu", name, text,
                   (unsigned long long)max);
    }
    return value;
}
