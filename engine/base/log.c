// Log port: formats a line and hands it to whoever writes.
//
// Called at borders from any thread. The standard-error writer puts a whole line together before
// one write call, so that lines of several threads do not mix; a line that cannot be written is
// lost.
#include "base/log.h"

#include "base/check.h"
#include "base/clock.h"
#include "base/visible.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX       1000u
#define LINE_MAX_BYTES (TEXT_MAX + 128u)

static const char *const level_names[BASE_LOG_LEVEL_COUNT] = {"error", "warn", "info", "debug"};
static const char *const level_tags[BASE_LOG_LEVEL_COUNT] = {"ERROR", "WARN", "INFO", "DEBUG"};

static void write_stderr(void *ctx, enum base_log_level level, const char *area, const char *text)
{
    base_assert((unsigned)level < BASE_LOG_LEVEL_COUNT);
    (void)ctx;
    uint64_t now_us = base_clock_wall_us();
    time_t seconds = (time_t)(now_us / 1000000u);
    unsigned millis = (unsigned)(now_us / 1000u % 1000u);
    struct tm parts;
    memset(&parts, 0, sizeof parts);
    (void)gmtime_r(&seconds, &parts);
    char stamp[32];
    size_t stamp_size = strftime(stamp, sizeof stamp, "%Y-%m-%dT%H:%M:%S", &parts);
    char line[LINE_MAX_BYTES];
    int size = snprintf(line, sizeof line, "%.*s.%03uZ %s %.64s: %s\n", (int)stamp_size, stamp,
                        millis, level_tags[level], area, text);
    if (size <= 0) {
        return;
    }
    size_t bytes = (size_t)size;
    if (bytes >= sizeof line) {
        bytes = sizeof line - 1;
        line[bytes - 1] = '\n';
    }
    ssize_t ignored = write(STDERR_FILENO, line, bytes);
    (void)ignored;
}

void base_log_stderr(struct base_log *log, enum base_log_level level)
{
    *log = (struct base_log){.ctx = NULL, .level = level, .write = write_stderr};
}

void base_log_write(const struct base_log *log, enum base_log_level level, const char *area,
                    const char *format, ...)
{
    if (log == NULL || log->write == NULL || level > log->level || level >= BASE_LOG_LEVEL_COUNT) {
        return;
    }
    char raw[TEXT_MAX + 1];
    va_list args;
    va_start(args, format);
    int size = vsnprintf(raw, sizeof raw, format, args);
    va_end(args);
    if (size < 0) {
        return;
    }
    char text[TEXT_MAX + 1];
    (void)base_visible_text(base_str_of(raw), text, sizeof text);
    log->write(log->ctx, level, area, text);
}

enum base_status base_log_level_parse(const char *text, enum base_log_level *out_level)
{
    if (text == NULL) {
        return BASE_ERR_INVALID;
    }
    for (unsigned i = 0; i < BASE_LOG_LEVEL_COUNT; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *out_level = (enum base_log_level)i;
            return BASE_OK;
        }
    }
    return BASE_ERR_INVALID;
}

const char *base_log_quoted(const char *text, char *out, size_t size)
{
    size_t at = 0;
    base_assert(size > 0); // room for the NUL
    for (; text != NULL && *text != '\0'; text++) {
        bool escaped = *text == '"' || *text == '\\';
        if (at + escaped + 1 >= size) {
            break;
        }
        if (escaped) {
            out[at++] = '\\';
        }
        out[at++] = *text;
    }
    out[at] = '\0';
    return out;
}
