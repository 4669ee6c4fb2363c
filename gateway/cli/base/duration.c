// Spans of time in words, and moments as text. Called by plan_show.c and rollout_explain.c for
// spans, and by the commands that print a moment. Apart from them so that the same span reads the
// same everywhere. Pure: the caller brings the time; any thread.
#include "cli/base/duration.h"

#include <stddef.h>
#include <stdio.h>
#include <time.h>

bool duration_text(uint64_t seconds, char out[DURATION_TEXT_MAX])
{
    static const struct {
        uint64_t below; // seconds
        uint64_t unit;
        const char *name;
    } units[] = {{120, 1, "second"},
                 {7200, 60, "minute"},
                 {172800, 3600, "hour"},
                 {UINT64_MAX, 86400, "day"}};
    size_t at = 0;

    while (seconds >= units[at].below && at + 1 < sizeof(units) / sizeof(units[0])) {
        at++;
    }
    uint64_t count = seconds / units[at].unit;
    bool exact = seconds % units[at].unit == 0;
    count += seconds % units[at].unit >= (units[at].unit + 1) / 2 && !exact ? 1 : 0;
    (void)snprintf(out, DURATION_TEXT_MAX, "%llu %s%s", (unsigned long long)count, units[at].name,
                   count == 1 ? "" : "s");
    return exact;
}

const char *time_text(uint64_t unix_s, bool seconds, char out[TIME_TEXT_MAX])
{
    time_t time = (time_t)unix_s;
    struct tm parts;

    (void)snprintf(out, TIME_TEXT_MAX, "?");
    if (gmtime_r(&time, &parts) != NULL) {
        (void)strftime(out, TIME_TEXT_MAX, seconds ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%dT%H:%MZ",
                       &parts);
    }
    return out;
}
