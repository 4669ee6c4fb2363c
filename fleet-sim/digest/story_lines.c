// Writing the story of a device, line by line. story/device_story.c and faults/fault_wake.c tell it
// while it happens, on the thread that runs the device's shard; run/fleet_virtual.c has it begun
// and ended.
#include "digest/story_lines.h"

#include "base/check.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

#define TEXT_MAX       512
#define PATH_MAX_BYTES 512

enum base_status sim_story_open(struct sim_story *story, const char *folder,
                                struct base_error *error)
{
    char path[PATH_MAX_BYTES];
    (void)snprintf(path, sizeof(path), "%.400s/" SIM_STORY_FILE, folder);
    story->file = fopen(path, "we");
    return story->file != NULL
               ? BASE_OK
               : base_error_set(error, BASE_ERR_IO, "%.200s: %s", path, strerror(errno));
}

void sim_story_write(struct sim_story *story, json_t *event)
{
    bool wrote = event != NULL && json_dumpf(event, story->file, JSON_COMPACT) == 0 &&
                 fputc('\n', story->file) != EOF;
    story->broken = story->broken || !wrote;
    json_decref(event);
}

enum base_status sim_story_close(struct sim_story *story, struct base_error *error)
{
    bool closed = fclose(story->file) == 0;
    story->file = NULL;
    return closed && !story->broken
               ? BASE_OK
               : base_error_set(error, BASE_ERR_IO, SIM_STORY_FILE ": it is not whole");
}

void sim_story_tell(struct sim_story *story, const struct sim_story_event *event,
                    const char *format, ...)
{
    char text[TEXT_MAX];
    char hex[WIRE_SHA256_HEX + 1] = "";
    va_list words;
    base_assert(event->now_us >= story->start_us);
    if (++story->events > SIM_STORY_EVENTS_MAX) {
        return;
    }
    va_start(words, format);
    (void)vsnprintf(text, sizeof(text), format, words);
    va_end(words);
    if (event->manifest != NULL) {
        wire_sha256_hex(event->manifest, hex);
    }
    double t_s = (double)(event->now_us - story->start_us) / 1e6;
    json_t *said = json_string(text); // what a device says may be no UTF-8
    sim_story_write(story, json_pack("{s:f, s:s, s:o, s:s*}", "t_s", t_s, "what", event->what,
                                     "text", said != NULL ? said : json_string("(no text)"),
                                     "manifest", event->manifest != NULL ? hex : NULL));
}
