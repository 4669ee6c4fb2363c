// Reads lines of events and records them (--events). Made by device_agent.c when the first
// check-in's work is done, and driven by a timer of the agent's loop, on its thread. Nothing here
// blocks: files are opened without waiting, and at most EVENT_SOURCE_LINES are recorded before
// others get their turn; a pipe that has nothing is asked again every EVENT_SOURCE_WAIT_MS. Memory
// is one line (EVENT_LINE_MAX); bad lines are counted, and told one by one only for the first few.
#include "event_source.h"

#include "lines/event_lines.h"
#include "posix/posix_port.h"

#include "base/clock.h"
#include "base/os/regular_file.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

struct event_source {
    struct event_source_options options;
    struct event *timer;
    struct event_source_stats stats;
    int fd;
    bool pipe; // by its name
    bool ended;
    bool broken;
    bool skipping;     // the rest of a line that was too long
    size_t skipped;    // bytes of that
    bool waiting;      // said that nobody writes to the pipe
    uint64_t bad_said; // `stats.bad` when a bad line was last told
    uint64_t bad_said_us;
    size_t size;
    char bytes[EVENT_LINE_MAX + 1];
};

// A file of anything else has no line that is good: the log is not filled with it.
static void say_bad(struct event_source *source, const char *why)
{
    uint64_t now_us = base_clock_mono_us();
    uint64_t untold = source->stats.bad++ - source->bad_said;
    if (source->stats.bad > EVENT_SOURCE_BAD_SAID &&
        now_us - source->bad_said_us < EVENT_SOURCE_BAD_GAP_S * 1000000ull) {
        return;
    }
    source->bad_said = source->stats.bad;
    source->bad_said_us = now_us;
    if (untold > 0) {
        base_log_warn(source->options.log, "events", "line %llu: %s; %llu bad before it not told",
                      (unsigned long long)source->stats.lines, why, (unsigned long long)untold);
    } else {
        base_log_warn(source->options.log, "events", "line %llu: %s%s",
                      (unsigned long long)source->stats.lines, why,
                      source->stats.bad == EVENT_SOURCE_BAD_SAID
                          ? "; from here on bad lines are told once a minute"
                          : "");
    }
}

static void line_take(struct event_source *source, struct base_str text)
{
    struct event_line *line = NULL;
    struct dev_recording recording;
    struct base_error error = {0};
    if (source->skipping) { // said when it began
        source->skipping = false;
        return;
    }
    source->stats.lines++;
    if (text.size == 0) {
        return;
    }
    if (event_line_parse(text, &line, &recording, &error) != BASE_OK) {
        say_bad(source, error.text);
        return;
    }
    enum base_status status = posix_record(source->options.recorder, &recording);
    if (status == BASE_OK) {
        source->stats.recorded++;
    } else {
        say_bad(source, base_status_text(status));
    }
    event_line_free(line);
}

// Whole lines that are there, at most EVENT_SOURCE_LINES. True: there may be more.
static bool lines_take(struct event_source *source)
{
    size_t at = 0;
    uint32_t taken = 0;
    while (taken < EVENT_SOURCE_LINES) {
        const char *end = memchr(source->bytes + at, '\n', source->size - at);
        if (end == NULL) {
            break;
        }
        size_t size = (size_t)(end - source->bytes) - at;
        line_take(source, (struct base_str){source->bytes + at, size});
        at += size + 1;
        taken++;
    }
    memmove(source->bytes, source->bytes + at, source->size - at);
    source->size -= at;
    return taken == EVENT_SOURCE_LINES;
}

static void end(struct event_source *source)
{
    if (source->size > 0 || source->skipping) { // the last line has no end
        line_take(source, (struct base_str){source->bytes, source->size});
        source->size = 0;
    }
    source->ended = true;
    if (source->stats.bad > 0 && source->stats.recorded == 0) {
        base_log_error(source->options.log, "events",
                       "%s: none of its %llu lines is an event, nothing was recorded",
                       source->options.path, (unsigned long long)source->stats.lines);
        source->broken = true;
    }
}

// A line that does not fit is dropped to its end. False: it has none.
static bool skip(struct event_source *source)
{
    char text[64];
    if (!source->skipping) {
        source->skipping = true;
        source->skipped = 0;
        source->stats.lines++;
        (void)snprintf(text, sizeof(text), "longer than %d bytes; skipped", EVENT_LINE_MAX);
        say_bad(source, text);
    }
    source->skipped += source->size;
    source->size = 0;
    return source->skipped <= EVENT_SOURCE_SKIP_MAX;
}

