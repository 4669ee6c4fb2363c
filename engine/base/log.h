// Log port. Cores may log at DEBUG only; programs and handlers log once, at the border.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/status.h"

#include <stddef.h>

BASE_C_BEGIN

enum base_log_level {
    BASE_LOG_ERROR,
    BASE_LOG_WARN,
    BASE_LOG_INFO,
    BASE_LOG_DEBUG,
    BASE_LOG_LEVEL_COUNT
};

struct base_log {
    void *ctx;
    enum base_log_level level; // the most detailed level that is written
    // `text` is one line without newline, valid during the call. Called from any thread that holds
    // the port.
    void (*write)(void *ctx, enum base_log_level level, const char *area, const char *text);
};

// Lines to standard error: "2026-11-21T02:51:00.123Z INFO area: text". Thread-safe.
void base_log_stderr(struct base_log *log, enum base_log_level level);
// printf text, cut at 1,000 bytes; control characters are escaped. `log` NULL is silence.
void base_log_write(const struct base_log *log, enum base_log_level level, const char *area,
                    const char *format, ...) BASE_PRINTF(4, 5);
// "error", "warn", "info", "debug"; INVALID otherwise.
BASE_NODISCARD enum base_status base_log_level_parse(const char *text,
                                                     enum base_log_level *out_level);

// A value to be put between quotes: `text` with its quotes and backslashes escaped, so that no
// value ends before its quote; cut to fit `size` bytes with the end, at least 1. NULL is empty.
// Returns `out`.
const char *base_log_quoted(const char *text, char *out, size_t size);

#define base_log_error(log, area, ...) base_log_write((log), BASE_LOG_ERROR, (area), __VA_ARGS__)
#define base_log_warn(log, area, ...)  base_log_write((log), BASE_LOG_WARN, (area), __VA_ARGS__)
#define base_log_info(log, area, ...)  base_log_write((log), BASE_LOG_INFO, (area), __VA_ARGS__)
#define base_log_debug(log, area, ...) base_log_write((log), BASE_LOG_DEBUG, (area), __VA_ARGS__)

BASE_C_END

#endif
