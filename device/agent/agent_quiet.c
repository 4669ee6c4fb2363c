// Holding back what was said already. It stands between the agent's log and standard error
// (device_agent.c sets it up first), and is called by whatever thread speaks, so one mutex guards
// the table of lines.
//
// Lines are the same when they differ only in numbers that stand alone. Of the last
// AGENT_QUIET_LINES different ones each is told again after a gap that doubles from
// AGENT_QUIET_FIRST_S to AGENT_QUIET_LAST_S; debug lines and those of the event source always are.
#include "agent_quiet.h"

#include "base/clock.h"
#include "base/hash.h"

#include <ctype.h>
#include <string.h>

#define SECOND_US 1000000ull

static bool in_word(char c)
{
    return isalnum((unsigned char)c) != 0 || c == '_';
}

// A hash of the text in which every number that stands alone is the same.
static uint64_t hash_of(const char *text)
{
    uint64_t hash = 1;
    const char *at = text;
    while (*at != '\0') {
        size_t digits = strspn(at, "0123456789.");
        bool alone = digits > 0 && !in_word(at[digits]) && (at == text || !in_word(at[-1]));
        size_t size = alone ? digits : 1;
        hash = alone ? base_hash64_seed("#", 1, hash) : base_hash64_seed(at, 1, hash);
        at += size;
    }
    return hash != 0 ? hash : 1;
}

// The one of this hash, else the one that was not seen for longest.
static struct agent_quiet_line *line_of(struct agent_quiet *quiet, uint64_t hash)
{
    struct agent_quiet_line *oldest = &quiet->lines[0];
    for (uint32_t i = 0; i < AGENT_QUIET_LINES; i++) {
        struct agent_quiet_line *line = &quiet->lines[i];
        if (line->hash == hash) {
            return line;
        }
        oldest = line->seen_us < oldest->seen_us ? line : oldest;
    }
    return oldest;
}

bool agent_quiet_says(struct agent_quiet *quiet, const char *text, uint64_t now_us,
                      uint32_t *out_kept)
{
    uint64_t hash = hash_of(text);
    struct agent_quiet_line *line = line_of(quiet, hash);
    bool again = line->hash == hash && now_us < line->seen_us + 2 * line->gap_s * SECOND_US;
    *out_kept = line->hash == hash ? line->kept : 0;
    if (again && now_us < line->due_us) {
        line->seen_us = now_us;
        line->kept++;
        return false;
    }
    uint32_t gap_s = again ? line->gap_s * 2 : AGENT_QUIET_FIRST_S;
    gap_s = gap_s < AGENT_QUIET_LAST_S ? gap_s : AGENT_QUIET_LAST_S;
    *line = (struct agent_quiet_line){
        .hash = hash, .due_us = now_us + gap_s * SECOND_US, .seen_us = now_us, .gap_s = gap_s};
    return true;
}

static void quiet_write(void *ctx, enum base_log_level level, const char *area, const char *text)
{
    struct agent_quiet *quiet = ctx;
    uint32_t kept = 0;
    bool single = level == BASE_LOG_DEBUG || strcmp(area, "events") == 0; // told by who reads them
    (void)pthread_mutex_lock(&quiet->lock);
    bool says = single || agent_quiet_says(quiet, text, base_clock_mono_us(), &kept);
    (void)pthread_mutex_unlock(&quiet->lock);
    if (says && kept > 0) {
        base_log_write(&quiet->under, level, area, "%s (and %u times before, not told)", text,
                       kept);
    } else if (says) {
        quiet->under.write(quiet->under.ctx, level, area, text);
    }
}

void agent_quiet_log(struct agent_quiet *quiet, struct base_log *log, enum base_log_level level)
{
    memset(quiet, 0, sizeof(*quiet));
    (void)pthread_mutex_init(&quiet->lock, NULL);
    base_log_stderr(&quiet->under, level);
    *log = (struct base_log){.ctx = quiet, .level = level, .write = quiet_write};
}