// Nobody has opened the pipe for writing yet: it is no end that there is nothing to read.
static bool awaits_writer(struct event_source *source)
{
    struct pollfd look = {.fd = source->fd, .events = POLLIN};
    if (!source->pipe || poll(&look, 1, 0) != 0) {
        return false;
    }
    if (!source->waiting) {
        source->waiting = true;
        base_log_info(source->options.log, "events", "%s: waiting for somebody to write to it",
                      source->options.path);
    }
    return true;
}

// True: there may be more at once.
static bool fill(struct event_source *source)
{
    if (source->size == EVENT_LINE_MAX && !skip(source)) {
        base_log_error(source->options.log, "events",
                       "line %llu: no end within %u bytes: %s holds no lines of events",
                       (unsigned long long)source->stats.lines, EVENT_SOURCE_SKIP_MAX,
                       source->options.path);
        source->broken = true;
        source->ended = true;
        return false;
    }
    ssize_t got = read(source->fd, source->bytes + source->size, EVENT_LINE_MAX - source->size);
    if (got > 0) {
        source->size += (size_t)got;
        return true;
    }
    if (got < 0 && errno != EAGAIN && errno != EINTR) {
        base_log_error(source->options.log, "events", "%s: %s", source->options.path,
                       strerror(errno));
        source->broken = true;
        source->ended = true;
    } else if (got == 0 && !awaits_writer(source)) {
        end(source);
    }
    return false;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    struct event_source *source = arg;
    bool more = lines_take(source) || fill(source);
    if (!source->ended) {
        struct timeval wait = {.tv_usec = more ? 0 : EVENT_SOURCE_WAIT_MS * 1000};
        event_add(source->timer, &wait);
    } else {
        source->options.ended(source->options.ctx, source->broken);
    }
}

// A regular file of a disk? What the kernel makes up may never end (/proc/kmsg), be no text
// (/proc/self/mem), or be taken from its other readers.
static enum base_status check_kept(int fd, const char *path, struct base_error *error)
{
    struct statfs about;
    BASE_TRY(base_regular_check(fd, path, error));
    if (fstatfs(fd, &about) != 0) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    bool made_up = about.f_type == PROC_SUPER_MAGIC || about.f_type == SYSFS_MAGIC ||
                   about.f_type == DEBUGFS_MAGIC || about.f_type == TRACEFS_MAGIC;
    return made_up ? base_error_set(error, BASE_ERR_INVALID,
                                    "%.200s: made up by the kernel, not a file of events", path)
                   : BASE_OK;
}

// Standard input is others' too, and so is what is set for it: a pipe is opened anew, for that does
// not block here alone. What cannot be is shared as it is.
static int open_input(void)
{
    struct stat about;
    int fd = -1;
    if (fstat(STDIN_FILENO, &about) == 0 && S_ISFIFO(about.st_mode)) {
        fd = open("/proc/self/fd/0", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    }
    return fd >= 0 ? fd : dup(STDIN_FILENO);
}

// Standard input, a file, or a pipe, which goes on until it is closed. A device has no end.
// *out_pipe: a pipe with a name, which somebody may open for writing later.
static enum base_status source_open(const char *path, int *out_fd, bool *out_pipe,
                                    struct base_error *error)
{
    struct stat about;
    bool given = strcmp(path, "-") == 0;
    *out_fd = given ? open_input() : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*out_fd < 0 || evutil_make_socket_nonblocking(*out_fd) != 0 ||
        fstat(*out_fd, &about) != 0) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    *out_pipe = !given && S_ISFIFO(about.st_mode);
    return given || *out_pipe ? BASE_OK : check_kept(*out_fd, path, error);
}

enum base_status event_source_new(struct event_base *base,
                                  const struct event_source_options *options,
                                  struct event_source **out, struct base_error *error)
{
    struct event_source *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        return base_error_set(error, BASE_ERR_NOMEM, "out of memory");
    }
    source->options = *options;
    enum base_status status = source_open(options->path, &source->fd, &source->pipe, error);
    if (status == BASE_OK) {
        struct timeval now = {0};
        source->timer = event_new(base, -1, 0, on_timer, source);
        if (source->timer == NULL || event_add(source->timer, &now) != 0) {
            status = base_error_set(error, BASE_ERR_NOMEM, "out of memory");
        }
    }
    if (status != BASE_OK) {
        event_source_free(source);
        return status;
    }
    *out = source;
    return BASE_OK;
}

void event_source_free(struct event_source *source)
{
    if (source == NULL) {
        return;
    }
    if (source->timer != NULL) {
        event_free(source->timer);
    }
    if (source->fd >= 0) {
        (void)close(source->fd);
    }
    free(source);
}

bool event_source_ended(const struct event_source *source)
{
    return source->ended;
}

void event_source_stats(const struct event_source *source, struct event_source_stats *out)
{
    *out = source->stats;
}
